//! Keeps the last entries of a sequence and counts the entries that were dropped.

use std::collections::VecDeque;

/// A queue of at most `capacity` entries; when it is full, each new entry drops the oldest.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    entries: VecDeque<T>,
    capacity: usize,
    dropped: u64,
}

impl<T> Ring<T> {
    /// Makes an empty queue; its memory is allocated as entries arrive, not in advance.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            capacity: capacity.max(1),
            dropped: 0,
        }
    }

    /// Adds an entry. When there is no memory for more entries, it takes the place of the oldest.
    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() == self.capacity || !self.has_room() {
            self.entries.pop_front();
            self.dropped += 1;
        }
        // Without memory for a single entry, the new entry is the one that is dropped.
        if self.has_room() {
            self.entries.push_back(entry);
        }
    }

    /// Whether one more entry fits into the queue's memory, which may grow for it. Rust would end
    /// the process if `push_back` could not allocate.
    fn has_room(&mut self) -> bool {
        self.entries.len() < self.entries.capacity() || self.entries.try_reserve(1).is_ok()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.dropped = 0;
    }

    /// Frees the memory of the queue that no entry uses.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.entries.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_and_counts_the_rest() {
        let mut ring = Ring::new(2);
        (0..5).for_each(|number| ring.push(number));
        assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(ring.dropped(), 3);
        ring.clear();
        assert_eq!((ring.len(), ring.dropped()), (0, 0));
    }
}
