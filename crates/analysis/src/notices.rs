//! Finds the events that report something to the user: alerts, out-of-memory errors and changes of
//! a collector's health.

use memchr::memmem::Finder;
use stormlog_format::classify::{self, Notice, Severity, is_alert_type, is_collector_transition};
use stormlog_format::{EventType, Map, Text, metadata_keys};

use crate::columns::{EventRef, Events, RowSet};
use crate::load::LoadedSession;

/// An event that reports something to the user.
pub struct Noticed<'a> {
    /// The event.
    pub event: EventRef<'a>,
    /// The type of the event.
    pub event_type: Text,
    /// The metadata of the event.
    pub metadata: Map,
    /// What the event reports.
    pub notice: Notice,
    /// How severe the event is.
    pub severity: Severity,
}

/// The events of each session that report something, with the index of the session.
pub fn notices<'a>(sessions: &[&'a LoadedSession]) -> Vec<(usize, Noticed<'a>)> {
    let mut found = Vec::new();
    // The sessions of an artifact share one table of events, which is searched only once.
    let mut searched: Option<RowSet> = None;
    for (index, session) in sessions.iter().enumerate() {
        let events = &session.events;
        let set = match searched.take().filter(|set| set.is_of(events)) {
            Some(set) => set,
            None => may_report(events),
        };
        let rows = events.rows.iter().filter(|row| set.contains(**row));
        let noticed = rows.filter_map(|row| Noticed::of(events.event(*row)));
        found.extend(noticed.map(|one| (index, one)));
        searched = Some(set);
    }
    found
}

/// The rows of the table behind `events` that may report something. For most events, the type and
/// the text of the metadata rule it out without parsing.
fn may_report(events: &Events) -> RowSet {
    let is_reported = |kind: &[u8]| is_alert_type(kind) || is_collector_transition(kind);
    let severity = Finder::new(metadata_keys::SEVERITY);
    RowSet::of_table_of(events, is_reported, &[&severity])
}

impl<'a> Noticed<'a> {
    fn of(event: EventRef<'a>) -> Option<Self> {
        let event_type = Text::from_bytes(event.event_type());
        let metadata = event.metadata();
        Some(Self {
            notice: classify::notice(&event_type, &metadata)?,
            severity: classify::severity_of_event(&event_type, &metadata),
            event,
            event_type,
            metadata,
        })
    }
}

/// The label of an event: its context, or else what its type means.
pub fn event_label(event_type: &Text, context: Option<&Text>, metadata: &Map) -> Text {
    let context = context.map(Text::stripped);
    if let Some(context) = context.filter(|context| !context.is_blank()) {
        return context;
    }
    if classify::is_oom(event_type, metadata) {
        let reason = metadata.text(metadata_keys::OOM_REASON);
        return match reason.map(Text::stripped) {
            Some(reason) if !reason.is_blank() => {
                Text::from_bytes(&[b"OOM detected: ", reason.as_bytes()].concat())
            }
            _ => "OOM detected".into(),
        };
    }
    let by_type = match EventType::of(event_type.as_bytes()) {
        Some(EventType::Start) => "Tracking started",
        Some(EventType::Stop) => "Tracking stopped",
        Some(EventType::CollectorDegraded) => "Collector degraded",
        Some(EventType::CollectorRecovered) => "Collector recovered",
        Some(EventType::Warning) => "Warning",
        Some(EventType::Critical) => "Critical alert",
        Some(EventType::Error) => "Error",
        _ => "Alert",
    };
    by_type.into()
}
