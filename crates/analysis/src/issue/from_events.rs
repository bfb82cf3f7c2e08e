//! Finds issues in bundles and events, with the titles and dimensions of stormlog 0.3.9.

use stormlog_format::classify::{self, Severity};
use stormlog_format::label::normalize_text;
use stormlog_format::{Map, Text, Value, metadata_keys, python_str};

use super::fingerprint::{alert_category, error_stem};
use super::gather::Hit;
use super::labels::{backend, is_collector_degradation};
use super::object::EvidenceLink;
use crate::query::{EventRow, OomBundle, path_text};

/// The out-of-memory error that an OOM bundle was written for.
pub(crate) fn of_bundle(bundle: &OomBundle) -> Hit {
    let path = path_text(&bundle.bundle_path);
    let mut dimensions = Map::new();
    dimensions.insert("backend", bundle.backend.clone());
    dimensions.insert("reason", bundle.reason.clone());
    let mut details = dimensions.clone();
    details.insert("exception_type", bundle.exception_type.clone());
    details.insert("exception_module", bundle.exception_module.clone());
    let mut metadata = Map::new();
    metadata.insert("created_at_utc", bundle.created_at_utc.clone());
    metadata.insert("event_count", bundle.event_count);
    metadata.insert("session_status", bundle.session_status.clone());
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

/// The fields of an event that decide which issue it belongs to and which details the issue shows.
/// Events with equal subjects belong to the same issue, so only the first of many similar events
/// needs a fingerprint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subject<'a> {
    event_type: &'a [u8],
    collector: &'a Text,
    backend: Text,
    pub(crate) severity: Text,
    report: Report,
}

/// The kind of problem that an event reports, with its details.
#[derive(Clone, Debug, PartialEq)]
enum Report {
    Oom {
        reason: Value,
        device_id: i64,
    },
    Degradation {
        health: Text,
        stem: Text,
        fields: Value,
    },
    Alert {
        category: Text,
    },
}

/// The problem that an event reports, and the event as evidence; `None` if it reports no problem.
pub(crate) fn of_event(row: EventRow<'_>) -> Option<(Subject<'_>, EvidenceLink)> {
    let event = row.event;
    let kind = Text::from_bytes(event.event_type());
    let metadata = event.metadata();
    let (severity, report, evidence) = if classify::is_oom(&kind, &metadata) {
        let (report, evidence) = oom(row, &metadata);
        (Severity::Critical.as_str().into(), report, evidence)
    } else if is_collector_degradation(&kind, &metadata) {
        degradation(row, &metadata)
    } else if classify::is_alert(&kind, &metadata) {
        let severity = classify::severity_label(&kind, &metadata);
        let context = event.context().map(Text::from_bytes);
        let category = alert_category(&context.unwrap_or_default());
        let report = Report::Alert { category };
        (severity, report, link(row, context_and_status(row)))
    } else {
        return None;
    };
    let subject = Subject {
        event_type: event.event_type(),
        collector: &event.origin().collector,
        backend: backend(&metadata),
        severity,
        report,
    };
    Some((subject, evidence))
}

fn link(row: EventRow<'_>, metadata: Map) -> EvidenceLink {
    let path = row.source_path.clone();
    EvidenceLink::of_event(row.event, path, row.source_kind, metadata)
}

/// Details of an issue: the context of the event, and the status of its session.
fn context_and_status(row: EventRow<'_>) -> Map {
    let context = row.event.context().map(Text::from_bytes);
    Map::from_entries(vec![
        ("context".into(), context.into()),
        ("session_status".into(), row.session_status.into()),
    ])
}

fn oom(row: EventRow<'_>, metadata: &Map) -> (Report, EvidenceLink) {
    let reason = metadata.get(metadata_keys::OOM_REASON);
    let report = Report::Oom {
        reason: reason.cloned().unwrap_or(Value::Null),
        device_id: row.event.origin().device_id,
    };
    let mut evidence = link(row, context_and_status(row));
    let dump = metadata.text(metadata_keys::OOM_DUMP_PATH);
    evidence.bundle_path = dump.filter(|path| !path.as_bytes().is_empty()).cloned();
    (report, evidence)
}

fn degradation(row: EventRow<'_>, metadata: &Map) -> (Text, Report, EvidenceLink) {
    let health = metadata.get(metadata_keys::COLLECTOR_HEALTH_STATUS);
    let health = health.filter(|health| !health.is_null()).map(python_str);
    let health = match health {
        Some(status) if !status.is_blank() => normalize_text(&status),
        _ => "degraded".into(),
    };
    let severity = Severity::of_health(&health).as_str();
    let error = metadata.get(metadata_keys::COLLECTOR_LAST_ERROR);
    let error = error.filter(|error| !error.is_null()).map(python_str);
    let fields = match metadata.get(metadata_keys::COLLECTOR_PARTIAL_FIELDS) {
        Some(fields @ Value::List(_)) => fields.clone(),
        _ => Value::List(Vec::new()),
    };
    let report = Report::Degradation {
        health,
        stem: error_stem(&error.unwrap_or_default()),
        fields,
    };
    let copied = |key: &str| metadata.get(key).cloned().unwrap_or(Value::Null);
    let failures = metadata_keys::COLLECTOR_CONSECUTIVE_FAILURES;
    let retry = metadata_keys::COLLECTOR_NEXT_RETRY_EPOCH_S;
    let evidence = Map::from_entries(vec![
        (failures.into(), copied(failures)),
        (retry.into(), copied(retry)),
        ("session_status".into(), row.session_status.into()),
    ]);
    (severity.into(), report, link(row, evidence))
}

impl Subject<'_> {
    /// The kind of the issue.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.report {
            Report::Oom { .. } => "oom",
            Report::Degradation { .. } => "collector_degradation",
            Report::Alert { .. } => "alert",
        }
    }

    /// The title of the issue, its dimensions (which identify it), and the details that it shows.
    pub(crate) fn described(&self) -> (Text, Map, Map) {
        let mut dimensions = Map::new();
        let mut details = Map::new();
        let title = match &self.report {
            Report::Oom { reason, device_id } => {
                dimensions.insert("backend", self.backend.clone());
                dimensions.insert("reason", reason.clone());
                details.clone_from(&dimensions);
                details.insert("collector", self.collector.clone());
                details.insert("device_id", *device_id);
                "OOM telemetry event".into()
            }
            Report::Degradation {
                health,
                stem,
                fields,
            } => {
                dimensions.insert("collector", self.collector.clone());
                dimensions.insert("backend", self.backend.clone());
                dimensions.insert("health_status", health.clone());
                dimensions.insert("partial_fields", fields.clone());
                dimensions.insert("error_stem", stem.clone());
                details.clone_from(&dimensions);
                "Collector degradation".into()
            }
            Report::Alert { category } => {
                let spelled = category.to_str_lossy().replace('_', " ");
                details.insert("event_type", Text::from_bytes(self.event_type));
                details.insert("collector", self.collector.clone());
                details.insert("backend", self.backend.clone());
                details.insert("category", category.clone());
                dimensions.clone_from(&details);
                dimensions.insert("severity", self.severity.clone());
                format!("Alert: {spelled}").into()
            }
        };
        (title, dimensions, details)
    }
}
