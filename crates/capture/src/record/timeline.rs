//! Summarizes the memory counters of events in time buckets of equal length.

use stormlog_format::whole_count;

use super::event::TrackedEvent;
use crate::clock::seconds;

/// The start of every time bucket that has events, and the allocated and reserved bytes of the last
/// event in it, oldest first. The three lists have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The start of each time bucket, in epoch seconds.
    pub timestamps: Vec<f64>,
    /// Allocated bytes.
    pub allocated: Vec<i64>,
    /// Reserved bytes.
    pub reserved: Vec<i64>,
}

/// Divides the events into time buckets of `interval_s` seconds, starting with the time of the
/// first event.
pub fn timeline<'a>(
    events: impl IntoIterator<Item = &'a TrackedEvent>,
    interval_s: f64,
) -> Timeline {
    let mut timeline = Timeline::default();
    let mut start = None;
    let mut open: Option<usize> = None;
    for event in events {
        let time = seconds(event.timestamp_ns);
        let start = *start.get_or_insert(time);
        let bucket = whole_count((time - start) / interval_s);
        if open == Some(bucket) {
            timeline.allocated.pop();
            timeline.reserved.pop();
        } else {
            timeline.timestamps.push(start + bucket as f64 * interval_s);
            open = Some(bucket);
        }
        let counters = &event.counters;
        let allocated = counters.level().unwrap_or(0);
        timeline.allocated.push(allocated);
        let reserved = counters.allocator_reserved_bytes.unwrap_or(allocated);
        timeline.reserved.push(reserved);
    }
    timeline
}
