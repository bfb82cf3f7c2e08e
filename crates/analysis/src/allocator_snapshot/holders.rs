//! The lines of the program and the memory they hold: a line holds the memory that it allocated,
//! until the memory is freed.

use std::collections::HashMap;

/// Maximum number of program lines that [`Lines::largest`] returns.
const MOST_HOLDERS: usize = 50;
/// Maximum number of tensor names in [`Holder::names`].
const MOST_NAMES: usize = 3;

/// A line of the program that allocated device memory, with the bytes of its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The program line as text, such as `step (train.py:26)`, or a label when the line is unknown.
    pub place: String,
    /// Bytes that the line held when tensors held the most memory in the recorded history.
    pub at_peak_bytes: i64,
    /// Bytes that the line holds at the time of the snapshot.
    pub now_bytes: i64,
    /// Number of allocations by the line in the recorded history.
    pub allocations: usize,
    /// Sum of all allocations by the line in the recorded history, in bytes.
    pub allocated_bytes: i64,
    /// Names of live tensors that the line allocated, at most three.
    pub names: Vec<String>,
}

impl Holder {
    /// Adds the name of a tensor that the line allocated, unless the list of names is full or
    /// already has it.
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
    /// Maps the text of a line to its index in `holders`.
    indices: HashMap<String, usize>,
    pub(super) holders: Vec<Holder>,
    /// The label of memory whose line is unknown.
    unknown_label: &'static str,
}

impl Lines {
    /// Creates an empty list of lines. Memory without a known line gets the given label.
    pub(super) fn without_place(unknown_label: &'static str) -> Self {
        Self {
            indices: HashMap::new(),
            holders: Vec::new(),
            unknown_label,
        }
    }

    /// The index in `holders` of the entry for memory whose line is unknown.
    pub(super) fn nowhere(&mut self) -> usize {
        self.named(self.unknown_label.to_owned())
    }

    pub(super) fn named(&mut self, place: String) -> usize {
        let holders = &mut self.holders;
        *self.indices.entry(place).or_insert_with_key(|place| {
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
