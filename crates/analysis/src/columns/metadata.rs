//! Stores the metadata of events. Metadata are stored as JSON text or, if they differ from others
//! only in their integers, as these integers and a shared skeleton (the text without them).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use stormlog_format::skeleton::{Numbered, Skeleton};

use super::interner::{Interner, TextPool};

/// The bit that is set in the number (id) of metadata that are stored as integers and a skeleton.
/// The other bits are the index in [`MetadataPool::numbered`].
const NUMBERED: u32 = 1 << 31;

/// Maximum number of different skeletons in a pool, because each new skeleton is compared with all
/// of them. Metadata with further skeletons are stored as text.
const MOST_SKELETONS: usize = 256;

/// How many skeletons that did not fit into the pool are remembered.
const MOST_REFUSED: usize = 4;

/// The metadata of the events of a chunk. Events refer to their metadata by a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetadataPool {
    pub(super) texts: TextPool,
    skeletons: Vec<Arc<Skeleton>>,
    /// For metadata that are stored as integers: the index of their skeleton in `skeletons`, and
    /// the index in `integers` after their last integer.
    numbered: Vec<(u32, u32)>,
    integers: Vec<i64>,
}

impl MetadataPool {
    /// The skeleton and the integers of the metadata with a given number; `None` if they are stored
    /// as text.
    pub(super) fn numbers(&self, id: u32) -> Option<Numbered<'_>> {
        let index = (id & !NUMBERED) as usize;
        if id & NUMBERED == 0 {
            return None;
        }
        let (skeleton, end) = self.numbered[index];
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.numbered[before].1);
        Some(Numbered {
            skeleton: &self.skeletons[skeleton as usize],
            integers: &self.integers[start as usize..end as usize],
        })
    }

    /// The complete JSON text of the metadata with a given number.
    pub(super) fn json(&self, id: u32) -> Cow<'_, [u8]> {
        match self.numbers(id) {
            Some(numbers) => numbers.to_text().into(),
            None => self.texts.get(id).into(),
        }
    }

    /// The JSON text of the metadata with a given number; integers may be missing.
    pub(super) fn words(&self, id: u32) -> &[u8] {
        match self.numbers(id) {
            Some(numbers) => numbers.skeleton.constants(),
            None => self.texts.get(id),
        }
    }

    /// Whether a filter accepts the metadata with a given number. The filter looks only at texts,
    /// not at integers; `of_texts` and `of_skeletons` have its answers for all texts and skeletons
    /// of the pool.
    pub(super) fn answer(&self, id: u32, of_texts: &[bool], of_skeletons: &[bool]) -> bool {
        let answer = if id & NUMBERED == 0 {
            of_texts.get(id as usize)
        } else {
            let (skeleton, _) = self.numbered[(id & !NUMBERED) as usize];
            of_skeletons.get(skeleton as usize)
        };
        answer.copied().unwrap_or(false)
    }

    pub(super) fn skeletons(&self) -> &[Arc<Skeleton>] {
        &self.skeletons
    }
}

/// Builds a [`MetadataPool`] from the metadata of single events.
#[derive(Debug, Default)]
pub(super) struct MetadataBuilder {
    pool: MetadataPool,
    texts: Interner,
    skeleton_bytes: usize,
    /// The last skeletons that did not fit into the pool. They are remembered so that they are not
    /// compared with all skeletons of the pool again for each event.
    refused: VecDeque<Arc<Skeleton>>,
}

impl MetadataBuilder {
    /// Adds metadata that are given as JSON text, and returns their number.
    pub(super) fn text(&mut self, json: &[u8]) -> u32 {
        self.texts.intern(json)
    }

    /// Adds metadata that are given as integers and a skeleton, and returns their number; `None`
    /// when there are too many different skeletons.
    pub(super) fn numbers(&mut self, numbers: Numbered<'_>) -> Option<u32> {
        let skeleton = self.skeleton(numbers.skeleton)?;
        let pool = &mut self.pool;
        let id = u32::try_from(pool.numbered.len()).ok()?;
        pool.integers.extend_from_slice(numbers.integers);
        let end = u32::try_from(pool.integers.len()).ok()?;
        pool.numbered.push((skeleton, end));
        Some(id | NUMBERED)
    }

    fn skeleton(&mut self, skeleton: &Arc<Skeleton>) -> Option<u32> {
        let mut refused = self.refused.iter();
        if refused.any(|one| Arc::ptr_eq(one, skeleton)) {
            return None;
        }
        let known = &mut self.pool.skeletons;
        // Neighbouring events have few different skeletons, so the search starts with the skeletons
        // that were added last.
        let same = known.iter().rposition(|one| Arc::ptr_eq(one, skeleton));
        let equal = || known.iter().position(|one| one == skeleton);
        let index = match same.or_else(equal) {
            Some(index) => index,
            None if known.len() == MOST_SKELETONS => {
                self.refused.truncate(MOST_REFUSED - 1);
                self.refused.push_front(Arc::clone(skeleton));
                return None;
            }
            None => {
                known.push(Arc::clone(skeleton));
                self.skeleton_bytes += skeleton.constants().len();
                known.len() - 1
            }
        };
        u32::try_from(index).ok()
    }

    /// Approximate number of bytes that the metadata added so far take.
    pub(super) fn size(&self) -> usize {
        self.texts.size() + self.skeleton_bytes + size_of_val(self.pool.integers.as_slice())
    }

    pub(super) fn finish(self) -> MetadataPool {
        let mut pool = self.pool;
        pool.texts = self.texts.into_pool();
        pool.integers.shrink_to_fit();
        pool.numbered.shrink_to_fit();
        pool
    }
}

#[cfg(test)]
mod tests {
    use stormlog_format::skeleton::Matcher;

    use super::*;

    #[test]
    fn skeletons_beyond_the_limit_are_refused_each_time() {
        let mut builder = MetadataBuilder::default();
        for number in 0..MOST_SKELETONS + 2 * MOST_REFUSED {
            let text = format!(r#"{{"key_{number}": 7}}"#);
            let mut matcher = Matcher::default();
            matcher.learn(text.as_bytes());
            matcher.matches(text.as_bytes());
            let numbers = matcher.matched().expect("an integer");
            for _ in 0..2 {
                let id = builder.numbers(numbers);
                assert_eq!(id.is_some(), number < MOST_SKELETONS, "{text}");
            }
        }
        assert!(builder.refused.len() <= MOST_REFUSED);
        assert_eq!(builder.finish().skeletons().len(), MOST_SKELETONS);
    }
}
