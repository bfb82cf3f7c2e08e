//! Labels of an event that issues are grouped by.

use stormlog_format::classify::label;
use stormlog_format::label::{UNKNOWN, normalize_text};
use stormlog_format::{EventType, Map, Text, Value, metadata_keys, python_str};

/// Types of the events about a collector's health.
pub const COLLECTOR_TRANSITION_TYPES: [&str; 2] = [
    EventType::CollectorDegraded.as_str(),
    EventType::CollectorRecovered.as_str(),
];

/// Health states of a collector whose readings cannot be trusted.
pub const COLLECTOR_DEGRADED_STATUSES: [&str; 2] = ["degraded", "unhealthy"];

/// Whether the event shows that its collector is degraded: by its type, or by the health status in
/// its metadata.
pub fn is_collector_degradation(event_type: &Text, metadata: &Map) -> bool {
    let degraded = |status: Text| {
        let mut known = COLLECTOR_DEGRADED_STATUSES.iter();
        known.any(|known| status == *known)
    };
    *event_type == EventType::CollectorDegraded.as_str()
        || label(metadata, metadata_keys::COLLECTOR_HEALTH_STATUS).is_some_and(degraded)
}

/// The backend named in an event's metadata.
pub fn backend(metadata: &Map) -> Text {
    match metadata.get(metadata_keys::BACKEND) {
        None | Some(Value::Null) => UNKNOWN.into(),
        Some(value) => normalize_text(&python_str(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::parse;

    fn metadata(json: &str) -> Map {
        let value = parse(json.as_bytes()).expect("valid JSON");
        value.as_map().expect("an object").clone()
    }

    #[test]
    fn backends_are_normalized() {
        let named = metadata(r#"{"backend": ["cuda", 1]}"#);
        assert_eq!(backend(&named), "['cuda', <num>]");
        assert_eq!(backend(&metadata("{}")), "unknown");
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
