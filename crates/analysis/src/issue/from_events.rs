//! Issues of bundles and events, with the titles and dimensions of stormlog 0.3.9.

use stormlog_format::classify;
use stormlog_format::label::normalize_text;
use stormlog_format::{Map, Text, Value, metadata_keys, python_str};

use super::fingerprint::{alert_category, error_stem};
use super::gather::Hit;
use super::labels::{backend, is_collector_degradation};
use super::object::EvidenceLink;
use crate::query::{EventRow, OomRow, path_text};

/// The out-of-memory error that a bundle was left by.
pub(crate) fn of_bundle(row: &OomRow) -> Hit<'static> {
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
        peers: Vec::new(),
        former_ids: Vec::new(),
    }
}

/// The issue that an event reports, if any.
pub(crate) fn of_event(row: EventRow<'_>) -> Option<Hit<'static>> {
    let event = row.event;
    let kind = Text::from_bytes(event.event_type());
    let metadata = event.metadata();
    if classify::is_oom(&kind, &metadata) {
        Some(of_oom_event(row, &kind, &metadata))
    } else if is_collector_degradation(&kind, &metadata) {
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
    let backend = backend(metadata);
    let reason = metadata
        .get(metadata_keys::OOM_REASON)
        .cloned()
        .unwrap_or(Value::Null);
    let mut dimensions = Map::new();
    dimensions.insert("backend", backend.clone());
    dimensions.insert("reason", reason.clone());
    let mut details = Map::new();
    details.insert("backend", backend);
    details.insert("reason", reason);
    details.insert("collector", origin.collector.clone());
    details.insert("device_id", origin.device_id);
    let mut evidence = link(row, kind, said(row));
    let dump = metadata
        .get(metadata_keys::OOM_DUMP_PATH)
        .and_then(Value::as_text);
    evidence.bundle_path = dump.filter(|path| !path.as_bytes().is_empty()).cloned();
    Hit {
        kind: "oom",
        dimensions,
        title: "OOM telemetry event".into(),
        severity: "critical".into(),
        evidence,
        details,
        peers: Vec::new(),
        former_ids: Vec::new(),
    }
}

fn of_degradation(row: EventRow<'_>, kind: &Text, metadata: &Map) -> Hit<'static> {
    let origin = row.event.origin();
    let health = metadata.get(metadata_keys::COLLECTOR_HEALTH_STATUS);
    let health = health.filter(|health| !health.is_null()).map(python_str);
    let health = match health {
        Some(status) if !status.is_blank() => normalize_text(&status),
        _ => "degraded".into(),
    };
    let error = metadata.get("collector_last_error");
    let error = error.filter(|error| !error.is_null()).map(python_str);
    let stem = error_stem(&error.unwrap_or_default());
    let fields = match metadata.get(metadata_keys::COLLECTOR_PARTIAL_FIELDS) {
        Some(fields @ Value::List(_)) => fields.clone(),
        _ => Value::List(Vec::new()),
    };
    let mut dimensions = Map::new();
    dimensions.insert("collector", origin.collector.clone());
    dimensions.insert("backend", backend(metadata));
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
        peers: Vec::new(),
        former_ids: Vec::new(),
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
    details.insert("backend", backend(metadata));
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
        peers: Vec::new(),
        former_ids: Vec::new(),
    }
}
