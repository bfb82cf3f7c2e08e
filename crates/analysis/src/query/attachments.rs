//! Lists the attachments of a run: files of the recording, and links to data of other tools.

use std::ffi::OsStr;
use std::path::Path;

use hashbrown::HashMap;
use serde::Serialize;
use stormlog_format::json::map_of;
use stormlog_format::rollup::ROLLUP_FILENAME;
use stormlog_format::{Manifest, Map, SessionSummary, Text, Value};

use super::catalog::{Source, SourceKind};
use super::filter::fits;
use super::payload::path_text;
use super::runs::{IdentityIndex, RunContext, RunFilter};
use super::sessions::SessionRow;

/// An attachment of a run, as a row of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the printed row, described in docs/schemas"
)]
pub struct RunAttachmentRow {
    pub run_id: Text,
    pub title: Text,
    pub kind: Text,
    pub storage: Text,
    pub attachment_id: Option<Text>,
    pub url: Option<Text>,
    pub path: Option<Text>,
    pub session_id: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub local_rank: Option<i64>,
    pub world_size: Option<i64>,
    pub start_ns: Option<i64>,
    pub end_ns: Option<i64>,
    pub source_path: Text,
    pub source_kind: &'static str,
    pub source_namespace: Option<Text>,
    pub source_ref: Option<Text>,
    pub metadata: Map,
}

/// Which attachments to list. A field that is `None` accepts every attachment.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct RunAttachmentFilter {
    pub run: RunFilter,
    pub kind: Option<Text>,
}

impl RunAttachmentFilter {
    fn accepts(&self, row: &RunAttachmentRow) -> bool {
        let run = &self.run;
        fits(run.run_id.as_ref(), Some(&row.run_id))
            && fits(run.session_id.as_ref(), row.session_id.as_ref())
            && fits(run.job_id.as_ref(), row.job_id.as_ref())
            && fits(run.rank.as_ref(), row.rank.as_ref())
            && fits(self.kind.as_ref(), Some(&row.kind))
            && fits(run.source_namespace.as_ref(), row.source_namespace.as_ref())
            && fits(run.source_ref.as_ref(), row.source_ref.as_ref())
    }
}

impl super::Store {
    /// The attachments of the runs that the filter accepts.
    pub fn run_attachments(&self, filter: &RunAttachmentFilter) -> Vec<RunAttachmentRow> {
        let mut rows = self.run_attachments_of(&self.run_contexts());
        rows.retain(|row| filter.accepts(row));
        rows
    }

    pub(crate) fn run_attachments_of(&self, contexts: &[RunContext]) -> Vec<RunAttachmentRow> {
        let attachments = self.catalog().attachments.iter();
        let named_jobs = attachments.filter_map(|one| one.job_id.as_ref()).collect();
        let index = IdentityIndex::of(contexts, &named_jobs);
        for warning in index.warnings() {
            self.warn(warning);
        }
        let mut rows = self.described();
        rows.extend(self.linked(&index));
        for source in &self.catalog().sources {
            match &source.manifest {
                Some(manifest) => rows.extend(of_sink(source, manifest, &index)),
                None if source.kind == SourceKind::DiagnoseBundle => {
                    rows.extend(of_diagnose(source, &index));
                }
                None => rows.extend(of_file(source, contexts, &index)),
            }
        }
        rows.extend(self.of_bundles(contexts, &index));
        rows.sort_by(|a, b| {
            let key = |row: &RunAttachmentRow| {
                (
                    row.run_id.clone(),
                    row.session_id.clone().unwrap_or_default(),
                    row.rank.unwrap_or(-1),
                    row.kind.clone(),
                    row.title.clone(),
                    row.source_path.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        rows
    }

    /// The attachments listed in envelopes.
    fn described(&self) -> Vec<RunAttachmentRow> {
        let mut rows = Vec::new();
        for envelope in &self.catalog().run_envelopes {
            for attachment in &envelope.attachments {
                let inherited =
                    |own: &Option<Text>, of_run: &Option<Text>| own.clone().or(of_run.clone());
                let target = attachment.url.clone().or_else(|| attachment.path.clone());
                rows.push(RunAttachmentRow {
                    run_id: attachment
                        .run_id
                        .clone()
                        .unwrap_or_else(|| envelope.run_id.clone()),
                    title: attachment.title.clone(),
                    kind: attachment.kind.clone(),
                    storage: attachment.storage.clone(),
                    attachment_id: attachment.attachment_id.clone(),
                    url: attachment.url.clone(),
                    path: attachment.path.clone(),
                    session_id: attachment.session_id.clone(),
                    job_id: inherited(&attachment.job_id, &envelope.job_id),
                    rank: attachment.rank,
                    local_rank: attachment.local_rank,
                    world_size: attachment.world_size,
                    start_ns: attachment.start_ns,
                    end_ns: attachment.end_ns,
                    source_path: target.unwrap_or_else(|| path_text(&envelope.path)),
                    source_kind: "run_envelope_attachment",
                    source_namespace: inherited(
                        &attachment.source_namespace,
                        &envelope.source_namespace,
                    ),
                    source_ref: inherited(&attachment.source_ref, &envelope.source_ref),
                    metadata: attachment.metadata.clone(),
                });
            }
        }
        rows
    }

    /// The attachments that sidecars (`stormlog_attachments.json`) list, without attachments whose
    /// run is unknown.
    fn linked(&self, index: &IdentityIndex) -> Vec<RunAttachmentRow> {
        let attachments = self.catalog().attachments.iter();
        attachments
            .filter_map(|attachment| {
                let namespace = attachment.source_namespace.as_ref();
                let reference = namespace.zip(attachment.source_ref.as_ref());
                let run_id = index.owner(
                    attachment.run_id.as_ref(),
                    attachment.session_id.as_ref(),
                    attachment.job_id.as_ref(),
                    reference,
                )?;
                let target = attachment.url.clone().or_else(|| attachment.path.clone());
                Some(RunAttachmentRow {
                    run_id,
                    title: attachment.title.clone(),
                    kind: attachment.kind.clone(),
                    storage: attachment.storage.clone(),
                    attachment_id: attachment.attachment_id.clone(),
                    url: attachment.url.clone(),
                    path: attachment.path.clone(),
                    session_id: attachment.session_id.clone(),
                    job_id: attachment.job_id.clone(),
                    rank: attachment.rank,
                    local_rank: None,
                    world_size: None,
                    start_ns: attachment.start_ns,
                    end_ns: attachment.end_ns,
                    source_path: target.unwrap_or_else(|| attachment.sidecar_path.clone()),
                    source_kind: "attachment_sidecar",
                    source_namespace: attachment.source_namespace.clone(),
                    source_ref: attachment.source_ref.clone(),
                    metadata: attachment.metadata.clone(),
                })
            })
            .collect()
    }

    fn of_bundles(&self, contexts: &[RunContext], index: &IdentityIndex) -> Vec<RunAttachmentRow> {
        let members = contexts.iter().flat_map(|run| &run.sessions);
        let sessions: HashMap<&Text, &SessionRow> =
            members.map(|row| (&row.summary.session_id, row)).collect();
        let bundles = self.catalog().oom_bundles.iter();
        bundles
            .filter_map(|bundle| {
                let id = bundle.session_id.as_ref()?;
                let session = sessions.get(id).map(|row| &row.summary);
                let path = path_text(&bundle.bundle_path);
                let what = ("OOM bundle".into(), "oom_bundle", path);
                Some(RunAttachmentRow {
                    start_ns: bundle.created_ns(),
                    end_ns: bundle.created_ns(),
                    source_kind: "oom_bundle",
                    metadata: map_of(bundle),
                    ..local_of(index, what, id, session)?
                })
            })
            .collect()
    }
}

/// The rows for a sink, its segments and its rollups, each once per session.
fn of_sink(source: &Source, manifest: &Manifest, index: &IdentityIndex) -> Vec<RunAttachmentRow> {
    let mut rows = Vec::new();
    let rollups = source.path.join(ROLLUP_FILENAME);
    let has_rollups = rollups.is_file();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    for session in &manifest.sessions {
        let mut add = |title: &str, kind: &str, source_kind, path, metadata| {
            let row = local_of(
                index,
                (title.into(), kind, path),
                &session.session_id,
                Some(session),
            );
            rows.extend(row.map(|row| RunAttachmentRow {
                source_kind,
                metadata,
                ..row
            }));
        };
        let mut metadata = Map::new();
        let manifest_path = source.manifest_path.as_deref().map(path_text);
        metadata.insert("manifest_path", manifest_path);
        let path = path_text(&source.path);
        add("Telemetry sink", "telemetry_sink", "sink", path, metadata);
        if has_rollups {
            let mut metadata = Map::new();
            metadata.insert("manifest_session_count", count(manifest.sessions.len()));
            metadata.insert("manifest_segment_count", count(manifest.segments.len()));
            let path = path_text(&rollups);
            add(
                "Telemetry rollups",
                "telemetry_rollup",
                "rollup",
                path,
                metadata,
            );
        }
    }
    for segment in &manifest.segments {
        let Some(id) = &segment.session_id else {
            continue;
        };
        let session = manifest
            .sessions
            .iter()
            .rfind(|session| session.session_id == *id);
        let name = segment.filename.to_str_lossy();
        // A name with a folder is skipped, because segments must be directly inside their sink.
        if Path::new(&*name).file_name() != Some(OsStr::new(&*name)) {
            continue;
        }
        let path = path_text(&source.path.join(&*name));
        let what = (segment.filename.clone(), "telemetry_sink_segment", path);
        let mut metadata = Map::new();
        metadata.insert("event_count", segment.event_count);
        metadata.insert("size_bytes", segment.size_bytes);
        metadata.insert("closed", Value::Bool(segment.closed));
        rows.extend(
            local_of(index, what, id, session).map(|row| RunAttachmentRow {
                source_kind: "sink_segment",
                metadata,
                ..row
            }),
        );
    }
    rows
}

/// A row for a file of a session; `None` when the session does not belong to exactly one run.
fn local_of(
    index: &IdentityIndex,
    (title, kind, path): (Text, &str, Text),
    session_id: &Text,
    session: Option<&SessionSummary>,
) -> Option<RunAttachmentRow> {
    let job = session.and_then(|session| session.job_id.as_ref());
    Some(RunAttachmentRow {
        run_id: index.owner(None, Some(session_id), job, None)?,
        title,
        kind: kind.into(),
        storage: "copy".into(),
        path: Some(path.clone()),
        session_id: Some(session_id.clone()),
        job_id: job.cloned(),
        rank: session.map(|session| session.rank),
        local_rank: session.map(|session| session.local_rank),
        world_size: session.map(|session| session.world_size),
        start_ns: session.map(|session| session.started_at_ns),
        end_ns: session.and_then(|session| session.ended_at_ns),
        source_path: path,
        source_namespace: Some("stormlog".into()),
        ..RunAttachmentRow::default()
    })
}

fn of_diagnose(source: &Source, index: &IdentityIndex) -> Option<RunAttachmentRow> {
    let session = source.diagnosed.as_ref()?;
    let path = path_text(&source.path);
    let what = ("Diagnose bundle".into(), "diagnose_bundle", path);
    let mut row = local_of(index, what, &session.session_id, Some(session))?;
    row.source_kind = "diagnose_bundle";
    let manifest_path = source.manifest_path.as_deref().map(path_text);
    row.metadata.insert("manifest_path", manifest_path);
    row.metadata
        .insert("session_status", session.status.as_str());
    Some(row)
}

/// The rows for a file that is not a sink: one per session that belongs to exactly one run.
fn of_file(
    source: &Source,
    contexts: &[RunContext],
    index: &IdentityIndex,
) -> Vec<RunAttachmentRow> {
    let path = path_text(&source.path);
    let title = source.path.file_name().unwrap_or_default();
    let title: Text = title.to_string_lossy().into_owned().into();
    let mut rows = Vec::new();
    for run in contexts {
        let of_this_file = run
            .sessions
            .iter()
            .filter(|session| session.source_path == path && session.source_kind == source.kind);
        for session in of_this_file {
            let summary = &session.summary;
            let what = (title.clone(), "telemetry_file", path.clone());
            let Some(mut row) = local_of(index, what, &summary.session_id, Some(summary)) else {
                continue;
            };
            row.source_kind = source.kind.as_str();
            row.metadata.insert("event_count", session.event_count);
            rows.push(row);
        }
    }
    rows
}
