//! The state of the live view of the sampled target: its last events, its alerts in groups, the
//! health of its collectors, and the limits for alerts.

use std::collections::{BTreeMap, VecDeque};

use stormlog_format::whole;
use stormlog_format::{Event, EventType, Text, classify, metadata_keys};
use stormlog_report::clean;

/// How many events the live view keeps; at two samples a second, these events cover more than an
/// hour.
const KEPT: usize = 10_000;
/// How many points of each device or host the live view keeps for its small curve.
const POINTS: usize = 2_000;
/// How many groups of similar alerts the live view keeps.
const ALERTS: usize = 50;

/// A time without an event is normal up to this number of nanoseconds, because writers buffer
/// events for a few seconds.
const LONG_SILENCE_NS: i64 = 5_000_000_000;

/// A lane of the live view: the samples of one device, or of the host memory of processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The time in nanoseconds and the bytes in use of each sample, the oldest first.
    pub(crate) points: VecDeque<(i64, i64)>,
    pub(crate) total: Option<i64>,
    pub(crate) peak: i64,
}

/// A group of alerts with the same severity and with texts that differ only in their digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertGroup {
    pub(crate) severity: &'static str,
    pub(crate) text: String,
    pub(crate) count: usize,
    pub(crate) last_ns: i64,
    /// The text without digits, by which alerts are grouped.
    words: String,
}

/// The health that the collector of a rank (the code that samples its memory) reports in its
/// events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) status: String,
    /// Why the collector is not healthy; `None` if its events state no reason.
    pub(crate) reason: Option<String>,
}

/// The time since the last event of the sampled target, such as a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) length_ns: i64,
    /// Whether the time without an event is unusually long: more than ten sampling intervals, and
    /// longer than writers buffer events.
    pub(crate) is_long: bool,
}

/// The shares of memory at which a warning and a critical alert are raised, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub(crate) warning: f64,
    pub(crate) critical: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            warning: 80.0,
            critical: 95.0,
        }
    }
}

impl Limits {
    /// The limit that a share of memory in percent exceeds: `warning` or `critical`, otherwise
    /// `fine`.
    pub(crate) fn level(self, share: f64) -> &'static str {
        match share {
            share if share >= self.critical => "critical",
            share if share >= self.warning => "warning",
            _ => "fine",
        }
    }

    /// Parses the percentages for warnings and critical alerts; the percentage for warnings must be
    /// the lower one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let numbers: Vec<f64> = text
            .split([' ', ',', '/', '%'])
            .filter(|part| !part.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| format!("'{text}' is not a pair of numbers such as 80 95"))?;
        match numbers.as_slice() {
            [warning, critical] if 0.0 < *warning && warning < critical && *critical <= 100.0 => {
                Ok(Self {
                    warning: *warning,
                    critical: *critical,
                })
            }
            _ => Err("thresholds must be between 0 and 100, the first below the second".into()),
        }
    }
}

/// The state of the live view, which the monitoring tab shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor {
    /// The description of the sampled target; `None` when nothing is sampled.
    pub(crate) what: Option<String>,
    /// The lanes of the live view (samples of one device or of host memory), by rank and device.
    pub(crate) lanes: BTreeMap<(i64, i64), Lane>,
    pub(crate) events: VecDeque<Event>,
    /// Groups of alerts whose texts differ only in their digits, the latest first.
    pub(crate) alerts: Vec<AlertGroup>,
    pub(crate) limits: Limits,
    /// The reason why the target could not be read; `None` again when new events arrive.
    pub(crate) failure: Option<String>,
    /// By rank, the health that the rank's collector reported last.
    pub(crate) health: BTreeMap<i64, Health>,
    /// By rank and device, the limit that the last sample exceeded (`warning` or `critical`,
    /// otherwise `fine`); remembered so that an alert is raised only once.
    last_levels: BTreeMap<(i64, i64), &'static str>,
}

impl Monitor {
    /// Clears the live view, except for its alert limits, and starts to show the target that `what`
    /// describes.
    pub(crate) fn begin(&mut self, what: String) {
        *self = Self {
            what: Some(what),
            limits: self.limits,
            ..Self::default()
        };
    }

    /// Adds new events of the sampled target to the lanes, the alerts and the health of the live
    /// view.
    pub(crate) fn take(&mut self, events: Vec<Event>) {
        self.failure = None;
        for event in events {
            self.take_one(&event);
            self.events.push_back(event);
        }
        while self.events.len() > KEPT {
            self.events.pop_front();
        }
    }

    /// The time since the last event of the sampled target; `None` if nothing is sampled or no
    /// event has arrived yet.
    pub(crate) fn silence(&self, now_ns: i64) -> Option<Silence> {
        let last = self.events.back().filter(|_| self.what.is_some())?;
        let length_ns = now_ns.saturating_sub(last.timestamp_ns).max(0);
        let interval_ns = last.sampling_interval_ms.saturating_mul(1_000_000);
        Some(Silence {
            length_ns,
            is_long: length_ns > interval_ns.saturating_mul(10).max(LONG_SILENCE_NS),
        })
    }

    /// The number of alerts in all groups.
    pub(crate) fn alert_count(&self) -> usize {
        self.alerts.iter().map(|alert| alert.count).sum()
    }

    fn take_one(&mut self, event: &Event) {
        let key = (event.rank, event.device_id);
        let word = |key: &str| event.metadata.text(key);
        if let Some(status) = word(metadata_keys::COLLECTOR_HEALTH_STATUS) {
            let reason = word(metadata_keys::COLLECTOR_LAST_ERROR)
                .or(word(metadata_keys::COLLECTOR_DEGRADATION_REASON));
            let health = Health {
                status: clean(&status.to_str_lossy()),
                reason: reason.map(|reason| clean(&reason.to_str_lossy())),
            };
            self.health.insert(event.rank, health);
        }
        let (kind, metadata) = (&event.event_type, &event.metadata);
        if classify::is_sample(kind.as_bytes()) {
            self.sample(key, event);
        }
        let is_recovery = EventType::CollectorRecovered.is(kind.as_bytes());
        if classify::notice(kind, metadata).is_some() && !is_recovery {
            let severity = classify::severity_of_event(kind, metadata);
            self.alert(severity.as_str(), &text_of(event), event.timestamp_ns);
        }
    }

    fn sample(&mut self, key: (i64, i64), event: &Event) {
        let counters = event.known_counters();
        let Some(used) = counters
            .device_used_bytes
            .or(counters.allocator_reserved_bytes)
        else {
            return;
        };
        let lane = self.lanes.entry(key).or_default();
        lane.points.push_back((event.timestamp_ns, used));
        if lane.points.len() > POINTS {
            lane.points.pop_front();
        }
        lane.peak = lane.peak.max(used);
        lane.total = counters.device_total_bytes.or(lane.total);
        let Some(total) = lane.total.filter(|total| *total > 0) else {
            return;
        };
        let share = percent(used, total);
        let level = self.limits.level(share);
        let before = self.last_levels.insert(key, level).unwrap_or("fine");
        if level != before && level != "fine" {
            let text = format!("{}: memory at {share:.1} %", lane_name(key.0, key.1));
            self.alert(level, &text, event.timestamp_ns);
        }
    }

    fn alert(&mut self, severity: &'static str, text: &str, at_ns: i64) {
        let words: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let known = self
            .alerts
            .iter()
            .position(|alert| alert.severity == severity && alert.words == words);
        let count = match known {
            Some(index) => self.alerts.remove(index).count + 1,
            None => 1,
        };
        self.alerts.insert(
            0,
            AlertGroup {
                severity,
                text: text.to_owned(),
                count,
                last_ns: at_ns,
                words,
            },
        );
        self.alerts.truncate(ALERTS);
    }
}

/// The name of a lane of the live view, from its rank and device.
pub(crate) fn lane_name(rank: i64, device: i64) -> String {
    match device {
        -1 => format!("rank {rank} host"),
        device => format!("rank {rank} device {device}"),
    }
}

/// The used memory in percent of the total memory.
pub(crate) fn percent(used: i64, total: i64) -> f64 {
    used as f64 / total as f64 * 100.0
}

/// Converts a percentage of a total to bytes.
pub(crate) fn share_of(total: i64, percent: f64) -> i64 {
    whole(total as f64 * percent / 100.0)
}

fn text_of(event: &Event) -> String {
    let context = event.context.as_ref().map(Text::to_str_lossy);
    clean(&context.unwrap_or_else(|| event.event_type.to_str_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_two_numbers_in_order() {
        assert_eq!(
            Limits::parse("70, 90 %").unwrap(),
            Limits {
                warning: 70.0,
                critical: 90.0
            }
        );
        for bad in ["", "90", "90 70", "a b", "0 50", "50 101"] {
            assert!(Limits::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn alerts_of_the_same_words_are_counted() {
        let mut monitor = Monitor::default();
        monitor.alert("warning", "High fragmentation: 40.1%", 1);
        monitor.alert("critical", "CUDA out of memory", 2);
        monitor.alert("warning", "High fragmentation: 57.9%", 3);
        let alerts: Vec<(usize, &str)> = monitor
            .alerts
            .iter()
            .map(|alert| (alert.count, alert.text.as_str()))
            .collect();
        assert_eq!(
            alerts,
            [(2, "High fragmentation: 57.9%"), (1, "CUDA out of memory")]
        );
    }
}
