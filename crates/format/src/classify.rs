//! Decides which events count as alerts and as out-of-memory errors, and which exceptions mean that
//! memory ran out.

mod exception;

pub use exception::{
    ExceptionFacts, ExhaustedMemory, device_oom_reason, exhausted_memory, legacy_oom_reason,
    oom_reason,
};

use crate::event_type::EventType;
use crate::label::normalize_text;
use crate::metadata_keys;
use crate::text::Text;
use crate::value::{Map, Value};

/// The names that make an event an alert, either as its type or as the `severity` in its metadata.
pub const ALERT_TYPES: [&str; 3] = [
    EventType::Warning.as_str(),
    EventType::Critical.as_str(),
    EventType::Error.as_str(),
];

/// The `oom_reason` that is recorded for a process that the kernel killed when memory ran out.
pub const KERNEL_OOM_KILL: &str = "kernel_oom_kill";

/// Whether the event is an alert, by its type or the severity in its metadata.
pub fn is_alert(event_type: &Text, metadata: &Map) -> bool {
    let is_one = |text: &Text| ALERT_TYPES.iter().any(|alert| text == alert);
    is_one(event_type)
        || label(metadata, metadata_keys::SEVERITY).is_some_and(|severity| is_one(&severity))
}

/// The severity of the event: from its metadata, otherwise from its type.
pub fn severity(event_type: &Text, metadata: &Map) -> Text {
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
        let given = metadata(r#"{"severity": " WARNING "}"#);
        assert!(is_alert(&"sample".into(), &given));
        assert_eq!(severity(&"critical".into(), &given), "warning");
        let silent = metadata(r#"{"severity": 5, "oom_reason": null}"#);
        assert!(!is_alert(&"sample".into(), &silent));
        assert_eq!(severity(&"error".into(), &silent), "critical");
        assert!(is_oom(&"error".into(), &silent));
        assert!(!is_oom(&"critical".into(), &silent));
    }
}
