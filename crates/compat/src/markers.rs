//! Markers for a timeline, as stormlog 0.3.9 makes them for the Python package: single events, with
//! the severity of their type, and spans of phases.

use hashbrown::HashMap;
use serde::Serialize;
use stormlog_analysis::{Events, event_label};
use stormlog_format::{EventType, Text, classify};

use crate::loose::LooseEvent;
use crate::phases::{PhaseReplay, ScopeSpan, path_text};

/// An event at one time, or a phase between two times.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Marker {
    pub session_id: Text,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub kind: &'static str,
    /// `telemetry_event` or `phase_replay`.
    pub source: &'static str,
    pub severity: &'static str,
    pub label: Text,
    pub rank: Option<i64>,
    pub local_rank: Option<i64>,
    pub world_size: Option<i64>,
    #[serde(skip)]
    pub subject: Subject,
}

/// The event or phase that a marker was created from.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A single event.
    Event {
        /// Index of the event.
        index: usize,
        /// Type of the event, without surrounding white space.
        event_type: Text,
    },
    /// A phase, with its time span.
    Phase(ScopeSpan),
}

/// Creates the markers of loaded events.
pub fn of_events(events: &Events, include_phases: bool) -> Vec<Marker> {
    let mut markers: Vec<Marker> = events
        .iter()
        .enumerate()
        // Samples, which are most of the events, never become markers, so they are not converted to
        // loose events.
        .filter(|(_, event)| may_be_point(event.event_type()))
        .filter_map(|(index, event)| point(index, &LooseEvent::of_row(event)))
        .collect();
    if include_phases {
        let replay = PhaseReplay::of_events(events);
        let mut identities = Identities::default();
        if !replay.is_empty() {
            for event in events.iter() {
                let origin = event.origin();
                let key = (&origin.session_id, origin.rank);
                identities.see(key, Some(origin.local_rank), Some(origin.world_size));
            }
        }
        markers.extend(phases(&replay, &identities));
    }
    sorted(markers)
}

/// Creates the markers of events in which fields may be missing.
pub fn of_loose(events: &[LooseEvent], include_phases: bool) -> Vec<Marker> {
    let points = events.iter().enumerate();
    let mut markers: Vec<Marker> = points
        .filter_map(|(index, event)| point(index, event))
        .collect();
    if include_phases {
        let replay = PhaseReplay::of_moments(events.iter().filter_map(LooseEvent::moment));
        let mut identities = Identities::default();
        for event in events {
            if let (Some(session_id), Some(rank)) = (&event.session_id, event.rank.number()) {
                identities.see((session_id, rank), event.local_rank, event.world_size);
            }
        }
        markers.extend(phases(&replay, &identities));
    }
    sorted(markers)
}

/// The local rank and world size in the first event of each session and rank.
#[derive(Default)]
struct Identities(HashMap<(Text, i64), (Option<i64>, Option<i64>)>);

impl Identities {
    fn see(&mut self, (session, rank): (&Text, i64), local: Option<i64>, world: Option<i64>) {
        self.0
            .entry((session.clone(), rank))
            .or_insert((local, world));
    }
}

fn may_be_point(event_type: &[u8]) -> bool {
    !matches!(
        EventType::of(event_type),
        Some(EventType::Sample | EventType::PhaseEnter | EventType::PhaseExit)
    )
}

fn point(index: usize, event: &LooseEvent) -> Option<Marker> {
    let event_type = event.event_type.as_ref()?.stripped();
    let (kind, severity) = match EventType::of(event_type.as_bytes())? {
        EventType::Start | EventType::Stop => ("lifecycle", "info"),
        EventType::CollectorDegraded => ("collector", "warning"),
        EventType::CollectorRecovered => ("collector", "info"),
        EventType::Warning => ("alert", "warning"),
        EventType::Error if classify::is_oom(&event_type, &event.metadata) => ("oom", "critical"),
        EventType::Critical | EventType::Error => ("alert", "critical"),
        _ => return None,
    };
    let label = event_label(&event_type, event.context.as_ref(), &event.metadata);
    Some(Marker {
        session_id: event.session_id.clone()?,
        start_ns: event.timestamp_ns?,
        end_ns: None,
        kind,
        source: "telemetry_event",
        severity,
        label,
        rank: event.rank.number(),
        local_rank: event.local_rank,
        world_size: event.world_size,
        subject: Subject::Event { index, event_type },
    })
}

fn phases<'a>(
    replay: &'a PhaseReplay,
    identities: &'a Identities,
) -> impl Iterator<Item = Marker> + 'a {
    replay
        .groups()
        .iter()
        .flat_map(|(_, spans)| spans)
        .map(move |span| {
            let key = (span.session_id.clone(), span.rank);
            let (local_rank, world_size) = identities.0.get(&key).copied().unwrap_or_default();
            let path = path_text(&span.path);
            Marker {
                session_id: span.session_id.clone(),
                start_ns: span.start_ns,
                end_ns: Some(span.end_ns),
                kind: "phase",
                source: "phase_replay",
                severity: "info",
                label: Text::from_bytes(&[b"Phase: ", path.as_bytes()].concat()),
                rank: Some(span.rank),
                local_rank,
                world_size,
                subject: Subject::Phase(span.clone()),
            }
        })
}

fn sorted(mut markers: Vec<Marker>) -> Vec<Marker> {
    markers.sort_by(|a, b| a.key().cmp(&b.key()));
    markers
}

impl Marker {
    fn key(&self) -> (i64, i64, i64, &str, &Text) {
        let end = self.end_ns.unwrap_or(self.start_ns);
        (
            self.start_ns,
            end,
            self.rank.unwrap_or(-1),
            self.kind,
            &self.label,
        )
    }
}
