//! Decides when an alert should make the program free memory. The caller of this module performs
//! the cleanup itself.

use std::time::{Duration, Instant};

use stormlog_format::{EventType, Value};

use super::event::TrackedEvent;

/// The least time between two cleanups of memory, because more frequent cleanups cost time and free
/// little.
const SHORTEST_PAUSE: Duration = Duration::from_secs(30);

/// A warning calls for a cleanup when at least this percentage of the memory is in use.
const HIGH_USAGE_PERCENT: f64 = 90.0;

/// How thoroughly the program should free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// Frees cached memory only.
    Standard,
    /// Frees all memory that can be freed.
    Aggressive,
}

impl Cleanup {
    /// The message of the event that records the cleanup.
    pub fn context(self) -> &'static str {
        match self {
            Self::Standard => "Performed standard memory cleanup",
            Self::Aggressive => "Performed aggressive memory cleanup",
        }
    }
}

/// Decides for each alert whether the program should free memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watchdog {
    last: Option<Instant>,
}

impl Watchdog {
    /// The cleanup that an alert calls for: critical alerts always call for one, warnings when most
    /// of the memory is in use, but there is at most one cleanup every half minute.
    pub fn wants(&mut self, alert: &TrackedEvent, now: Instant) -> Option<Cleanup> {
        let usage = match alert.metadata.get("usage_percent") {
            Some(Value::Float(percent)) => *percent,
            _ => 0.0,
        };
        let cleanup = if alert.event_type == *EventType::Critical.as_str() {
            Cleanup::Aggressive
        } else if alert.event_type == *EventType::Warning.as_str() && usage >= HIGH_USAGE_PERCENT {
            Cleanup::Standard
        } else {
            return None;
        };
        if self
            .last
            .is_some_and(|last| now.duration_since(last) < SHORTEST_PAUSE)
        {
            return None;
        }
        self.last = Some(now);
        Some(cleanup)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stormlog_format::{Counters, Map};

    use super::*;
    use crate::collect::CounterSource;

    fn alert(event_type: &str, usage: f64) -> TrackedEvent {
        let mut metadata = Map::new();
        metadata.insert("usage_percent", Value::Float(usage));
        TrackedEvent {
            timestamp_ns: 1,
            event_type: event_type.into(),
            device_id: 0,
            counters: Counters::default(),
            context: None,
            metadata,
            health: Arc::default(),
            source: Arc::new(CounterSource::host()),
            known_total: None,
            is_brief: false,
        }
    }

    #[test]
    fn cleans_on_critical_and_on_high_warnings_every_half_minute() {
        let mut watchdog = Watchdog::default();
        let start = Instant::now();
        assert_eq!(watchdog.wants(&alert("warning", 85.0), start), None);
        assert_eq!(watchdog.wants(&alert("error", 99.0), start), None);
        assert_eq!(
            watchdog.wants(&alert("warning", 91.0), start),
            Some(Cleanup::Standard)
        );
        let soon = start + Duration::from_secs(29);
        assert_eq!(watchdog.wants(&alert("critical", 99.0), soon), None);
        let later = start + Duration::from_secs(30);
        assert_eq!(
            watchdog.wants(&alert("critical", 99.0), later),
            Some(Cleanup::Aggressive)
        );
    }
}
