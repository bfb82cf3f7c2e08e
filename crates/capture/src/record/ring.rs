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

    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
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
