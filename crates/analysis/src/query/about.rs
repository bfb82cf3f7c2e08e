//! Determines what events are (sample, alert, possible problem), and parses their metadata only
//! when necessary.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use stormlog_format::classify::{self, is_alert_type};
use stormlog_format::{EventType, Text, metadata_keys};

use crate::columns::{EventRef, Events, RowSet, may_have};

/// Substring searchers for two metadata keys. They are created once, because queries use them on
/// all events.
static SEVERITY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(metadata_keys::SEVERITY));
static HEALTH: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(metadata_keys::COLLECTOR_HEALTH_STATUS));

/// The rows of the table behind `events` that may report a problem. For most events, the type and
/// the text of the metadata rule out a problem without parsing.
pub(crate) fn may_be_trouble(events: &Events) -> RowSet {
    let is_trouble = |kind: &[u8]| is_alert_type(kind) || EventType::CollectorDegraded.is(kind);
    RowSet::of_table_of(events, is_trouble, &[&SEVERITY, &HEALTH])
}

/// The text under a key of an event's metadata, which are parsed only if they may contain the key.
pub(crate) fn metadata_text(event: EventRef<'_>, key: &str) -> Option<Text> {
    if !may_have(event.metadata_words(), &[&Finder::new(key)]) {
        return None;
    }
    event.metadata().text(key).cloned()
}

/// Whether the event is an alert.
pub fn is_alert(event: EventRef<'_>) -> bool {
    let kind = event.event_type();
    is_alert_type(kind)
        || may_have(event.metadata_words(), &[&SEVERITY])
            && classify::is_alert(&Text::from_bytes(kind), &event.metadata())
}

/// Whether the event is a sample for the metrics of `query summary`. As in stormlog 0.3.9, the type
/// must be exactly `sample`, because the metrics are also answered from rollups, which count by this
/// rule.
pub(crate) fn is_sample(event: EventRef<'_>) -> bool {
    EventType::Sample.is(event.event_type())
}
