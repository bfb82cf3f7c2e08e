//! What an event in columns is about, with as little reading of its metadata as possible.

use stormlog_format::{Map, Text, classify};

use crate::columns::EventRef;

/// Whether the metadata may have a key; an escaped spelling counts as maybe.
pub(crate) fn may_have(event: EventRef<'_>, key: &str) -> bool {
    let json = event.metadata_json();
    memchr::memmem::find(json, key.as_bytes()).is_some() || memchr::memchr(b'\\', json).is_some()
}

/// The metadata when it may have one of the keys, else an empty object.
pub(crate) fn metadata_with(event: EventRef<'_>, keys: &[&str]) -> Map {
    if keys.iter().any(|key| may_have(event, key)) {
        event.metadata()
    } else {
        Map::new()
    }
}

/// Whether the event is an alert.
pub(crate) fn is_alert(event: EventRef<'_>) -> bool {
    let kind = event.event_type();
    let by_type = classify::ALERT_TYPES
        .iter()
        .any(|alert| kind == alert.as_bytes());
    by_type
        || may_have(event, "severity")
            && classify::is_alert(&Text::from_bytes(kind), &event.metadata())
}

/// Whether the event tells that a collector went down or came back.
pub(crate) fn is_transition(event: EventRef<'_>) -> bool {
    classify::COLLECTOR_TRANSITION_TYPES
        .iter()
        .any(|kind| event.event_type() == kind.as_bytes())
}

/// Whether the event is a sample.
pub(crate) fn is_sample(event: EventRef<'_>) -> bool {
    event.event_type() == b"sample"
}
