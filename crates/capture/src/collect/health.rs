//! The health of a collector: which counters are missing, how often it failed, and when the next
//! reading may be tried.

use stormlog_format::{EventType, Map, Text, Value, metadata_keys, whole};

use super::{CollectError, Notice, Reading};
use crate::clock::seconds;

const INITIAL_DELAY_S: f64 = 1.0;
const DELAY_FACTOR: f64 = 2.0;
const MAX_DELAY_S: f64 = 30.0;

/// How well a collector works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Every counter is read.
    #[default]
    Healthy,
    /// The collector works, but some of its counters cannot be read.
    Degraded,
    /// The collector cannot read any counter.
    Unhealthy,
}

impl Status {
    /// The health status as records spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// How well a collector works, which counters it lacks, and when it may be read again after a
/// failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// How well the collector works.
    pub status: Status,
    /// Names of the counters that are missing, each once, in the order in which they were first
    /// missing.
    pub partial_fields: Vec<String>,
    /// The error of the last failed reading, until the collector is healthy again.
    pub last_error: Option<String>,
    /// How many readings failed in a row.
    pub consecutive_failures: u32,
    /// The earliest time of the next reading after a failure, nanoseconds since the epoch.
    pub next_retry_ns: Option<i64>,
}

impl Health {
    /// The collector's health as entries for the metadata of a record.
    pub fn to_map(&self) -> Map {
        let fields = self.partial_fields.iter().map(|name| Value::text(&**name));
        let mut map = Map::new();
        map.insert(metadata_keys::COLLECTOR_HEALTH_STATUS, self.status.as_str());
        map.insert(
            "telemetry_partial",
            Value::Bool(self.status != Status::Healthy),
        );
        map.insert(
            metadata_keys::COLLECTOR_PARTIAL_FIELDS,
            Value::List(fields.collect()),
        );
        map.insert(
            metadata_keys::COLLECTOR_LAST_ERROR,
            self.last_error.as_deref().map(Text::from),
        );
        map.insert(
            metadata_keys::COLLECTOR_CONSECUTIVE_FAILURES,
            i64::from(self.consecutive_failures),
        );
        map.insert(
            metadata_keys::COLLECTOR_NEXT_RETRY_EPOCH_S,
            self.next_retry_ns
                .map_or(Value::Null, |time| Value::Float(seconds(time))),
        );
        map
    }

    /// Whether a reading may be tried at `now_ns`; after a failure, no reading is tried until the
    /// delay is over.
    pub fn may_read(&self, now_ns: i64) -> bool {
        self.next_retry_ns.is_none_or(|retry| now_ns >= retry)
    }

    /// Counts a failed reading and delays the next one. Returns the change of health to record, if
    /// the collector was healthy before.
    pub fn failed(&mut self, error: &CollectError, now_ns: i64) -> Option<Notice> {
        let before = self.status;
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        let delay_s = retry_delay_s(
            i64::from(self.consecutive_failures),
            INITIAL_DELAY_S,
            DELAY_FACTOR,
            MAX_DELAY_S,
        );
        let message = error.to_string();
        self.status = Status::Unhealthy;
        self.partial_fields.clear();
        self.last_error = Some(message.clone());
        self.next_retry_ns = Some(now_ns.saturating_add(whole(delay_s * 1e9)));
        (before == Status::Healthy).then(|| {
            let mut metadata = degraded_metadata(before, &message);
            metadata.insert("collector_retry_delay_s", Value::Float(delay_s));
            Notice {
                event_type: EventType::CollectorDegraded.as_str(),
                context: "Collector unavailable; telemetry paused until recovery.".into(),
                metadata,
            }
        })
    }

    /// Notes a successful reading, in which some counters may be missing. Returns the change of
    /// health to record, if a healthy collector became degraded or the collector is healthy again.
    pub fn succeeded(&mut self, reading: &Reading) -> Option<Notice> {
        let before = std::mem::take(self);
        if !reading.partial_fields.is_empty() {
            self.status = Status::Degraded;
            self.partial_fields = unique(&reading.partial_fields);
            let reason = unique(&reading.errors).join("; ");
            self.last_error = (!reason.is_empty()).then(|| reason.clone());
            return (before.status == Status::Healthy).then(|| Notice {
                event_type: EventType::CollectorDegraded.as_str(),
                context: "Collector degraded; telemetry is partial.".into(),
                metadata: degraded_metadata(before.status, &reason),
            });
        }
        (before.status != Status::Healthy).then(|| {
            let mut metadata = Map::new();
            metadata.insert("collector_transition", "recovered");
            metadata.insert("collector_recovered_from", before.status.as_str());
            metadata.insert(
                "collector_previous_error",
                before.last_error.map(Text::from),
            );
            metadata.insert(
                "collector_previous_failure_count",
                i64::from(before.consecutive_failures),
            );
            Notice {
                event_type: EventType::CollectorRecovered.as_str(),
                context: "Collector recovered; full telemetry sampling resumed.".into(),
                metadata,
            }
        })
    }
}

fn degraded_metadata(before: Status, reason: &str) -> Map {
    let mut metadata = Map::new();
    metadata.insert("collector_transition", "degraded");
    metadata.insert("collector_degraded_from", before.as_str());
    metadata.insert(metadata_keys::COLLECTOR_DEGRADATION_REASON, reason);
    metadata
}

/// Removes duplicate names and keeps the order of first occurrences.
pub fn unique(entries: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(entries.len());
    for entry in entries {
        if !kept.contains(entry) {
            kept.push(entry.clone());
        }
    }
    kept
}

/// Seconds to wait after a number of failures: each failure multiplies the delay by `factor`, up to
/// `max_s`.
pub fn retry_delay_s(failures: i64, initial_s: f64, factor: f64, max_s: f64) -> f64 {
    if failures <= 0 || initial_s <= 0.0 || max_s <= 0.0 {
        return 0.0;
    }
    if factor <= 1.0 {
        return initial_s.min(max_s);
    }
    let steps = i32::try_from(failures - 1).unwrap_or(i32::MAX);
    let delay = initial_s * factor.powi(steps);
    if delay.is_finite() {
        delay.min(max_s)
    } else {
        max_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> CollectError {
        CollectError::Failed("boom".into())
    }

    #[test]
    fn one_event_when_it_fails_and_one_when_it_is_back() {
        let mut health = Health::default();
        let down = health.failed(&failure(), 0).unwrap();
        assert_eq!(down.event_type, "collector_degraded");
        assert_eq!(
            down.metadata.get("collector_retry_delay_s"),
            Some(&Value::Float(1.0))
        );
        assert_eq!(health.failed(&failure(), 1_000_000_000), None);
        assert!(!health.may_read(2_999_999_999));
        assert!(health.may_read(3_000_000_000));
        let up = health.succeeded(&Reading::default()).unwrap();
        assert_eq!(up.event_type, "collector_recovered");
        assert_eq!(
            up.metadata.get("collector_previous_failure_count"),
            Some(&Value::Int(2))
        );
        assert_eq!(health, Health::default());
    }

    #[test]
    fn partial_readings_degrade_once() {
        let mut health = Health::default();
        let reading = Reading {
            partial_fields: vec!["a".into(), "a".into()],
            errors: vec!["x".into(), "x".into(), "y".into()],
            ..Reading::default()
        };
        let event = health.succeeded(&reading).unwrap();
        assert_eq!(
            event.metadata.get("collector_degradation_reason"),
            Some(&Value::text("x; y"))
        );
        assert_eq!(health.partial_fields, ["a"]);
        assert_eq!(health.succeeded(&reading), None);
    }

    #[test]
    fn the_delay_is_bounded() {
        let cases = [
            ((0, 1.0, 2.0, 30.0), 0.0),
            ((1, 1.0, 2.0, 30.0), 1.0),
            ((5, 1.0, 2.0, 30.0), 16.0),
            ((6, 1.0, 2.0, 30.0), 30.0),
            ((i64::MAX, 1.0, 2.0, 30.0), 30.0),
            ((9, 5.0, 1.0, 3.0), 3.0),
            ((1, 0.0, 2.0, 3.0), 0.0),
        ];
        for ((failures, initial, factor, max), delay) in cases {
            let found = retry_delay_s(failures, initial, factor, max);
            assert!((found - delay).abs() < 1e-9, "{failures}: {found}");
        }
    }
}
