//! What an event is about: an alert, an out-of-memory error, trouble of its collector.

use crate::fingerprint::{UNKNOWN, normalize_text};
use crate::python_text::python_str;
use crate::text::Text;
use crate::value::{Map, Value};

/// Types and severities that make an event an alert.
pub const ALERT_TYPES: [&str; 3] = ["warning", "critical", "error"];

/// Types of the events about a collector's health.
pub const COLLECTOR_TRANSITION_TYPES: [&str; 2] = ["collector_degraded", "collector_recovered"];

/// Health of a collector that cannot be trusted.
pub const COLLECTOR_DEGRADED_STATUSES: [&str; 2] = ["degraded", "unhealthy"];

/// The `oom_reason` of a process that the kernel killed when memory ran out.
pub const KERNEL_OOM_KILL: &str = "kernel_oom_kill";

/// Whether the event is an alert, by its type or its metadata's severity.
pub fn is_alert(event_type: &Text, metadata: &Map) -> bool {
    let is_one = |text: &Text| ALERT_TYPES.iter().any(|alert| text == alert);
    is_one(event_type) || label(metadata, "severity").is_some_and(|severity| is_one(&severity))
}

/// How bad the event is: as its metadata says, else by its type.
pub fn severity(event_type: &Text, metadata: &Map) -> Text {
    label(metadata, "severity").unwrap_or_else(|| {
        let by_type = match event_type.as_str() {
            Some("critical" | "error") => "critical",
            Some("warning") => "warning",
            _ => "info",
        };
        by_type.into()
    })
}

/// Whether the event is an out-of-memory error.
pub fn is_oom(event_type: &Text, metadata: &Map) -> bool {
    *event_type == "error"
        && (metadata.contains("oom_reason") || metadata.contains("oom_dump_path"))
}

/// Whether the event was recorded by a collector in trouble.
pub fn is_collector_degradation(event_type: &Text, metadata: &Map) -> bool {
    let degraded = |status: Text| {
        let mut known = COLLECTOR_DEGRADED_STATUSES.iter();
        known.any(|known| status == *known)
    };
    *event_type == "collector_degraded"
        || label(metadata, "collector_health_status").is_some_and(degraded)
}

/// The backend that the event speaks of.
pub fn backend(metadata: &Map) -> Text {
    match metadata.get("backend") {
        None | Some(Value::Null) => UNKNOWN.into(),
        Some(value) => normalize_text(&python_str(value)),
    }
}

/// A label of the metadata, when it is a text that says something.
fn label(metadata: &Map, key: &str) -> Option<Text> {
    let text = metadata.get(key).and_then(Value::as_text)?;
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
        let given = metadata(r#"{"severity": " WARNING ", "backend": ["cuda", 1]}"#);
        assert!(is_alert(&"sample".into(), &given));
        assert_eq!(severity(&"critical".into(), &given), "warning");
        assert_eq!(backend(&given), "['cuda', <num>]");
        let silent = metadata(r#"{"severity": 5, "oom_reason": null}"#);
        assert!(!is_alert(&"sample".into(), &silent));
        assert_eq!(severity(&"error".into(), &silent), "critical");
        assert!(is_oom(&"error".into(), &silent));
        assert!(!is_oom(&"critical".into(), &silent));
        assert_eq!(backend(&silent), "unknown");
    }

    #[test]
    fn degraded_collectors() {
        let sick = metadata(r#"{"collector_health_status": "Unhealthy"}"#);
        assert!(is_collector_degradation(&"sample".into(), &sick));
        let well = metadata(r#"{"collector_health_status": "healthy"}"#);
        assert!(!is_collector_degradation(&"sample".into(), &well));
        assert!(is_collector_degradation(
            &"collector_degraded".into(),
            &well
        ));
    }
}
