//! The lines of the program and the memory they hold: a line holds the memory that it allocated,
//! until the memory is freed.

use std::collections::HashMap;

/// Maximum number of program lines that are listed.
const MOST_HOLDERS: usize = 50;
/// Maximum number of tensor names that are listed per program line.
const MOST_NAMES: usize = 3;

/// A line of the program, and the memory that it allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The program line as text, or a label when the line is unknown.
    pub place: String,
    /// Bytes that the line held at the peak.
    pub at_peak_bytes: i64,
    /// Bytes that the line holds at the time of the snapshot.
    pub now_bytes: i64,
    /// Number of allocations by the line in the recorded history.
    pub allocations: usize,
    /// Sum of all allocations by the line in the recorded history, in bytes.
    pub allocated_bytes: i64,
    /// Some names of the live tensors that the line allocated.
    pub names: Vec<String>,
}

impl Holder {
    /// Adds the name of a tensor that the line allocated.
    pub(super) fn add_name(&mut self, name: Option<&String>) {
        if let Some(name) = name
            && self.names.len() < MOST_NAMES
            && !self.names.contains(name)
        {
            self.names.push(name.clone());
        }
    }
}

/// The lines of the program that allocated memory, each listed once.
pub(super) struct Lines {
    places: HashMap<String, usize>,
    pub(super) holders: Vec<Holder>,
    nowhere: &'static str,
}

impl Lines {
    /// Creates an empty list of lines. Memory without a known line gets the label `words`.
    pub(super) fn without_place(words: &'static str) -> Self {
        Self {
            places: HashMap::new(),
            holders: Vec::new(),
            nowhere: words,
        }
    }

    /// The index of the entry for memory without a known line.
    pub(super) fn nowhere(&mut self) -> usize {
        self.named(self.nowhere.to_owned())
    }

    pub(super) fn named(&mut self, place: String) -> usize {
        let holders = &mut self.holders;
        *self.places.entry(place).or_insert_with_key(|place| {
            holders.push(Holder {
                place: place.clone(),
                at_peak_bytes: 0,
                now_bytes: 0,
                allocations: 0,
                allocated_bytes: 0,
                names: Vec::new(),
            });
            holders.len() - 1
        })
    }

    pub(super) fn sum_at_peak(&self) -> i64 {
        let bytes = self.holders.iter().map(|holder| holder.at_peak_bytes);
        bytes.fold(0, i64::saturating_add)
    }

    pub(super) fn largest(mut self) -> Vec<Holder> {
        self.holders.sort_by(|a, b| {
            let size = |one: &Holder| (one.at_peak_bytes, one.now_bytes, one.allocated_bytes);
            size(b).cmp(&size(a)).then_with(|| a.place.cmp(&b.place))
        });
        self.holders.truncate(MOST_HOLDERS);
        self.holders
    }
}
