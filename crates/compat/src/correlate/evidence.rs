//! Evidence: events, markers, bundles and other items that may be related to a point in time, in
//! one format.

use serde::Serialize;
use stormlog_analysis::query::{
    EventFilter, EventRow, EventRows, OomFilter, SourceKind, Store, is_alert, iso_to_ns, path_text,
};
use stormlog_analysis::{record_id, sha256_hex};
use stormlog_format::json::{Layout, Writer, map_of};
use stormlog_format::{Map, Text, Value, classify};

use super::marker_evidence::marker_evidence;
use super::rollup_evidence::rollup_evidence;
use super::{Confidence, Moment};

/// The values that the field `kind` of [`Evidence`] can have.
pub const EVIDENCE_KINDS: [&str; 7] = [
    "telemetry_event",
    "alert",
    "timeline_marker",
    "oom_bundle",
    "diagnose_bundle",
    "rollup_window",
    "attachment",
];

/// One item that may explain what happened at a point in time: an event, an alert, a marker of the
/// timeline, a bundle, a time window of a rollup or an attachment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the printed row, described in docs/schemas"
)]
pub struct Evidence {
    pub evidence_id: Text,
    pub kind: &'static str,
    pub title: Text,
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub world_size: Option<i64>,
    pub start_ns: Option<i64>,
    pub end_ns: Option<i64>,
    pub source_path: Text,
    pub source_kind: Text,
    pub metadata: Map,
    pub confidence: Confidence,
    pub reasons: Vec<&'static str>,
}

impl Evidence {
    pub(super) fn new(kind: &'static str, title: impl Into<Text>) -> Self {
        Self {
            kind,
            title: title.into(),
            ..Self::default()
        }
    }

    /// Creates evidence from an event, without the id and the metadata, which the caller adds.
    fn of_event(kind: &'static str, title: Text, row: EventRow<'_>) -> Self {
        let origin = row.event.origin();
        Self {
            session_id: Some(origin.session_id.clone()),
            job_id: origin.job_id.clone(),
            rank: Some(origin.rank),
            world_size: Some(origin.world_size),
            start_ns: Some(row.event.timestamp_ns()),
            source_path: row.source_path.clone(),
            source_kind: row.source_kind.as_str().into(),
            ..Self::new(kind, title)
        }
    }
}

/// The id of evidence that has no id of its own: a hash of the values that identify it, such as its
/// session and time.
pub(super) fn evidence_id(parts: &[Value]) -> Text {
    let spelled = parts.iter().map(|part| match part {
        Value::Null => Value::text("None"),
        part => Value::Text(stormlog_format::python_str(part)),
    });
    let list = Value::List(spelled.collect());
    let text = Writer::new(Layout::Line).to_string(&list);
    format!("evidence-{}", sha256_hex(&text, 24)).into()
}

/// All evidence that may be related to a point in time, limited to the requested kinds.
pub(super) fn candidates(store: &Store, moment: &Moment, kinds: &[Text]) -> Vec<Evidence> {
    let wants = |kind: &str| kinds.is_empty() || kinds.iter().any(|wanted| *wanted == kind);
    let mut found = Vec::new();
    if wants("telemetry_event") || wants("alert") {
        let rows = store.events(&EventFilter {
            time_start_ns: Some(moment.at_ns.saturating_sub(moment.window_ns)),
            time_end_ns: Some(moment.at_ns.saturating_add(moment.window_ns)),
            ..EventFilter::default()
        });
        if wants("telemetry_event") {
            found.extend(rows.iter().map(telemetry_event));
        }
        if wants("alert") {
            found.extend(alerts(&rows));
        }
    }
    if wants("timeline_marker") {
        found.extend(marker_evidence(store));
    }
    if wants("oom_bundle") {
        found.extend(oom_evidence(store));
    }
    if wants("diagnose_bundle") {
        found.extend(diagnose_evidence(store));
    }
    if wants("rollup_window") {
        found.extend(rollup_evidence(store));
    }
    if wants("attachment") {
        found.extend(attachment_evidence(store));
    }
    found
}

fn oom_evidence(store: &Store) -> Vec<Evidence> {
    let sessions = store.session_by_id();
    let bundles = store.oom_bundles(&OomFilter::default());
    let bundles = bundles.into_iter();
    bundles
        .map(|bundle| {
            let path = path_text(&bundle.bundle_path);
            let session = bundle.session_id.as_ref().and_then(|id| sessions.get(id));
            let session = session.map(|row| &row.summary);
            let parts = [
                "oom".into(),
                path.clone().into(),
                bundle.session_id.clone().into(),
            ];
            Evidence {
                evidence_id: evidence_id(&parts),
                session_id: bundle.session_id.clone(),
                job_id: session.and_then(|session| session.job_id.clone()),
                rank: session.map(|session| session.rank),
                world_size: session.map(|session| session.world_size),
                start_ns: bundle.created_ns(),
                end_ns: bundle.created_ns(),
                source_path: path,
                source_kind: "oom_bundle".into(),
                metadata: bundle.to_row(),
                ..Evidence::new("oom_bundle", "OOM bundle")
            }
        })
        .collect()
}

fn diagnose_evidence(store: &Store) -> Vec<Evidence> {
    let sources = store.catalog().sources.iter();
    sources
        .filter(|source| source.kind == SourceKind::DiagnoseBundle)
        .filter_map(|source| {
            let session = source.diagnosed.as_ref()?;
            let manifest = source.manifest_path.as_deref().map(path_text);
            let parts = [
                "diagnose".into(),
                manifest.clone().into(),
                session.session_id.clone().into(),
            ];
            let mut metadata = Map::new();
            metadata.insert("manifest_path", manifest);
            metadata.insert("session_status", session.status.as_str());
            Some(Evidence {
                evidence_id: evidence_id(&parts),
                session_id: Some(session.session_id.clone()),
                job_id: session.job_id.clone(),
                rank: Some(session.rank),
                world_size: Some(session.world_size),
                start_ns: Some(session.started_at_ns),
                end_ns: session.ended_at_ns,
                source_path: path_text(&source.path),
                source_kind: "diagnose_bundle".into(),
                metadata,
                ..Evidence::new("diagnose_bundle", "Diagnose bundle")
            })
        })
        .collect()
}

fn attachment_evidence(store: &Store) -> Vec<Evidence> {
    let rows = store.catalog().attachments.iter();
    rows.map(|row| {
        let created = row.created_at_utc.as_ref().and_then(Text::as_str);
        let start_ns = row.start_ns.or_else(|| iso_to_ns(created?));
        let parts: [Value; 6] = [
            "attachment".into(),
            row.attachment_id.clone().into(),
            row.sidecar_path.clone().into(),
            row.title.clone().into(),
            row.url.clone().into(),
            row.path.clone().into(),
        ];
        let target = row.url.clone().or_else(|| row.path.clone());
        Evidence {
            evidence_id: evidence_id(&parts),
            session_id: row.session_id.clone(),
            job_id: row.job_id.clone(),
            rank: row.rank,
            start_ns,
            end_ns: row.end_ns.or(start_ns),
            source_path: target.unwrap_or_else(|| row.sidecar_path.clone()),
            source_kind: "attachment".into(),
            metadata: map_of(row),
            ..Evidence::new("attachment", row.title.clone())
        }
    })
    .collect()
}

fn telemetry_event(row: EventRow<'_>) -> Evidence {
    let event = row.event.to_event();
    let record_id = record_id(&event.to_record());
    let kind = Text::from_bytes(row.event.event_type());
    let title = format!("{kind} telemetry event");
    let mut metadata = Map::new();
    metadata.insert("record_id", record_id.clone());
    metadata.insert("observed_timestamp_ns", event.timestamp_ns);
    metadata.insert("event_type", kind);
    metadata.insert("collector", event.collector);
    metadata.insert("context", event.context);
    metadata.insert("session_status", row.session_status);
    metadata.insert("metadata", Value::Map(event.metadata));
    Evidence {
        evidence_id: format!("event:{record_id}").into(),
        metadata,
        ..Evidence::of_event("telemetry_event", title.into(), row)
    }
}

fn alerts(rows: &EventRows) -> impl Iterator<Item = Evidence> {
    let alerts = rows.iter().filter(|row| is_alert(row.event));
    alerts.map(|row| {
        let kind = Text::from_bytes(row.event.event_type());
        let event_metadata = row.event.metadata();
        let severity = classify::severity_label(&kind, &event_metadata);
        let origin = row.event.origin();
        let parts: [Value; 5] = [
            "alert".into(),
            origin.session_id.clone().into(),
            row.event.timestamp_ns().into(),
            origin.rank.into(),
            kind.clone().into(),
        ];
        let title = format!("Alert: {kind}");
        let mut metadata = Map::new();
        metadata.insert("event_type", kind);
        metadata.insert("severity", severity);
        metadata.insert("collector", origin.collector.clone());
        metadata.insert("context", row.event.context().map(Text::from_bytes));
        metadata.insert("metadata", Value::Map(event_metadata));
        Evidence {
            evidence_id: evidence_id(&parts),
            metadata,
            ..Evidence::of_event("alert", title.into(), row)
        }
    })
}
