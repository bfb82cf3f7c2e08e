//! Marks on a chart: alerts, out-of-memory errors, failures and recoveries of collectors, and
//! findings.

use std::collections::HashMap;

use stormlog_analysis::detect::{Diagnosis, Finding, Judged, Kind, Severity};
use stormlog_analysis::{LoadedSession, event_label, notices};
use stormlog_format::classify::Notice;
use stormlog_format::{Text, human_rate};

use crate::bytes;
use crate::label::{clean, plain_paragraph};

/// The kind of event or finding that a mark shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// A warning, a critical alert or an error of the recorder.
    Alert,
    /// The device ran out of memory.
    Oom,
    /// The collector could no longer read its source (such as NVML), or can read it again.
    Collector,
    /// A memory problem that the analysis found, or the peak in the history of an allocator.
    Finding,
    /// A finding that names the rank where a problem probably began.
    Suspect,
    /// The moment from which a problem affected several ranks.
    Onset,
}

stormlog_format::names!(MarkKind {
    Alert => "alert",
    Oom => "oom",
    Collector => "collector",
    Finding => "finding",
    Suspect => "suspect",
    Onset => "onset",
});

/// A moment or a time span that is marked on a chart with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When the marked event happened or the marked time span begins, in nanoseconds on the clock
    /// of its rank.
    pub time_ns: i64,
    /// When the marked time span ends, in nanoseconds; `None` for a single moment.
    pub end_ns: Option<i64>,
    /// The rank that the mark concerns; `None` for all ranks.
    pub rank: Option<i64>,
    /// How severe the marked event or finding is.
    pub severity: Severity,
    /// The label of the mark, in a few words.
    pub label: String,
    /// A full sentence that explains the marked finding, shown where there is enough space.
    pub detail: Option<String>,
    /// Which kind of event or finding the mark shows.
    pub kind: MarkKind,
    /// Whether the mark concerns host memory and not a device.
    pub on_host: bool,
}

/// Creates the marks for the events of several sessions, in order of time. The start and the end of
/// a session get no mark.
pub fn marks_of(sessions: &[&LoadedSession]) -> Vec<Mark> {
    let on_host = |session: &&LoadedSession| {
        let first = session.events.get(0);
        first.is_some_and(|event| event.origin().device_id < 0)
    };
    let on_host: Vec<bool> = sessions.iter().map(on_host).collect();
    let mut marks: Vec<Mark> = notices(sessions)
        .into_iter()
        .map(|(session, noticed)| {
            let event = noticed.event;
            let context = event.context().map(Text::from_bytes);
            let label = event_label(&noticed.event_type, context.as_ref(), &noticed.metadata);
            Mark {
                time_ns: event.timestamp_ns(),
                end_ns: None,
                rank: Some(event.origin().rank),
                severity: noticed.severity,
                label: clean(&label.to_str_lossy()),
                detail: None,
                kind: match noticed.notice {
                    Notice::Alert => MarkKind::Alert,
                    Notice::Oom => MarkKind::Oom,
                    Notice::Collector => MarkKind::Collector,
                },
                on_host: on_host[session],
            }
        })
        .collect();
    marks.sort_by_key(|mark| mark.time_ns);
    marks
}

/// Creates a mark for each finding of a diagnosis that has an onset (the time at which the problem
/// began).
pub fn marks_of_diagnosis(diagnosis: &Diagnosis) -> Vec<Mark> {
    let mark = |finding: &Finding| {
        let detector = finding.kind.detector();
        Some(Mark {
            time_ns: finding.onset_ns?,
            end_ns: finding.end_ns.filter(|_| detector.draws_end),
            rank: finding.rank.map(i64::from),
            severity: finding.severity,
            label: short_label(finding),
            detail: Some(plain_paragraph(&finding.explanation)),
            kind: match finding.kind {
                Kind::RankFirstCause => MarkKind::Suspect,
                _ => MarkKind::Finding,
            },
            on_host: detector.resource == Judged::Host || finding.device_id < 0,
        })
    };
    diagnosis.findings().into_iter().filter_map(mark).collect()
}

/// Describes a finding in a few words: its kind and its size in bytes.
fn short_label(finding: &Finding) -> String {
    let what = match finding.kind {
        Kind::OomRisk if finding.time_to_full_s.is_some_and(|left| left <= 0.0) => "out of memory",
        kind => kind.detector().label,
    };
    let rate = finding.rate_bytes_per_s.filter(|rate| rate.is_finite());
    match (rate, finding.magnitude_bytes) {
        (Some(rate), _) => format!("{what}, {}", human_rate(rate)),
        (None, Some(size)) => format!("{what}, {}", bytes::human(size)),
        (None, None) => what.to_owned(),
    }
}

/// Marks whose labels differ only in numbers, drawn with one label that ends in their count: `High
/// fragmentation: 51.2% ×2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkGroup {
    /// The first mark of the group, whose label is used for the whole group.
    pub(crate) first: Mark,
    /// The times of all marks of the group.
    pub(crate) times: Vec<i64>,
}

impl MarkGroup {
    /// The full sentence of the first mark, or its label if it has no sentence.
    pub(crate) fn sentence(&self) -> String {
        let detail = self.first.detail.clone();
        detail.unwrap_or_else(|| self.label())
    }

    /// The label of the first mark, and the number of marks in the group.
    pub(crate) fn label(&self) -> String {
        match self.times.len() {
            1 => self.first.label.clone(),
            count => format!("{} ×{count}", self.first.label),
        }
    }
}

/// Groups marks that differ only in their numbers, such as alerts that fire on every sample.
pub(crate) fn grouped(marks: &[Mark]) -> Vec<MarkGroup> {
    let mut groups: Vec<MarkGroup> = Vec::new();
    let mut indices = HashMap::new();
    for mark in marks {
        let words: String = mark.label.chars().filter(|c| !c.is_ascii_digit()).collect();
        let key = (words, mark.kind, mark.severity, mark.rank, mark.on_host);
        let known = indices.get(&key).filter(|_| mark.kind != MarkKind::Finding);
        if let Some(index) = known {
            let group: &mut MarkGroup = &mut groups[*index];
            group.times.push(mark.time_ns);
            continue;
        }
        indices.entry(key).or_insert(groups.len());
        groups.push(MarkGroup {
            first: mark.clone(),
            times: vec![mark.time_ns],
        });
    }
    groups
}

#[cfg(test)]
mod tests {
    use stormlog_analysis::Events;
    use stormlog_format::RecordDefaults;

    use super::*;

    fn alert(time_ns: i64, label: &str) -> Mark {
        Mark {
            time_ns,
            end_ns: None,
            rank: Some(0),
            severity: Severity::Warning,
            label: label.into(),
            detail: None,
            kind: MarkKind::Alert,
            on_host: false,
        }
    }

    /// The 200,000 alerts of this test would take 10^10 comparisons if each mark were compared with
    /// each group.
    #[test]
    fn many_different_alerts_are_grouped_in_one_pass() {
        let words = |n: usize| {
            let digits = n.to_string().into_bytes().into_iter();
            // The labels must differ in letters, because labels that differ only in digits form one
            // group.
            digits
                .map(|digit| char::from(digit + b'a' - b'0'))
                .collect::<String>()
        };
        let marks: Vec<Mark> = (0..200_000)
            .map(|n| alert(1, &words(n % 100_000)))
            .collect();
        let groups = grouped(&marks);
        assert_eq!(groups.len(), 100_000);
        assert!(groups.iter().all(|group| group.times.len() == 2));
    }

    #[test]
    fn the_metadata_decide_the_severity_of_a_mark() {
        let event = |time_ns: i64, kind: &str, metadata: &str| {
            let line = format!(
                r#"{{"schema_version": 3, "session_id": "s", "timestamp_ns": {time_ns},
                "event_type": "{kind}", "collector": "x", "sampling_interval_ms": 1, "pid": 7,
                "host": "h", "device_id": 0, "allocator_allocated_bytes": 1,
                "allocator_reserved_bytes": 1, "allocator_active_bytes": null,
                "allocator_inactive_bytes": null, "allocator_change_bytes": 0,
                "device_used_bytes": 1, "device_free_bytes": 1, "device_total_bytes": 2,
                "context": null, "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1,
                "metadata": {metadata}}}"#
            );
            let value = stormlog_format::json::parse(line.as_bytes()).unwrap();
            stormlog_format::event_from_record(value.as_map().unwrap(), &RecordDefaults::default())
                .unwrap()
        };
        let session = LoadedSession::of_events(&Events::from_events(&[
            event(1, "sample", "{}"),
            event(2, "warning", r#"{"severity": "critical"}"#),
            event(3, "sample", r#"{"severity": "warning"}"#),
            event(4, "error", r#"{"severity": "info", "oom_reason": "x"}"#),
        ]));
        let marks: Vec<_> = marks_of(&[&session])
            .into_iter()
            .map(|mark| (mark.time_ns, mark.severity, mark.kind, mark.label))
            .collect();
        assert_eq!(
            marks,
            [
                (2, Severity::Critical, MarkKind::Alert, "Warning".into()),
                (3, Severity::Warning, MarkKind::Alert, "Alert".into()),
                (
                    4,
                    Severity::Critical,
                    MarkKind::Oom,
                    "OOM detected: x".into()
                ),
            ]
        );
    }

    #[test]
    fn alerts_that_differ_in_numbers_are_one() {
        let marks = [
            alert(1, "High fragmentation: 51.2%"),
            alert(2, "Large allocation detected: 1 GB"),
            alert(3, "High fragmentation: 7.0%"),
        ];
        let groups = grouped(&marks);
        let labels: Vec<String> = groups.iter().map(MarkGroup::label).collect();
        assert_eq!(labels[0], "High fragmentation: 51.2% ×2");
        assert_eq!(labels[1], "Large allocation detected: 1 GB");
        assert_eq!(groups[0].times, [1, 3]);
    }
}
