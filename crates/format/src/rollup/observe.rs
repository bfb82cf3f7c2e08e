//! Extracts the part of an event that rollups need, called its observation.

use crate::classify::{self, is_alert_type};
use crate::event::Event;
use crate::event_type::EventType;
use crate::json::{Reader, parse};
use crate::metadata_keys;
use crate::scan::RawRecord;
use crate::text::Text;
use crate::value::{Map, Value};

/// The part of one event that rollups need.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field has the name of its key in the record"
)]
pub struct Observation {
    pub timestamp_ns: i64,
    pub rank: i64,
    pub local_rank: i64,
    pub world_size: i64,
    pub device_id: i64,
    pub allocator_allocated_bytes: Option<i64>,
    pub allocator_reserved_bytes: Option<i64>,
    pub device_used_bytes: Option<i64>,
    pub kind: Kind,
    /// The health of the collector according to the event's metadata. For an event that reports a
    /// change of the health, rollups ignore this field, because `kind` contains the new health.
    pub health: Option<Health>,
    /// The alert or out-of-memory error that the event reports; `None` for most events.
    pub incident: Option<Box<Incident>>,
}

/// The health of a collector as an event reports it. Nearly every event reports the status healthy
/// or degraded, so these two variants need no heap allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The collector reads all of its counters (status `healthy`).
    Healthy,
    /// The collector cannot read all of its counters (status `degraded`).
    Degraded,
    /// Any other health status, without surrounding white space and in lower case.
    Other(Text),
}

impl Health {
    /// Parses a health status; `None` when the text is blank.
    fn of(status: &[u8]) -> Option<Self> {
        match status {
            b"healthy" => Some(Self::Healthy),
            b"degraded" => Some(Self::Degraded),
            _ => {
                let word = Text::from_bytes(status).stripped().lowercased();
                match word.as_bytes() {
                    b"" => None,
                    b"healthy" => Some(Self::Healthy),
                    b"degraded" => Some(Self::Degraded),
                    _ => Some(Self::Other(word)),
                }
            }
        }
    }

    /// The health status as the text that an event contains.
    pub(crate) fn word(&self) -> Text {
        match self {
            Self::Healthy => "healthy".into(),
            Self::Degraded => "degraded".into(),
            Self::Other(word) => word.clone(),
        }
    }
}

/// The kinds of events that rollups treat differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A sample. Only for samples, a rollup keeps the difference between used device memory and
    /// reserved allocator memory.
    Sample,
    /// The collector can no longer read all of its counters.
    Degraded,
    /// The collector can read all of its counters again.
    Recovered,
    /// Any other event.
    #[default]
    Other,
}

impl Kind {
    /// Whether the event reports a change of the collector's health.
    pub(super) fn is_transition(self) -> bool {
        matches!(self, Self::Degraded | Self::Recovered)
    }
}

/// What an event reports besides its counters: an alert or an out-of-memory error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incident {
    /// Event type and severity, if the event is an alert.
    pub(crate) alert: Option<(Text, Text)>,
    /// Whether the event is an out-of-memory error.
    pub(crate) is_oom: bool,
    /// The path of the OOM bundle that was written for the error, if any.
    pub(crate) dump_path: Option<Text>,
}

/// The metadata key that contains the collector's health.
const HEALTH_KEY: &str = metadata_keys::COLLECTOR_HEALTH_STATUS;

/// Metadata keys that make an event an incident (an alert or an out-of-memory error).
const INCIDENT_KEYS: [&str; 3] = [
    metadata_keys::SEVERITY,
    metadata_keys::OOM_REASON,
    metadata_keys::OOM_DUMP_PATH,
];

/// What a rollup needs from the metadata of an event, determined by the keys of the metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataContent {
    /// The metadata contains nothing that a rollup needs.
    #[default]
    Nothing,
    /// The only key that a rollup needs is the collector's health status. The number is the index
    /// of this key among the keys of the metadata.
    Status(usize),
    /// The metadata must be parsed, because it has other keys that a rollup needs.
    More,
}

impl MetadataContent {
    /// Classifies metadata by its keys. The argument `keys` must not contain duplicates.
    pub fn of<'k>(keys: impl Iterator<Item = &'k str>) -> Self {
        let mut content = Self::Nothing;
        for (index, key) in keys.enumerate() {
            if INCIDENT_KEYS.contains(&key) {
                return Self::More;
            }
            if key == HEALTH_KEY {
                content = Self::Status(index);
            }
        }
        content
    }
}

impl Observation {
    /// Extracts what a rollup needs from an event.
    pub fn of(event: &Event) -> Self {
        Self {
            timestamp_ns: event.timestamp_ns,
            rank: event.rank,
            local_rank: event.local_rank,
            world_size: event.world_size,
            device_id: event.device_id,
            allocator_allocated_bytes: event.counters.allocator_allocated_bytes,
            allocator_reserved_bytes: event.counters.allocator_reserved_bytes,
            device_used_bytes: event.counters.device_used_bytes,
            ..Self::default()
        }
        .with_metadata(event.event_type.as_bytes(), &event.metadata)
    }

    /// Adds what a rollup needs from the type and the metadata of an event.
    #[must_use]
    pub fn with_metadata(mut self, event_type: &[u8], metadata: &Map) -> Self {
        self.kind = kind(event_type);
        self.health = metadata
            .text(HEALTH_KEY)
            .and_then(|status| Health::of(status.as_bytes()));
        if is_alert_type(event_type) || INCIDENT_KEYS.iter().any(|key| metadata.contains(key)) {
            self.incident = incident(&Text::from_bytes(event_type), metadata);
        }
        self
    }

    /// Adds the event type and the health status of the collector (blank if unknown); the metadata
    /// must contain nothing else that a rollup needs. If the event type is an alert, the function
    /// changes nothing and returns false.
    fn take_status(&mut self, event_type: &[u8], status: &[u8]) -> bool {
        if is_alert_type(event_type) {
            return false;
        }
        self.kind = kind(event_type);
        self.health = Health::of(status);
        true
    }

    /// Extracts what a rollup needs from a record. The caller passes the health status of the
    /// collector from the metadata as `status` (blank if the metadata has none), and must know that
    /// a rollup needs nothing else from the metadata.
    pub fn of_raw_with_status(record: &RawRecord<'_>, status: &[u8]) -> Self {
        let mut observation = Self::of_numbers(record);
        if observation.take_status(record.event_type, status) {
            return observation;
        }
        observation.with_metadata_json(record.event_type, record.metadata)
    }

    /// Extracts what a rollup needs from a record that the scanner has read.
    pub fn of_raw(record: &RawRecord<'_>) -> Self {
        Self::of_numbers(record).with_metadata_json(record.event_type, record.metadata)
    }

    fn of_numbers(record: &RawRecord<'_>) -> Self {
        let mut observation = Self {
            timestamp_ns: record.timestamp_ns,
            rank: record.origin.rank,
            local_rank: record.origin.local_rank,
            world_size: record.origin.world_size,
            device_id: record.origin.device_id,
            ..Self::default()
        };
        observation.set_counters(&record.counters);
        observation
    }

    /// Sets the counters that rollups use. The argument `counters` has the counters in the order in
    /// which a record is written.
    pub(super) fn set_counters(&mut self, counters: &[Option<i64>; 8]) {
        let [allocated, reserved, _, _, _, used, _, _] = *counters;
        self.allocator_allocated_bytes = allocated;
        self.allocator_reserved_bytes = reserved;
        self.device_used_bytes = used;
    }

    /// Adds what a rollup needs from the type and the metadata of an event; the metadata is given
    /// as JSON text.
    #[must_use]
    pub fn with_metadata_json(mut self, event_type: &[u8], metadata: &[u8]) -> Self {
        if let Some(status) = only_health(metadata)
            && self.take_status(event_type, status)
        {
            return self;
        }
        let read = parse(metadata).ok();
        match read.as_ref().and_then(Value::as_map) {
            Some(map) => self.with_metadata(event_type, map),
            None => self.with_metadata(event_type, &Map::new()),
        }
    }
}

/// The health status of the collector in the text of a metadata object, or blank when the object
/// has no health status. The status is `None` when the metadata may contain other keys that a
/// rollup needs.
fn only_health(metadata: &[u8]) -> Option<&[u8]> {
    let mut status: &[u8] = b"";
    let mut reader = Reader::new(metadata);
    if !reader.eat(b'{') {
        return None;
    }
    reader.skip_space();
    if reader.eat(b'}') {
        return Some(status);
    }
    loop {
        let key = reader.key().ok()?;
        if key.escaped
            || INCIDENT_KEYS
                .iter()
                .any(|known| known.as_bytes() == key.bytes)
        {
            return None;
        }
        reader.skip_space();
        if key.bytes == HEALTH_KEY.as_bytes() && reader.peek() == Some(b'"') {
            let word = reader.string().ok()?;
            if word.escaped {
                return None;
            }
            status = word.bytes;
        } else {
            reader.skip_value().ok()?;
        }
        if !reader.more(b'}').ok()? {
            return Some(status);
        }
    }
}

/// The kind of event that rollups count it as, by the exact type, as in stormlog 0.3.9.
fn kind(event_type: &[u8]) -> Kind {
    match EventType::of(event_type) {
        Some(EventType::Sample) => Kind::Sample,
        Some(EventType::CollectorDegraded) => Kind::Degraded,
        Some(EventType::CollectorRecovered) => Kind::Recovered,
        _ => Kind::Other,
    }
}

fn incident(event_type: &Text, metadata: &Map) -> Option<Box<Incident>> {
    let is_oom = classify::is_oom(event_type, metadata);
    let dump_path = metadata.text(metadata_keys::OOM_DUMP_PATH);
    let incident = Incident {
        alert: classify::is_alert(event_type, metadata).then(|| {
            (
                event_type.clone(),
                classify::severity_label(event_type, metadata),
            )
        }),
        is_oom,
        dump_path: dump_path.filter(|path| is_oom && !path.is_blank()).cloned(),
    };
    (incident != Incident::default()).then(|| Box::new(incident))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(event_type: &str, metadata: &str) -> Observation {
        let event_type = event_type.as_bytes();
        let observed = Observation::default().with_metadata_json(event_type, metadata.as_bytes());
        let map = parse(metadata.as_bytes()).unwrap();
        let slowly = Observation::default().with_metadata(event_type, map.as_map().unwrap());
        assert_eq!(observed, slowly, "{metadata}");
        observed
    }

    #[test]
    fn the_short_way_says_what_the_long_one_does() {
        assert_eq!(observed("sample", "{}").health, None);
        let healthy = r#"{"a": [1, {"severity": "error"}], "collector_health_status": "healthy"}"#;
        assert_eq!(observed("sample", healthy).health, Some(Health::Healthy));
        let odd = r#"{"collector_health_status": " Un\"well ", "b": 1}"#;
        assert_eq!(
            observed("sample", odd).health,
            Some(Health::Other("un\"well".into()))
        );
        assert_eq!(
            observed("sample", r#"{"collector_health_status": 5}"#).health,
            None
        );
        assert_eq!(
            observed("sample", r#"{"collector_health_status": " "}"#).health,
            None
        );
        let alert = observed(
            "note",
            r#"{"severity": "Warning", "collector_health_status": "x"}"#,
        );
        assert!(
            alert
                .incident
                .is_some_and(|incident| incident.alert.is_some())
        );
        let escaped = observed("note", "{\"sever\\u0069ty\": \"error\"}");
        assert!(escaped.incident.is_some());
        assert!(
            observed("error", r#"{"oom_reason": null}"#)
                .incident
                .is_some()
        );
        assert_eq!(observed("collector_degraded", "{}").kind, Kind::Degraded);
    }
}
