//! From bundles, events and findings to issues.

use hashbrown::HashMap;
use stormlog_format::classify;
use stormlog_format::fingerprint::{
    alert_category, error_stem, fingerprint_id, normalize_dimensions, normalize_text,
};
use stormlog_format::{Map, Text, Value, python_str};

use super::finding::Finding;
use super::object::{EvidenceLink, Issue, IssueFilter, severity_rank};
use crate::query::{EventFilter, EventRow, OomFilter, OomRow, Store};
use crate::query::{may_have, path_text};

/// Issues while they are gathered, in the order in which they were first seen.
#[derive(Default)]
struct Accumulator {
    issues: Vec<Issue>,
    places: HashMap<Text, usize>,
}

/// One sighting of a trouble.
pub(crate) struct Hit<'a> {
    pub(crate) kind: &'a str,
    pub(crate) dimensions: Map,
    pub(crate) title: Text,
    pub(crate) severity: Text,
    pub(crate) evidence: EvidenceLink,
    pub(crate) details: Map,
}

impl Accumulator {
    fn add(&mut self, hit: Hit<'_>) {
        // Keys are ours, so they are never blank.
        let Ok(dimensions) = normalize_dimensions(&hit.dimensions) else {
            return;
        };
        let id = fingerprint_id(hit.kind, &dimensions, &Value::Int(1));
        let place = *self.places.entry(id.clone()).or_insert_with(|| {
            self.issues.push(Issue {
                fingerprint_id: id,
                kind: hit.kind.into(),
                dimensions,
                state: "open",
                severity: hit.severity.clone(),
                title: hit.title,
                first_seen_ns: None,
                last_seen_ns: None,
                affected_sessions: Vec::new(),
                evidence: Vec::new(),
                details: Map::new(),
            });
            self.issues.len() - 1
        });
        let issue = &mut self.issues[place];
        if severity_rank(&hit.severity) < severity_rank(&issue.severity) {
            issue.severity = hit.severity;
        }
        for (key, value) in hit.details {
            issue.details.insert(key, value);
        }
        if let Some(time) = hit.evidence.timestamp_ns {
            issue.first_seen_ns = Some(issue.first_seen_ns.map_or(time, |first| first.min(time)));
            issue.last_seen_ns = issue.last_seen_ns.max(Some(time));
        }
        let session = hit.evidence.session_id.as_ref();
        if let Some(session) = session.filter(|session| !session.as_bytes().is_empty())
            && let Err(place) = issue.affected_sessions.binary_search(session)
        {
            issue.affected_sessions.insert(place, session.clone());
        }
        issue.evidence.push(hit.evidence);
    }
}

impl Store {
    /// The issues, the worst and latest first, with the states that are given for them.
    pub fn issues(
        &self,
        filter: &IssueFilter,
        states: &std::collections::HashMap<Text, &'static str>,
        findings: &[Finding],
    ) -> Vec<Issue> {
        let mut found = Accumulator::default();
        for row in self.oom_bundles(&OomFilter::default()) {
            found.add(of_bundle(&row));
        }
        for row in self.events(&EventFilter::default()).iter() {
            if let Some(hit) = of_event(row) {
                found.add(hit);
            }
        }
        for (place, source) in self.catalog().sources.iter().enumerate() {
            for session in &self.loaded(place).sessions {
                for hit in super::gap::hits(session, source) {
                    found.add(hit);
                }
            }
        }
        for finding in findings {
            found.add(Hit {
                kind: finding.kind,
                dimensions: finding.dimensions(),
                title: finding.title.clone(),
                severity: finding.severity.clone(),
                evidence: finding.evidence.clone(),
                details: finding.details.clone(),
            });
        }
        let mut issues = found.issues;
        for issue in &mut issues {
            issue.state = states.get(&issue.fingerprint_id).copied().unwrap_or("open");
        }
        issues.retain(|issue| filter.accepts(issue));
        issues.sort_by_cached_key(|issue| {
            (
                severity_rank(&issue.severity),
                std::cmp::Reverse(issue.last_seen_ns),
                issue.fingerprint_id.clone(),
            )
        });
        issues
    }
}

fn of_bundle(row: &OomRow) -> Hit<'static> {
    let bundle = &row.bundle;
    let path = path_text(&bundle.bundle_path);
    let mut dimensions = Map::new();
    dimensions.insert("backend", bundle.backend.clone());
    dimensions.insert("reason", bundle.reason.clone());
    let mut details = Map::new();
    details.insert("backend", bundle.backend.clone());
    details.insert("reason", bundle.reason.clone());
    details.insert("exception_type", bundle.exception_type.clone());
    details.insert("exception_module", bundle.exception_module.clone());
    let mut metadata = Map::new();
    metadata.insert("created_at_utc", bundle.created_at_utc.clone());
    metadata.insert("event_count", bundle.event_count);
    metadata.insert("session_status", row.session_status.clone());
    Hit {
        kind: "oom",
        dimensions,
        title: "OOM captured by flight recorder".into(),
        severity: "critical".into(),
        evidence: EvidenceLink {
            session_id: bundle.session_id.clone(),
            timestamp_ns: bundle.created_ns(),
            source_path: Some(path.clone()),
            source_kind: Some("oom_bundle".into()),
            bundle_path: Some(path),
            metadata,
            ..EvidenceLink::default()
        },
        details,
    }
}

/// What trouble an event tells of, if any.
fn of_event(row: EventRow<'_>) -> Option<Hit<'static>> {
    let event = row.event;
    let may_matter = matches!(
        event.event_type(),
        b"error" | b"critical" | b"warning" | b"collector_degraded"
    ) || may_have(event, "severity")
        || may_have(event, "collector_health_status");
    if !may_matter {
        return None;
    }
    let kind = Text::from_bytes(event.event_type());
    let metadata = event.metadata();
    if classify::is_oom(&kind, &metadata) {
        Some(of_oom_event(row, &kind, &metadata))
    } else if classify::is_collector_degradation(&kind, &metadata) {
        Some(of_degradation(row, &kind, &metadata))
    } else if classify::is_alert(&kind, &metadata) {
        Some(of_alert(row, &kind, &metadata))
    } else {
        None
    }
}

fn link(row: EventRow<'_>, kind: &Text, metadata: Map) -> EvidenceLink {
    let origin = row.event.origin();
    EvidenceLink {
        session_id: Some(origin.session_id.clone()),
        timestamp_ns: Some(row.event.timestamp_ns()),
        rank: Some(origin.rank),
        source_path: Some(row.source_path.clone()),
        source_kind: Some(row.source_kind.as_str().into()),
        event_type: Some(kind.clone()),
        bundle_path: None,
        metadata,
    }
}

/// What the event says, and the status of its session.
fn said(row: EventRow<'_>) -> Map {
    let mut map = Map::new();
    map.insert("context", row.event.context().map(Text::from_bytes));
    map.insert("session_status", row.session_status);
    map
}

fn of_oom_event(row: EventRow<'_>, kind: &Text, metadata: &Map) -> Hit<'static> {
    let origin = row.event.origin();
    let backend = classify::backend(metadata);
    let reason = metadata.get("oom_reason").cloned().unwrap_or(Value::Null);
    let mut dimensions = Map::new();
    dimensions.insert("backend", backend.clone());
    dimensions.insert("reason", reason.clone());
    let mut details = Map::new();
    details.insert("backend", backend);
    details.insert("reason", reason);
    details.insert("collector", origin.collector.clone());
    details.insert("device_id", origin.device_id);
    let mut evidence = link(row, kind, said(row));
    let dump = metadata.get("oom_dump_path").and_then(Value::as_text);
    evidence.bundle_path = dump.filter(|path| !path.as_bytes().is_empty()).cloned();
    Hit {
        kind: "oom",
        dimensions,
        title: "OOM telemetry event".into(),
        severity: "critical".into(),
        evidence,
        details,
    }
}

fn of_degradation(row: EventRow<'_>, kind: &Text, metadata: &Map) -> Hit<'static> {
    let origin = row.event.origin();
    let health = metadata.get("collector_health_status");
    let health = health.filter(|health| !health.is_null()).map(python_str);
    let health = match health {
        Some(status) if !status.is_blank() => normalize_text(&status),
        _ => "degraded".into(),
    };
    let error = metadata.get("collector_last_error");
    let error = error.filter(|error| !error.is_null()).map(python_str);
    let stem = error_stem(&error.unwrap_or_default());
    let fields = match metadata.get("collector_partial_fields") {
        Some(fields @ Value::List(_)) => fields.clone(),
        _ => Value::List(Vec::new()),
    };
    let mut dimensions = Map::new();
    dimensions.insert("collector", origin.collector.clone());
    dimensions.insert("backend", classify::backend(metadata));
    dimensions.insert("health_status", health.clone());
    dimensions.insert("partial_fields", fields);
    dimensions.insert("error_stem", stem);
    let mut evidence = Map::new();
    for key in [
        "collector_consecutive_failures",
        "collector_next_retry_epoch_s",
    ] {
        evidence.insert(key, metadata.get(key).cloned().unwrap_or(Value::Null));
    }
    evidence.insert("session_status", row.session_status);
    Hit {
        kind: "collector_degradation",
        title: "Collector degradation".into(),
        severity: if health == "unhealthy" {
            "critical"
        } else {
            "warning"
        }
        .into(),
        evidence: link(row, kind, evidence),
        details: dimensions.clone(),
        dimensions,
    }
}

fn of_alert(row: EventRow<'_>, kind: &Text, metadata: &Map) -> Hit<'static> {
    let origin = row.event.origin();
    let severity = classify::severity(kind, metadata);
    let context = row
        .event
        .context()
        .map(Text::from_bytes)
        .unwrap_or_default();
    let category = alert_category(&context);
    let mut details = Map::new();
    details.insert("event_type", kind.clone());
    details.insert("collector", origin.collector.clone());
    details.insert("backend", classify::backend(metadata));
    details.insert("category", category.clone());
    let mut dimensions = details.clone();
    dimensions.insert("severity", severity.clone());
    let spelled = category.to_str_lossy().replace('_', " ");
    Hit {
        kind: "alert",
        dimensions,
        title: format!("Alert: {spelled}").into(),
        severity,
        evidence: link(row, kind, said(row)),
        details,
    }
}
