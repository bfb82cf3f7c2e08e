//! A map that keeps its entries in the order in which their keys were added.

use std::hash::Hash;

use hashbrown::HashMap;

/// A map that keeps its entries in the order in which their keys were added.
#[derive(Debug, Default)]
pub(crate) struct InOrder<K, V> {
    indices: HashMap<K, usize>,
    entries: Vec<(K, V)>,
}

impl<K: Clone + Eq + Hash, V: Default> InOrder<K, V> {
    /// The index of the entry with a key. If there is none, an entry with a default value is added.
    pub(crate) fn index_of(&mut self, key: K) -> usize {
        *self.indices.entry(key).or_insert_with_key(|key| {
            self.entries.push((key.clone(), V::default()));
            self.entries.len() - 1
        })
    }

    /// The value of the entry with an index that [`index_of`](Self::index_of) returned.
    pub(crate) fn at(&mut self, index: usize) -> &mut V {
        &mut self.entries[index].1
    }

    /// The value of a key. If there is none, an entry with a default value is added.
    pub(crate) fn entry(&mut self, key: K) -> &mut V {
        let index = self.index_of(key);
        self.at(index)
    }

    /// The keys with their values, in order.
    pub(crate) fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }
}
