//! Reconstructs an allocator's memory use over time from its history.
//!
//! The history is a ring buffer, so its first entries may be overwritten. The memory held before
//! the first entry is the live memory at the end minus the bytes that the entries added.

use std::collections::HashMap;

use super::read::Entry;

/// The kind of an entry in the allocator's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The program got memory from the allocator, usually for a tensor.
    Alloc,
    /// The program returned memory to the allocator, which may keep it for later allocations.
    Free,
    /// The allocator reserved memory on the device.
    Grow,
    /// The allocator returned reserved memory to the device.
    Shrink,
    /// An allocation failed because the device had too little free memory.
    Oom,
}

impl Action {
    fn of(action: &str) -> Option<Self> {
        Some(match action {
            "alloc" => Self::Alloc,
            // The action `free_completed` is ignored: it makes memory reusable but does not change
            // the memory that tensors hold.
            "free_requested" | "free" => Self::Free,
            "segment_alloc" | "segment_map" => Self::Grow,
            "segment_free" | "segment_unmap" => Self::Shrink,
            "oom" => Self::Oom,
            _ => return None,
        })
    }
}

/// One action of the allocator, and the memory held after it.
#[derive(Clone, Debug)]
pub struct AllocatorMoment {
    /// Time of the action in nanoseconds since 1970. In a snapshot without times, this field is
    /// the index of the action's entry multiplied by 1000, as if one entry were recorded per
    /// microsecond.
    pub time_ns: i64,
    /// The kind of action.
    pub action: Action,
    /// Device address of the memory that was allocated, freed, reserved or returned; 0 when
    /// unknown.
    pub address: u64,
    /// Size that the entry records: the bytes that were allocated, freed, reserved or returned.
    /// For [`Action::Oom`], the bytes of the request that failed; the memory held does not change.
    pub bytes: i64,
    /// Bytes requested by live tensors after the action.
    pub allocated_bytes: i64,
    /// Bytes reserved by the allocator after the action.
    pub reserved_bytes: i64,
    /// Index of the action's entry in the snapshot's trace. The trace also has entries of kinds
    /// that [`Action`] does not have; they are skipped.
    pub(super) entry: usize,
    /// For an allocation, the index in [`History::moments`] of the action that freed it; `None` if
    /// the history contains no such action.
    pub(super) ended: Option<usize>,
}

/// Memory use of one device over time, computed from the trace in a snapshot.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) moments: Vec<AllocatorMoment>,
    pub(super) has_times: bool,
    /// Bytes that tensors held before the first entry of the trace.
    pub(super) held_before: i64,
}

impl History {
    /// Computes the memory use over time from a trace and from the allocated and reserved bytes at
    /// its end.
    pub(super) fn of(trace: &[Entry<'_>], allocated: i64, reserved: i64) -> Self {
        let has_times = trace.iter().any(|entry| entry.time_us.is_some());
        let mut moments: Vec<AllocatorMoment> = Vec::new();
        let mut open: HashMap<u64, usize> = HashMap::new();
        let (mut held, mut total) = (Level::default(), Level::default());
        // Entries before the first entry with a time get the time of that entry, not 1970.
        let mut last_us = trace.iter().find_map(|entry| entry.time_us).unwrap_or(0);
        for (index, entry) in trace.iter().enumerate() {
            let Some(action) = Action::of(entry.action) else {
                continue;
            };
            // Entries are in order, so an entry with an earlier time (the clock was set back) gets
            // the time of the entry before.
            last_us = entry.time_us.map_or(last_us, |time| time.max(last_us));
            let counted = i64::try_from(index).unwrap_or(i64::MAX);
            let time_us = if has_times { last_us } else { counted };
            let bytes = entry.size.max(0);
            let address = entry.addr.unwrap_or(0);
            match action {
                Action::Alloc => {
                    held.add(bytes);
                    open.insert(address, moments.len());
                }
                Action::Free => {
                    held.add(-bytes);
                    if let Some(start) = open.remove(&address) {
                        moments[start].ended = Some(moments.len());
                    }
                }
                Action::Grow => total.add(bytes),
                Action::Shrink => total.add(-bytes),
                Action::Oom => {}
            }
            moments.push(AllocatorMoment {
                time_ns: time_us.saturating_mul(1000),
                action,
                address,
                bytes,
                allocated_bytes: held.now,
                reserved_bytes: total.now,
                entry: index,
                ended: None,
            });
        }
        let (held_before, reserved_before) = (held.before(allocated), total.before(reserved));
        for moment in &mut moments {
            let level = |change: i64, before: i64| change.saturating_add(before).max(0);
            moment.allocated_bytes = level(moment.allocated_bytes, held_before);
            moment.reserved_bytes = level(moment.reserved_bytes, reserved_before);
        }
        Self {
            moments,
            has_times,
            held_before,
        }
    }

    /// The index in `moments` of the action after which tensors held the most memory; `None` if
    /// there are no actions.
    pub(super) fn peak(&self) -> Option<usize> {
        let levels = self.moments.iter().enumerate();
        // When memory was equally high after several actions, the first of these actions is the
        // peak.
        levels
            .max_by_key(|(index, moment)| (moment.allocated_bytes, std::cmp::Reverse(*index)))
            .map(|(index, _)| index)
    }

    /// Maps each address that is still allocated to the index in `moments` of its allocation.
    pub(super) fn still_open(&self) -> HashMap<u64, usize> {
        let allocations = self.moments.iter().enumerate();
        allocations
            .filter(|(_, moment)| moment.action == Action::Alloc && moment.ended.is_none())
            .map(|(index, moment)| (moment.address, index))
            .collect()
    }
}

/// A running sum of changes, such as bytes allocated and freed, and the lowest value of the sum.
#[derive(Default)]
struct Level {
    now: i64,
    lowest: i64,
}

impl Level {
    fn add(&mut self, change: i64) {
        self.now = self.now.saturating_add(change);
        self.lowest = self.lowest.min(self.now);
    }

    /// The value before the first change, chosen so that the running sum ends at `end` and is never
    /// negative.
    fn before(&self, end: i64) -> i64 {
        end.saturating_sub(self.now)
            .max(self.lowest.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: &'static str, addr: u64, size: i64) -> Entry<'static> {
        Entry {
            action,
            addr: Some(addr),
            size,
            ..Entry::default()
        }
    }

    #[test]
    fn what_was_there_before_follows_from_the_end() {
        // 100 bytes were held before the trace begins, of which 40 are freed; 30 new bytes stay.
        let trace = [
            entry("segment_alloc", 0, 500),
            entry("alloc", 1, 30),
            entry("free_requested", 9, 40),
            entry("free_completed", 9, 40),
            entry("oom", 0, 7),
        ];
        let history = History::of(&trace, 90, 700);
        let levels = history.moments.iter();
        let levels: Vec<_> = levels
            .map(|moment| (moment.allocated_bytes, moment.reserved_bytes))
            .collect();
        assert_eq!(levels, [(100, 700), (130, 700), (90, 700), (90, 700)]);
        assert_eq!((history.held_before, history.peak()), (100, Some(1)));
        assert!(history.still_open().contains_key(&1));
        assert_eq!(history.moments[1].time_ns, 1000);
    }

    #[test]
    fn time_does_not_go_back_and_does_not_begin_in_1970() {
        let times = [None, Some(50), Some(90), Some(20), None, Some(95)];
        let trace = times.map(|time_us| Entry {
            time_us,
            ..entry("alloc", 1, 1)
        });
        let history = History::of(&trace, 6, 6);
        let times: Vec<i64> = history.moments.iter().map(|one| one.time_ns).collect();
        assert_eq!(times, [50, 50, 90, 90, 90, 95].map(|time| time * 1000));
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let trace: Vec<_> = (0..10)
            .map(|index| entry("alloc", index, i64::MAX))
            .chain((0..20).map(|index| entry("free_requested", index, i64::MAX)))
            .collect();
        let history = History::of(&trace, -5, i64::MIN);
        assert!(
            history
                .moments
                .iter()
                .all(|moment| moment.allocated_bytes >= 0)
        );
    }
}
