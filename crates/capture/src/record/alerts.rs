//! Decides which samples cause an alert, and limits how often an alert is repeated.
//!
//! A condition for an alert is reported when it begins, again at most once a minute while it holds,
//! and once when it ends. While a program loads its model and fills its caches, large allocations
//! cause no alerts, and fragmentation causes one only when the use of the device has reached the
//! warning limit. Limits that the user set apply from the start.

use std::collections::BTreeMap;

use stormlog_format::{EventType, Map, Value, metadata_keys};

use super::wording::human;
use crate::collect::{Notice, Reading};

/// The least time between two alerts about the same condition, such as high memory use, while the
/// condition holds.
const REPEAT_NS: i64 = 60_000_000_000;

/// Loading is over when memory use has not risen to a new peak for this time.
const SETTLED_NS: i64 = 5_000_000_000;

/// A program counts as loading for at most this time after the first sample, even if its memory
/// still grows.
const LOADING_NS: i64 = 60_000_000_000;

/// By how much fragmentation, a ratio from 0 to 1, must exceed its highest value during loading to
/// cause an alert, unless the use of the device has reached the warning limit or the user set the
/// limit for fragmentation.
const FRAGMENTATION_MARGIN: f64 = 0.05;

/// The limits above which memory use, the size of an allocation, and fragmentation cause alerts.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds(BTreeMap<&'static str, Limit>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    value: f64,
    /// Whether the user set the limit.
    is_given: bool,
}

const WARNING: &str = "memory_warning_percent";
const CRITICAL: &str = "memory_critical_percent";
const LEAK: &str = "memory_leak_threshold";
const FRAGMENTATION: &str = "fragmentation_threshold";

/// The names of the limits for alerts with their defaults, in the order in which they are shown.
pub const DEFAULT_THRESHOLDS: [(&str, f64); 4] = [
    (WARNING, 80.0),
    (CRITICAL, 95.0),
    (LEAK, 104_857_600.0),
    (FRAGMENTATION, 0.3),
];

impl Default for Thresholds {
    fn default() -> Self {
        let is_given = false;
        let limits = DEFAULT_THRESHOLDS.map(|(name, value)| (name, Limit { value, is_given }));
        Self(BTreeMap::from(limits))
    }
}

impl Thresholds {
    /// Sets a limit for alerts; returns `false` when no limit has the given name. A limit that the
    /// user set applies from the first sample on, even while the program loads.
    pub fn set(&mut self, name: &str, value: f64) -> bool {
        let limit = self.0.get_mut(name);
        let is_known = limit.is_some();
        if let Some(limit) = limit {
            let is_given = true;
            *limit = Limit { value, is_given };
        }
        is_known
    }

    fn get(&self, name: &'static str) -> f64 {
        self.0.get(name).map_or(f64::INFINITY, |limit| limit.value)
    }

    fn is_given(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|limit| limit.is_given)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Usage,
    CriticalUsage,
    LargeAllocation,
    Fragmentation,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    at_ns: Option<i64>,
    holds: bool,
}

/// What was reported so far about one device: when each condition caused its last alert, whether it
/// still holds, and whether the program is still loading.
#[derive(Debug, Default)]
pub(crate) struct AlertState {
    reported: BTreeMap<Condition, Reported>,
    loading: Option<Loading>,
}

/// Whether the program still loads its model and fills its caches, the highest memory use so far,
/// and the highest fragmentation while it loaded.
#[derive(Clone, Copy, Debug)]
struct Loading {
    since_ns: i64,
    peak: i64,
    peak_at_ns: i64,
    fragmentation: f64,
    over: bool,
}

/// Which conditions for alerts are checked in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Memory use, large allocations and fragmentation are checked.
    Allocator,
    /// Only the use of the memory is checked; the other conditions need the counters of an
    /// allocator.
    UsageOnly,
}

impl AlertState {
    /// Checks a sample and returns the alerts that it causes, and the ends of conditions that caused
    /// alerts. The argument `change` is the change of memory use since the last sample, in bytes,
    /// and `total` is the size of the memory, in bytes; without a size, nothing is checked.
    pub(crate) fn check(
        &mut self,
        reading: &Reading,
        change: i64,
        total: Option<i64>,
        thresholds: &Thresholds,
        scope: Scope,
    ) -> Vec<Notice> {
        let Some(total) = total.filter(|total| *total > 0) else {
            return Vec::new();
        };
        let now = reading.timestamp_ns;
        let mut alerts = Vec::new();
        self.usage(
            now,
            percent(reading.level(), total),
            thresholds,
            &mut alerts,
        );
        if scope == Scope::Allocator {
            let new_peak = self.follow_loading(reading);
            let full = reading
                .counters
                .device_used_bytes
                .is_some_and(|used| percent(used, total) >= thresholds.get(WARNING));
            self.large_allocation(now, change, new_peak, thresholds, &mut alerts);
            self.fragmentation(reading, full, thresholds, &mut alerts);
        }
        alerts
    }

    fn usage(&mut self, now: i64, usage: f64, thresholds: &Thresholds, alerts: &mut Vec<Notice>) {
        let metadata = || single("usage_percent", Value::Float(usage));
        let critical = usage >= thresholds.get(CRITICAL);
        let warning = !critical && usage >= thresholds.get(WARNING);
        let above = critical || warning;
        if self.enters(Condition::CriticalUsage, critical, now) {
            alerts.push(Notice {
                event_type: EventType::Critical.as_str(),
                context: format!("CRITICAL: Memory usage at {usage:.1}%"),
                metadata: metadata(),
            });
        }
        // Memory usage that falls from the critical range to the warning range does not cause a new
        // warning.
        if self.enters(Condition::Usage, above, now) && warning {
            alerts.push(Notice {
                event_type: EventType::Warning.as_str(),
                context: format!("WARNING: Memory usage at {usage:.1}%"),
                metadata: metadata(),
            });
        }
        self.leaves(Condition::CriticalUsage, critical);
        if self.leaves(Condition::Usage, above) {
            alerts.push(cleared(
                "memory_usage",
                format!("Memory usage back at {usage:.1}%"),
                metadata(),
            ));
        }
    }

    fn large_allocation(
        &mut self,
        now: i64,
        change: i64,
        new_peak: bool,
        thresholds: &Thresholds,
        alerts: &mut Vec<Notice>,
    ) {
        let large = change as f64 > thresholds.get(LEAK);
        let given = thresholds.is_given(LEAK);
        // Every training step allocates memory again that was in use before, so only a jump to a
        // new peak counts as a large allocation, unless the user set the limit.
        let holds = large && (given || (new_peak && self.has_settled()));
        if self.enters(Condition::LargeAllocation, holds, now) {
            alerts.push(Notice {
                event_type: EventType::Warning.as_str(),
                context: format!("Large allocation detected: {}", human(change)),
                metadata: single("large_allocation", Value::Bool(true)),
            });
        }
        // A large allocation is over as soon as it has happened, so no event reports the end of
        // this condition.
        self.leaves(Condition::LargeAllocation, holds);
    }

    fn fragmentation(
        &mut self,
        reading: &Reading,
        full: bool,
        thresholds: &Thresholds,
        alerts: &mut Vec<Notice>,
    ) {
        let Some(ratio) = fragmentation(reading) else {
            return;
        };
        let usual = match self.loading {
            Some(loading) if loading.over => loading.fragmentation + FRAGMENTATION_MARGIN,
            _ => f64::INFINITY,
        };
        let counts = full || thresholds.is_given(FRAGMENTATION) || ratio > usual;
        let holds = ratio > thresholds.get(FRAGMENTATION) && counts;
        let metadata = || single("fragmentation", Value::Float(ratio));
        if self.enters(Condition::Fragmentation, holds, reading.timestamp_ns) {
            alerts.push(Notice {
                event_type: EventType::Warning.as_str(),
                context: format!("High fragmentation: {:.1}%", ratio * 100.0),
                metadata: metadata(),
            });
        }
        if self.leaves(Condition::Fragmentation, holds) {
            alerts.push(cleared(
                "fragmentation",
                format!("Fragmentation back at {:.1}%", ratio * 100.0),
                metadata(),
            ));
        }
    }

    /// Updates whether the program is still loading, and returns whether memory is at a new peak.
    fn follow_loading(&mut self, reading: &Reading) -> bool {
        let now = reading.timestamp_ns;
        let held = reading.counters.allocator_reserved_bytes.unwrap_or(0);
        let level = reading.level().max(held);
        let ratio = fragmentation(reading).unwrap_or(0.0);
        let loading = self.loading.get_or_insert(Loading {
            since_ns: now,
            peak: level,
            peak_at_ns: now,
            fragmentation: ratio,
            over: false,
        });
        let new_peak = level > loading.peak;
        if !loading.over {
            loading.fragmentation = loading.fragmentation.max(ratio);
            // The field `over` is updated before the peak, so that a jump after a quiet time does
            // not count as part of loading.
            loading.over = now - loading.peak_at_ns >= SETTLED_NS && loading.peak > 0
                || now - loading.since_ns >= LOADING_NS;
        }
        if new_peak {
            loading.peak = level;
            loading.peak_at_ns = now;
        }
        new_peak
    }

    fn has_settled(&self) -> bool {
        self.loading.is_some_and(|loading| loading.over)
    }

    /// Whether to report a condition now: it holds, and it was not reported within the last minute.
    fn enters(&mut self, condition: Condition, holds: bool, now: i64) -> bool {
        let reported = self.reported.entry(condition).or_default();
        let due = reported.at_ns.is_none_or(|at| now - at >= REPEAT_NS);
        let report = holds && due;
        if report {
            reported.at_ns = Some(now);
            reported.holds = true;
        }
        report
    }

    /// Whether a condition that caused an alert, and held until now, no longer holds in this
    /// sample.
    fn leaves(&mut self, condition: Condition, holds: bool) -> bool {
        let reported = self.reported.entry(condition).or_default();
        let ended = reported.holds && !holds;
        reported.holds &= holds;
        ended
    }
}

fn cleared(alert: &str, context: String, mut metadata: Map) -> Notice {
    metadata.insert("alert", alert);
    metadata.insert(metadata_keys::SEVERITY, "info");
    Notice {
        event_type: EventType::AlertCleared.as_str(),
        context,
        metadata,
    }
}

fn fragmentation(reading: &Reading) -> Option<f64> {
    let reserved = reading.counters.allocator_reserved_bytes?;
    let allocated = reading.counters.allocator_allocated_bytes?;
    (reserved > 0).then(|| (reserved - allocated) as f64 / reserved as f64)
}

fn single(key: &str, value: Value) -> Map {
    let mut map = Map::new();
    map.insert(key, value);
    map
}

fn percent(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::Counters;

    const MIB: i64 = 1 << 20;
    const SECOND: i64 = 1_000_000_000;

    struct Run {
        state: AlertState,
        thresholds: Thresholds,
        level: i64,
        alerts: Vec<String>,
    }

    fn run() -> Run {
        Run {
            state: AlertState::default(),
            thresholds: Thresholds::default(),
            level: 0,
            alerts: Vec::new(),
        }
    }

    impl Run {
        /// Adds a sample of a test device with 1000 MiB; the given sizes are in MiB.
        fn at(&mut self, time_s: i64, allocated: i64, reserved: i64) -> &mut Self {
            let counters = Counters {
                allocator_allocated_bytes: Some(allocated * MIB),
                allocator_reserved_bytes: Some(reserved * MIB),
                device_used_bytes: Some(reserved * MIB),
                ..Counters::default()
            };
            let reading = Reading {
                timestamp_ns: time_s * SECOND,
                counters,
                ..Reading::default()
            };
            let change = allocated * MIB - std::mem::replace(&mut self.level, allocated * MIB);
            let alerts = self.state.check(
                &reading,
                change,
                Some(1000 * MIB),
                &self.thresholds,
                Scope::Allocator,
            );
            self.alerts.extend(
                alerts
                    .into_iter()
                    .map(|alert| format!("{}: {}", alert.event_type, alert.context)),
            );
            self
        }
    }

    #[test]
    fn a_full_device_is_told_once_a_minute_and_when_it_is_over() {
        let mut run = run();
        run.at(0, 100, 100);
        (1..=70).for_each(|second| {
            run.at(second, 850, 850);
        });
        run.at(71, 100, 850);
        assert_eq!(
            run.alerts
                .iter()
                .filter(|alert| alert.contains("usage"))
                .collect::<Vec<_>>(),
            [
                "warning: WARNING: Memory usage at 85.0%",
                "warning: WARNING: Memory usage at 85.0%",
                "alert_cleared: Memory usage back at 10.0%"
            ]
        );
    }

    #[test]
    fn critical_is_told_at_once_and_does_not_fall_back_to_a_warning() {
        let mut run = run();
        run.at(0, 850, 850)
            .at(1, 960, 960)
            .at(2, 850, 960)
            .at(3, 960, 960);
        assert_eq!(
            run.alerts,
            [
                "warning: WARNING: Memory usage at 85.0%",
                "critical: CRITICAL: Memory usage at 96.0%"
            ]
        );
    }

    #[test]
    fn wavering_around_the_limit_is_no_storm() {
        let mut run = run();
        (0..50).for_each(|second| {
            run.at(second, if second % 2 == 0 { 810 } else { 790 }, 810);
        });
        assert!(run.alerts.len() <= 3, "{:?}", run.alerts);
    }

    #[test]
    fn loading_a_model_and_training_on_it_is_no_alert() {
        let mut run = run();
        run.at(0, 0, 0).at(1, 300, 300).at(2, 500, 600);
        (3..40).for_each(|second| {
            run.at(second, if second % 2 == 0 { 500 } else { 200 }, 600);
        });
        assert_eq!(run.alerts, Vec::<String>::new());
        run.at(40, 750, 750);
        assert_eq!(
            run.alerts,
            ["warning: Large allocation detected: 550.00 MB"]
        );
    }

    #[test]
    fn fragmentation_beyond_the_usual_is_told() {
        let mut run = run();
        (0..20).for_each(|second| {
            run.at(second, 500, 550);
        });
        run.at(20, 200, 550).at(21, 200, 550);
        assert_eq!(run.alerts, ["warning: High fragmentation: 63.6%"]);
    }

    #[test]
    fn a_limit_that_was_set_is_meant_from_the_start() {
        let mut run = run();
        assert!(run.thresholds.set("memory_leak_threshold", 1.0));
        assert!(run.thresholds.set("fragmentation_threshold", 0.1));
        assert!(!run.thresholds.set("no_such", 0.1));
        run.at(0, 10, 20);
        assert_eq!(
            run.alerts,
            [
                "warning: Large allocation detected: 10.00 MB",
                "warning: High fragmentation: 50.0%"
            ]
        );
    }
}
