//! Moments worth a label: alerts, out-of-memory errors, degradations and findings.

use stormlog_analysis::{EventRef, LoadedSession};
use stormlog_format::{Map, Value};

use crate::label::{clean, clean_bytes};
use crate::track::type_name;

/// How bad it is; the worst orders last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Needs a look.
    Warning,
    /// The run is lost or about to be.
    Critical,
}

impl Severity {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Reads the word; anything else is information.
    pub fn parse(text: &str) -> Self {
        match text.trim().to_ascii_lowercase().as_str() {
            "critical" | "error" | "high" => Self::Critical,
            "warning" | "medium" => Self::Warning,
            _ => Self::Info,
        }
    }
}

/// What a mark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// A warning, a critical alert or an error of the recorder.
    Alert,
    /// The device ran out of memory.
    Oom,
    /// The collector lost or found its source of numbers.
    Collector,
    /// What an analysis found.
    Finding,
    /// The rank where it likely began.
    Suspect,
    /// The moment from which several ranks were affected.
    Onset,
}

impl MarkKind {
    /// The word on pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Oom => "oom",
            Self::Collector => "collector",
            Self::Finding => "finding",
            Self::Suspect => "suspect",
            Self::Onset => "onset",
        }
    }

    /// Reads the word; anything else is a finding.
    pub fn parse(text: &str) -> Self {
        let kinds = [
            Self::Alert,
            Self::Oom,
            Self::Collector,
            Self::Suspect,
            Self::Onset,
        ];
        let found = kinds.into_iter().find(|kind| kind.as_str() == text);
        found.unwrap_or(Self::Finding)
    }
}

/// A moment, or a stretch of time, with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it begins, on the clock of its rank.
    pub time_ns: i64,
    /// When it ends, if it lasts.
    pub end_ns: Option<i64>,
    /// The rank that it is about; none when it is about all.
    pub rank: Option<i64>,
    /// How bad it is.
    pub severity: Severity,
    /// What to write.
    pub label: String,
    /// What it is about.
    pub kind: MarkKind,
}

/// The marks that the events of some sessions make, in time order.
pub fn marks_of(sessions: &[&LoadedSession]) -> Vec<Mark> {
    let events = sessions.iter().flat_map(|session| session.events.iter());
    let mut marks: Vec<Mark> = events.filter_map(mark_of).collect();
    marks.sort_by_key(|mark| mark.time_ns);
    marks
}

fn mark_of(event: EventRef<'_>) -> Option<Mark> {
    let (severity, kind, fallback) = match event.event_type() {
        b"collector_degraded" => (Severity::Warning, MarkKind::Collector, "Collector degraded"),
        b"collector_recovered" => (Severity::Info, MarkKind::Collector, "Collector recovered"),
        b"warning" => (Severity::Warning, MarkKind::Alert, "Warning"),
        b"critical" => (Severity::Critical, MarkKind::Alert, "Critical alert"),
        b"error" => return Some(error_mark(event)),
        _ => return None,
    };
    Some(with_label(event, severity, kind, fallback))
}

/// An error is an out-of-memory error when its metadata says so.
fn error_mark(event: EventRef<'_>) -> Mark {
    let metadata = event.metadata();
    let is_oom = metadata.contains("oom_reason") || metadata.contains("oom_dump_path");
    if !is_oom {
        return with_label(event, Severity::Critical, MarkKind::Alert, "Error");
    }
    let reason = text_of(&metadata, "oom_reason");
    let fallback = reason.map_or_else(
        || "OOM detected".to_owned(),
        |reason| format!("OOM detected: {reason}"),
    );
    with_label(event, Severity::Critical, MarkKind::Oom, &fallback)
}

fn text_of(metadata: &Map, key: &str) -> Option<String> {
    let text = metadata.get(key).and_then(Value::as_text)?;
    Some(clean(&text.to_str_lossy()))
}

fn with_label(event: EventRef<'_>, severity: Severity, kind: MarkKind, fallback: &str) -> Mark {
    let context = event.context().map(clean_bytes);
    let context = context.filter(|context| !context.trim().is_empty());
    Mark {
        time_ns: event.timestamp_ns(),
        end_ns: None,
        rank: Some(event.origin().rank),
        severity,
        label: context.unwrap_or_else(|| match fallback {
            "" => type_name(event),
            fallback => clean(fallback),
        }),
        kind,
    }
}

/// Marks that say the same thing, drawn as one with a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkGroup {
    /// The first of them.
    pub(crate) first: Mark,
    /// When each of them is.
    pub(crate) times: Vec<i64>,
}

impl MarkGroup {
    /// What to write: the label, and how many times it applies.
    pub(crate) fn label(&self) -> String {
        match self.times.len() {
            1 => self.first.label.clone(),
            count => format!("{} ×{count}", self.first.label),
        }
    }
}

/// Groups marks that differ only in their numbers, as alerts do that fire on every sample.
pub(crate) fn grouped(marks: &[Mark]) -> Vec<MarkGroup> {
    let mut groups: Vec<(String, MarkGroup)> = Vec::new();
    for mark in marks {
        let words: String = mark.label.chars().filter(|c| !c.is_ascii_digit()).collect();
        let same = groups.iter_mut().find(|(key, group)| {
            *key == words
                && group.first.kind == mark.kind
                && group.first.severity == mark.severity
                && group.first.rank == mark.rank
                && mark.kind != MarkKind::Finding
        });
        match same {
            Some((_, group)) => group.times.push(mark.time_ns),
            None => groups.push((
                words,
                MarkGroup {
                    first: mark.clone(),
                    times: vec![mark.time_ns],
                },
            )),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(time_ns: i64, label: &str) -> Mark {
        Mark {
            time_ns,
            end_ns: None,
            rank: Some(0),
            severity: Severity::Warning,
            label: label.into(),
            kind: MarkKind::Alert,
        }
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
