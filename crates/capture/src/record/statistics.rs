//! The counts and sums from which the statistics of a session are computed.

use stormlog_format::{Map, Value};

use crate::clock::seconds;

/// Counts and sums of all samples of a session, or of a single sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) peak: i64,
    pub(crate) allocations: i64,
    pub(crate) deallocations: i64,
    pub(crate) allocated_bytes: i64,
    pub(crate) deallocated_bytes: i64,
    pub(crate) alerts: i64,
    pub(crate) samples: i64,
    pub(crate) checked_at_ns: Option<i64>,
}

impl Tally {
    /// Adds the counts and sums of one sample to those of the session.
    pub(crate) fn add(&mut self, step: &Tally) {
        self.peak = self.peak.max(step.peak);
        self.allocations += step.allocations;
        self.deallocations += step.deallocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(step.allocated_bytes);
        self.deallocated_bytes = self
            .deallocated_bytes
            .saturating_add(step.deallocated_bytes);
        self.samples += step.samples;
        self.checked_at_ns = step.checked_at_ns.or(self.checked_at_ns);
    }

    /// The counts of a session, in the order in which the Python trackers list them.
    pub(crate) fn to_map(self, started_at_ns: Option<i64>) -> Map {
        let mut map = Map::new();
        map.insert("peak_memory", self.peak);
        map.insert("total_allocations", self.allocations);
        map.insert("total_deallocations", self.deallocations);
        map.insert("total_allocation_bytes", self.allocated_bytes);
        map.insert("total_deallocation_bytes", self.deallocated_bytes);
        map.insert("alert_count", self.alerts);
        let time =
            |time: Option<i64>, none: Value| time.map_or(none, |time| Value::Float(seconds(time)));
        map.insert("tracking_start_time", time(started_at_ns, Value::Null));
        map.insert("last_memory_check", time(self.checked_at_ns, Value::Int(0)));
        map.insert("total_samples", self.samples);
        map
    }

    /// Adds the average sizes of allocations and deallocations, where a count of zero is treated as
    /// one.
    pub(crate) fn averages(self, map: &mut Map) {
        let mean = |bytes: i64, count: i64| Value::Float(bytes as f64 / count.max(1) as f64);
        map.insert(
            "average_allocation_size",
            mean(self.allocated_bytes, self.allocations),
        );
        map.insert(
            "average_deallocation_size",
            mean(self.deallocated_bytes, self.deallocations),
        );
    }

    /// Adds the rates per second of allocations; a session shorter than one second counts as one
    /// second.
    pub(crate) fn rates(self, duration_s: f64, map: &mut Map) {
        map.insert("tracking_duration_seconds", Value::Float(duration_s));
        let rate = |count: i64| Value::Float(count as f64 / duration_s.max(1.0));
        map.insert("allocations_per_second", rate(self.allocations));
        map.insert("bytes_allocated_per_second", rate(self.allocated_bytes));
    }
}
