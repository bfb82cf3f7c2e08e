//! Computes what a rollup needs from a record (its observation) when the record differs from the
//! previous one only in its numbers, without parsing the rest again.

use super::observe::Observation;
use crate::scan::{self, RawRecord, Values};

/// The numbers of a record that change from sample to sample, and what a rollup needs from that
/// record.
#[derive(Clone, Debug)]
pub struct Numbers {
    timestamp_ns: i64,
    counters: [Option<i64>; 8],
    last: Observation,
}

impl Numbers {
    /// Stores the numbers of a record, and `last`, which is what a rollup needs from that record.
    pub fn of(record: &RawRecord<'_>, last: &Observation) -> Self {
        Self {
            timestamp_ns: record.timestamp_ns,
            counters: record.counters,
            last: last.clone(),
        }
    }

    /// Sets the value that a field has in the next record. Returns false when the field is neither
    /// a counter nor the time of the record, or when the value is null and the field must not be
    /// null.
    pub fn set(&mut self, field: usize, value: Option<i64>) -> bool {
        if value.is_none() && !Values::may_be_null(field) {
            return false;
        }
        if let Some(counter) = scan::counter_of(field) {
            self.counters[counter] = value;
            return true;
        }
        match value {
            Some(value) if field == scan::TIMESTAMP_NS => {
                self.timestamp_ns = value;
                true
            }
            _ => false,
        }
    }

    /// What a rollup needs from the next record; `None` when the numbers of that record are
    /// invalid.
    pub fn observation(&self) -> Option<Observation> {
        if self.timestamp_ns < 0 || !scan::counters_hold(&self.counters) {
            return None;
        }
        let mut next = self.last.clone();
        next.timestamp_ns = self.timestamp_ns;
        next.set_counters(&self.counters);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FIELDS;
    use crate::scan::Scanner;

    const LINE: &str = concat!(
        r#"{"allocator_active_bytes": 10, "allocator_allocated_bytes": 10, "#,
        r#""allocator_change_bytes": 0, "allocator_inactive_bytes": null, "#,
        r#""allocator_reserved_bytes": 20, "collector": "c", "context": null, "#,
        r#""device_free_bytes": 60, "device_id": 0, "device_total_bytes": 100, "#,
        r#""device_used_bytes": 40, "event_type": "sample", "host": "h", "job_id": null, "#,
        r#""local_rank": 0, "metadata": {"collector_health_status": "degraded"}, "pid": 1, "#,
        r#""rank": 0, "sampling_interval_ms": 100, "schema_version": 3, "session_id": "s", "#,
        r#""timestamp_ns": 5, "world_size": 1}"#,
    );

    fn observed(line: &str) -> Option<Observation> {
        let (record, _) = Scanner::of_lines().scan(line.as_bytes(), 0)?;
        Some(Observation::of_raw(&record))
    }

    fn field(name: &str) -> usize {
        FIELDS.iter().position(|known| *known == name).unwrap()
    }

    /// The observation of a changed record, computed from its numbers and compared with the
    /// observation of the whole record.
    fn changed(name: &str, from: &str, to: &str) -> (bool, Option<Observation>) {
        let (record, _) = Scanner::of_lines().scan(LINE.as_bytes(), 0).unwrap();
        let mut numbers = Numbers::of(&record, &Observation::of_raw(&record));
        let taken = numbers.set(field(name), to.parse().ok());
        let line = LINE.replace(
            &format!(r#""{name}": {from}"#),
            &format!(r#""{name}": {to}"#),
        );
        assert_ne!(line, LINE);
        let next = numbers.observation().filter(|_| taken);
        if taken {
            assert_eq!(next, observed(&line), "{line}");
        }
        (taken, next)
    }

    #[test]
    fn a_changed_number_tells_what_the_whole_record_tells() {
        for (name, from, to) in [
            ("timestamp_ns", "5", "9"),
            ("allocator_allocated_bytes", "10", "11"),
            ("allocator_reserved_bytes", "20", "21"),
            ("device_used_bytes", "40", "41"),
            ("allocator_change_bytes", "0", "-7"),
            ("allocator_active_bytes", "10", "null"),
            ("device_total_bytes", "100", "null"),
        ] {
            let (taken, next) = changed(name, from, to);
            assert!(taken && next.is_some(), "{name}");
        }
    }

    #[test]
    fn numbers_against_the_rules_tell_nothing() {
        for (name, from, to) in [
            ("timestamp_ns", "5", "-1"),
            ("allocator_allocated_bytes", "10", "-1"),
            ("device_used_bytes", "40", "101"),
            ("device_free_bytes", "60", "101"),
            ("device_total_bytes", "100", "30"),
        ] {
            assert_eq!(changed(name, from, to), (true, None), "{name}");
        }
    }

    #[test]
    fn other_changes_are_left_to_others() {
        for (name, from, to) in [
            ("rank", "0", "1"),
            ("schema_version", "3", "4"),
            ("device_used_bytes", "40", "null"),
            ("timestamp_ns", "5", "null"),
        ] {
            assert!(!changed(name, from, to).0, "{name}");
        }
    }
}
