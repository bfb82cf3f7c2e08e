//! Decides which events report something to the user, such as an alert or an out-of-memory error,
//! and how severe it is, and which exceptions mean that memory ran out.

mod exception;

use std::fmt;

pub use exception::{
    ExceptionFacts, ExhaustedMemory, device_oom_reason, exhausted_memory, legacy_oom_reason,
    oom_reason,
};

use crate::event_type::EventType;
use crate::label::normalize_text;
use crate::metadata_keys;
use crate::text::{Text, strip};
use crate::value::Map;

/// The names that make an event an alert, either as its type or as the `severity` in its metadata.
pub const ALERT_TYPES: [&str; 3] = [
    EventType::Warning.as_str(),
    EventType::Critical.as_str(),
    EventType::Error.as_str(),
];

/// The `oom_reason` that is recorded for a process that the kernel killed when memory ran out.
pub const KERNEL_OOM_KILL: &str = "kernel_oom_kill";

/// Whether an event of this type is a sample. Case and surrounding white space are ignored.
pub fn is_sample(event_type: &[u8]) -> bool {
    EventType::Sample.is(event_type)
        || std::str::from_utf8(event_type)
            .is_ok_and(|kind| strip(kind).eq_ignore_ascii_case(EventType::Sample.as_str()))
}

/// How urgent a finding or an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A note: worth knowing, but the run is not in danger.
    Info,
    /// The problem costs memory that the run or another process may need.
    Warning,
    /// The problem ended the run, or will end it.
    Critical,
}

crate::names!(Severity {
    Info => "info",
    Warning => "warning",
    Critical => "critical",
});

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Severity {
    /// The severity that the health of a degraded collector has.
    pub fn of_health(health: &Text) -> Self {
        if *health == "unhealthy" {
            Self::Critical
        } else {
            Self::Warning
        }
    }

    /// The severity that a normalized word in the metadata of an event means. A word that is not a
    /// known severity means a note.
    fn of_label(label: &Text) -> Self {
        match label.as_bytes() {
            b"critical" | b"error" | b"high" => Self::Critical,
            b"warning" | b"medium" => Self::Warning,
            _ => Self::Info,
        }
    }
}

/// Whether an event of this type is an alert.
pub fn is_alert_type(event_type: &[u8]) -> bool {
    let mut known = ALERT_TYPES.iter();
    known.any(|alert| alert.as_bytes() == event_type)
}

/// Whether an event of this type reports that a collector degraded or recovered.
pub fn is_collector_transition(event_type: &[u8]) -> bool {
    EventType::CollectorDegraded.is(event_type) || EventType::CollectorRecovered.is(event_type)
}

/// What an event reports to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// An out-of-memory error.
    Oom,
    /// A collector degraded or recovered.
    Collector,
    /// A warning, a critical alert or an error of the recorder.
    Alert,
}

/// What the event reports to the user; `None` if it reports nothing.
pub fn notice(event_type: &Text, metadata: &Map) -> Option<Notice> {
    if is_oom(event_type, metadata) {
        Some(Notice::Oom)
    } else if is_collector_transition(event_type.as_bytes()) {
        Some(Notice::Collector)
    } else {
        is_alert(event_type, metadata).then_some(Notice::Alert)
    }
}

/// How severe the event is: an out-of-memory error is critical, the severity of a degraded collector
/// depends on its health, and other events have the severity in their metadata or else that of
/// their type.
pub fn severity_of_event(event_type: &Text, metadata: &Map) -> Severity {
    if is_oom(event_type, metadata) {
        return Severity::Critical;
    }
    if EventType::CollectorDegraded.is(event_type.as_bytes()) {
        let health = label(metadata, metadata_keys::COLLECTOR_HEALTH_STATUS);
        return Severity::of_health(&health.unwrap_or_default());
    }
    Severity::of_label(&severity_label(event_type, metadata))
}

/// Whether the event is an alert, by its type or the severity in its metadata.
pub fn is_alert(event_type: &Text, metadata: &Map) -> bool {
    is_alert_type(event_type.as_bytes())
        || label(metadata, metadata_keys::SEVERITY)
            .is_some_and(|severity| is_alert_type(severity.as_bytes()))
}

/// The word for the severity of the event, as stormlog 0.3.9 writes it in rollups and in the
/// fingerprints of issues: from its metadata, otherwise from its type.
pub fn severity_label(event_type: &Text, metadata: &Map) -> Text {
    label(metadata, metadata_keys::SEVERITY).unwrap_or_else(|| {
        let by_type = match EventType::of(event_type.as_bytes()) {
            Some(EventType::Critical | EventType::Error) => "critical",
            Some(EventType::Warning) => "warning",
            _ => "info",
        };
        by_type.into()
    })
}

/// Whether the event is an out-of-memory error: an error whose metadata has the key `oom_reason` or
/// `oom_dump_path`.
pub fn is_oom(event_type: &Text, metadata: &Map) -> bool {
    *event_type == EventType::Error.as_str()
        && (metadata.contains(metadata_keys::OOM_REASON)
            || metadata.contains(metadata_keys::OOM_DUMP_PATH))
}

/// The value of a metadata key, if it is a text that is not blank.
pub fn label(metadata: &Map, key: &str) -> Option<Text> {
    let text = metadata.text(key)?;
    (!text.is_blank()).then(|| normalize_text(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn metadata(json: &str) -> Map {
        let value = parse(json.as_bytes()).expect("valid JSON");
        value.as_map().expect("an object").clone()
    }

    #[test]
    fn metadata_speaks_before_the_type() {
        let given = metadata(r#"{"severity": " WARNING "}"#);
        assert!(is_alert(&"sample".into(), &given));
        assert_eq!(severity_label(&"critical".into(), &given), "warning");
        let silent = metadata(r#"{"severity": 5, "oom_reason": null}"#);
        assert!(!is_alert(&"sample".into(), &silent));
        assert_eq!(severity_label(&"error".into(), &silent), "critical");
        assert!(is_oom(&"error".into(), &silent));
        assert!(!is_oom(&"critical".into(), &silent));
    }

    #[test]
    fn samples_are_recognized_however_they_are_spelled() {
        for kind in ["sample", "Sample", " SAMPLE\n", "\u{a0}sample"] {
            assert!(is_sample(kind.as_bytes()), "{kind:?}");
        }
        assert!(!is_sample(b"samples") && !is_sample(b"\xffsample"));
    }

    #[test]
    fn events_have_one_severity() {
        use Notice::{Alert, Collector, Oom};
        use Severity::{Critical, Info, Warning};
        let of = |kind: &str, json: &str| {
            let (kind, metadata) = (kind.into(), metadata(json));
            (
                notice(&kind, &metadata),
                severity_of_event(&kind, &metadata),
            )
        };
        let severe = r#"{"severity": "Critical"}"#;
        assert_eq!(of("warning", severe), (Some(Alert), Critical));
        assert_eq!(
            of("sample", r#"{"severity": "warning"}"#),
            (Some(Alert), Warning)
        );
        assert_eq!(
            of("critical", r#"{"severity": "unheard"}"#),
            (Some(Alert), Info)
        );
        assert_eq!(of("sample", "{}"), (None, Info));
        let oom = r#"{"severity": "info", "oom_reason": "x"}"#;
        assert_eq!(of("error", oom), (Some(Oom), Critical));
        let unhealthy = r#"{"collector_health_status": "Unhealthy"}"#;
        assert_eq!(
            of("collector_degraded", unhealthy),
            (Some(Collector), Critical)
        );
        assert_eq!(of("collector_degraded", "{}"), (Some(Collector), Warning));
        assert_eq!(of("collector_recovered", "{}"), (Some(Collector), Info));
    }
}
