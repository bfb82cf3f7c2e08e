//! Stores many texts in one buffer, most of them only once, and refers to each text by a number.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Many texts, stored one after the other in one buffer. The number of a text is its index, in the
/// order in which the texts were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPool {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl TextPool {
    /// Appends a text to the pool and returns its number. The caller keeps the pool below 4 GiB.
    pub(crate) fn push(&mut self, text: &[u8]) -> u32 {
        let id = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(text);
        self.ends
            .push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        id
    }

    /// The text for which [`push`](Self::push) returned this number.
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 {
            0
        } else {
            self.ends[id - 1] as usize
        };
        &self.bytes[start..self.ends[id] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All texts, concatenated without separators, for searching all of them at once.
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of the text that a byte of [`all`](Self::all) belongs to.
    pub(crate) fn at(&self, byte: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= byte)
    }

    /// The offset in [`all`](Self::all) of the byte after the text with a given number.
    pub(crate) fn end(&self, id: usize) -> usize {
        self.ends
            .get(id)
            .map_or(self.bytes.len(), |end| *end as usize)
    }

    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// A pool of texts that assigns equal texts the same number.
///
/// When nearly every text is new, such as metadata with a step counter, lookups cost time and save
/// no memory, so texts are then appended without a lookup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interner {
    pool: TextPool,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    lookups: usize,
}

/// Number of texts that are always looked up. Later texts are looked up only as long as at least
/// half of the texts looked up so far were already in the pool.
const TRIAL: usize = 1024;

impl Interner {
    /// The number of a text. A text that is not in the pool, or is not looked up, is added.
    pub(crate) fn intern(&mut self, text: &[u8]) -> u32 {
        if self.lookups >= TRIAL && self.pool.len() * 2 > self.lookups {
            return self.pool.push(text);
        }
        self.lookups += 1;
        let hash = self.hasher.hash_one(text);
        if let Some(id) = self.table.find(hash, |id| self.pool.get(*id) == text) {
            return *id;
        }
        let id = self.pool.push(text);
        let (pool, hasher) = (&self.pool, &self.hasher);
        self.table
            .insert_unique(hash, id, |id| hasher.hash_one(pool.get(*id)));
        id
    }

    /// Number of bytes of all texts in the pool.
    pub(crate) fn size(&self) -> usize {
        self.pool.bytes.len()
    }

    /// Returns the texts without the lookup table, which is needed only to add texts.
    pub(crate) fn into_pool(mut self) -> TextPool {
        self.pool.shrink();
        self.pool
    }
}

/// The texts of a chunk's columns of event types and contexts.
pub(crate) type Strings = TextPool;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_a_number() {
        let mut interner = Interner::default();
        let first = interner.intern(b"sample");
        let second = interner.intern(b"");
        assert_eq!(interner.intern(b"sample"), first);
        assert_ne!(first, second);
        let pool = interner.into_pool();
        assert_eq!(pool.get(first), b"sample");
        assert_eq!(pool.get(second), b"");
    }

    #[test]
    fn texts_that_never_repeat_are_still_kept() {
        let mut interner = Interner::default();
        let ids: Vec<u32> = (0..3000)
            .map(|n| interner.intern(format!("{n}").as_bytes()))
            .collect();
        let pool = interner.into_pool();
        assert!(
            ids.iter()
                .enumerate()
                .all(|(n, id)| pool.get(*id) == format!("{n}").as_bytes())
        );
    }
}
