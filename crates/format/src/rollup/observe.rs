//! What a rollup needs to know of one event.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::classify;
use crate::event::Event;
use crate::json::parse;
use crate::text::Text;
use crate::value::{Map, Value};

/// One event as a rollup sees it.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the fields are the record's keys")]
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
    /// What makes it more than a measurement; most events are none.
    pub incident: Option<Box<Incident>>,
}

/// What an event is to a rollup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A sample, whose gap counts.
    Sample,
    /// The collector began to fail.
    Degraded,
    /// The collector works again.
    Recovered,
    /// Anything else.
    #[default]
    Other,
}

/// What an event has to tell beyond its counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incident {
    /// Type and severity, when the event is an alert.
    pub(crate) alert: Option<(Text, Text)>,
    /// Whether memory ran out.
    pub(crate) is_oom: bool,
    /// Where the dump of it is.
    pub(crate) dump_path: Option<Text>,
    /// The health of the collector, on events that are no transitions.
    pub(crate) health: Option<Text>,
}

/// Keys of the metadata that a rollup looks at.
const TELLING_KEYS: [&str; 4] = [
    "severity",
    "collector_health_status",
    "oom_reason",
    "oom_dump_path",
];

impl Observation {
    /// What a rollup needs to know of an event.
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
        .telling(event.event_type.as_bytes(), &event.metadata)
    }

    /// The same with what type and metadata tell.
    #[must_use]
    pub fn telling(mut self, event_type: &[u8], metadata: &Map) -> Self {
        self.kind = kind(event_type);
        let may_tell = classify::ALERT_TYPES
            .iter()
            .any(|alert| alert.as_bytes() == event_type)
            || TELLING_KEYS.iter().any(|key| metadata.contains(key));
        if may_tell {
            self.incident = incident(&Text::from_bytes(event_type), self.kind, metadata);
        }
        self
    }

    /// The same with what type and metadata tell, the metadata given as its JSON text.
    #[must_use]
    pub fn telling_json(self, event_type: &[u8], metadata: &[u8]) -> Self {
        let read = may_tell(metadata).then(|| parse(metadata).ok()).flatten();
        match read.as_ref().and_then(Value::as_map) {
            Some(map) => self.telling(event_type, map),
            None => self.telling(event_type, &Map::new()),
        }
    }
}

/// Whether the text of an object may have one of the keys that a rollup looks at.
pub(super) fn may_tell(metadata: &[u8]) -> bool {
    static KEYS: LazyLock<[Finder<'static>; 4]> = LazyLock::new(|| TELLING_KEYS.map(Finder::new));
    // A key may also be spelled with escapes; then the text must be read to know.
    metadata.len() > 2
        && (KEYS.iter().any(|key| key.find(metadata).is_some())
            || memchr::memchr(b'\\', metadata).is_some())
}

fn kind(event_type: &[u8]) -> Kind {
    match event_type {
        b"sample" => Kind::Sample,
        b"collector_degraded" => Kind::Degraded,
        b"collector_recovered" => Kind::Recovered,
        _ => Kind::Other,
    }
}

fn incident(event_type: &Text, kind: Kind, metadata: &Map) -> Option<Box<Incident>> {
    let label = |key: &str| {
        let text = metadata.get(key).and_then(Value::as_text);
        text.filter(|text| !text.is_blank())
    };
    let is_oom = classify::is_oom(event_type, metadata);
    let is_transition = matches!(kind, Kind::Degraded | Kind::Recovered);
    let incident = Incident {
        alert: classify::is_alert(event_type, metadata)
            .then(|| (event_type.clone(), classify::severity(event_type, metadata))),
        is_oom,
        dump_path: label("oom_dump_path").filter(|_| is_oom).cloned(),
        health: label("collector_health_status")
            .filter(|_| !is_transition)
            .map(|status| status.stripped().lowercased()),
    };
    (incident != Incident::default()).then(|| Box::new(incident))
}
