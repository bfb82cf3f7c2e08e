//! Finds hidden-memory anomalies as issues: findings about the gap between the memory used on the
//! device and the memory reserved by the allocator.

use crate::phases::{PhaseAttribution, PhaseReplay};
use rayon::prelude::*;
use stormlog_analysis::LoadedSession;
use stormlog_analysis::issue::fingerprint::HIDDEN_MEMORY_ANOMALY;
use stormlog_analysis::issue::{EvidenceLink, Hit, Issue, backend, issues_of_hits};
use stormlog_analysis::query::{Source, Store, source_path};
use stormlog_format::{Map, Value, byte_text};

use crate::gap::{self, GapThresholds, Number};

/// Sessions with fewer events are too short for an analysis of the gap.
const FEWEST_EVENTS: usize = 3;

/// The anomalies of hidden memory, as issues. They are found in most runs, also in those without a
/// problem.
pub fn hidden_memory_anomalies(store: &Store) -> Vec<Issue> {
    let sources = store.catalog().sources.iter().enumerate();
    issues_of_hits(sources.flat_map(|(index, source)| {
        let sessions = &store.loaded(index).sessions;
        let hits = sessions.par_iter().map(|session| hits(session, source));
        hits.collect::<Vec<_>>().into_iter().flatten()
    }))
}

/// The findings about the gap in a session, each as a hit (one occurrence) of an issue.
fn hits(session: &LoadedSession, source: &Source) -> Vec<Hit> {
    let events = &session.events;
    if events.len() < FEWEST_EVENTS {
        return Vec::new();
    }
    let findings = gap::analyze(events, &GapThresholds::default(), &byte_text);
    if findings.is_empty() {
        return Vec::new();
    }
    let replay = PhaseReplay::of_events(events);
    let hit = |finding: gap::GapFinding| {
        let found_at = events.get(finding.place)?;
        let phase = replay.resolve_event(found_at);
        let label = phase.as_ref().and_then(PhaseAttribution::label);
        // Collector and backend of the issue come from the first event with the finding's
        // timestamp, even if that event is not a sample.
        let mut at_that_time = events.iter();
        let event = at_that_time.find(|event| event.timestamp_ns() == finding.timestamp_ns)?;
        let class = finding.class.as_str();
        let severity = finding.severity.as_str();
        let mut dimensions = Map::new();
        dimensions.insert("classification", class);
        dimensions.insert("severity", severity);
        dimensions.insert("phase", label.clone());
        dimensions.insert("collector", event.origin().collector.clone());
        dimensions.insert("backend", backend(&event.metadata()));
        let mut evidence = Map::new();
        evidence.insert("classification", class);
        evidence.insert("confidence", Value::Float(finding.confidence));
        let payload = phase.map_or(Value::Null, |phase| Value::Map(phase.to_payload()));
        evidence.insert("phase_attribution", payload);
        let mut details = Map::new();
        details.insert("classification", class);
        details.insert("description", finding.description.as_str());
        details.insert("confidence", Value::Float(finding.confidence));
        details.insert("evidence", numbers(&finding.evidence));
        details.insert("phase", label);
        Some(Hit {
            kind: HIDDEN_MEMORY_ANOMALY,
            dimensions,
            title: format!("Hidden-memory anomaly: {class}").into(),
            severity: severity.into(),
            evidence: EvidenceLink::of_event(
                event,
                source_path(session, source),
                source.kind,
                evidence,
            ),
            details,
            peers: Vec::new(),
            former_ids: Vec::new(),
        })
    };
    findings.into_iter().filter_map(hit).collect()
}

fn numbers(evidence: &[(&'static str, Number)]) -> Value {
    let mut map = Map::new();
    for (name, number) in evidence {
        map.insert(
            *name,
            match number {
                Number::Count(count) => Value::Int(i64::try_from(*count).unwrap_or(i64::MAX)),
                Number::Real(value) => Value::Float(*value),
            },
        );
    }
    Value::Map(map)
}
