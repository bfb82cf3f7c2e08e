//! Converts timeline markers (single events and phases) to evidence.

use stormlog_analysis::query::{SourceKind, Store, source_path};
use stormlog_analysis::{EventRef, LoadedSession};
use stormlog_format::json::map_of;
use stormlog_format::{Map, Text, Value};

use super::evidence::{Evidence, evidence_id};
use crate::markers::{Marker, Subject, of_events};

pub(super) fn marker_evidence(store: &Store) -> Vec<Evidence> {
    let mut found = Vec::new();
    for (index, source) in store.catalog().sources.iter().enumerate() {
        if source.kind == SourceKind::DiagnoseBundle {
            continue;
        }
        for session in &store.loaded(index).sessions {
            let path = source_path(session, source);
            let markers = of_events(&session.events, true);
            found.extend(markers.iter().map(|marker| Evidence {
                source_path: path.clone(),
                source_kind: source.kind.as_str().into(),
                ..of_marker(marker, session)
            }));
        }
    }
    found
}

fn of_marker(marker: &Marker, session: &LoadedSession) -> Evidence {
    let parts: [Value; 6] = [
        "marker".into(),
        marker.session_id.clone().into(),
        marker.kind.into(),
        marker.start_ns.into(),
        marker.rank.into(),
        marker.label.clone().into(),
    ];
    Evidence {
        evidence_id: evidence_id(&parts),
        session_id: Some(marker.session_id.clone()),
        job_id: session.summary.job_id.clone(),
        rank: marker.rank,
        world_size: marker.world_size,
        start_ns: Some(marker.start_ns),
        end_ns: marker.end_ns,
        metadata: to_map(marker, session),
        ..Evidence::new("timeline_marker", marker.label.clone())
    }
}

/// The metadata of the evidence for a marker: the marker's fields, and the type and metadata of its
/// event or phase.
fn to_map(marker: &Marker, session: &LoadedSession) -> Map {
    let (event_type, metadata) = match &marker.subject {
        Subject::Event { index, event_type } => {
            let event = session.events.get(*index);
            let metadata = event.map(EventRef::metadata).unwrap_or_default();
            (event_type.clone(), metadata)
        }
        Subject::Phase(span) => (Text::from("phase"), span.metadata()),
    };
    let mut map = map_of(marker);
    map.insert("event_type", event_type);
    map.insert("metadata", Value::Map(metadata));
    map
}
