//! Lists sessions as rows, from manifests if available and otherwise from events.

use hashbrown::HashMap;
use serde::Serialize;
use stormlog_format::{Manifest, Map, SessionStatus, SessionSummary, Text, file_names};

use super::catalog::{Source, SourceKind};
use super::filter::fits;
use super::ooms::OomBundle;
use super::payload::{path_text, text};
use super::uncounted_events::uncounted_events;
use crate::catalog::{last_event_ns, manifest_path, read_manifest};
use crate::liveness::{Surroundings, effective_status};

/// A session (one recording of one process) as a row of a query result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// The session's id, recorded status, start and end, host, process and rank.
    #[serde(flatten)]
    pub summary: SessionSummary,
    /// Path of the source that contains the session: a folder or a file.
    pub source_path: Text,
    /// The type of the source, such as a sink (recording folder) or a CSV file.
    pub source_kind: SourceKind,
    /// Number of files with the session's events.
    pub source_count: i64,
    /// Number of damaged places that were found while loading the session's events; 0 for a session
    /// that is listed from its manifest alone.
    pub warning_count: i64,
    /// Number of events, if known.
    pub event_count: Option<i64>,
    /// Number of OOM bundles that name this session.
    pub oom_bundle_count: i64,
    /// The status when the row was created. A session that is recorded as running, but whose
    /// process has ended, has the status interrupted here.
    pub effective_status: SessionStatus,
}

/// Which sessions to list. A field that is `None` accepts every session.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "each field is a flag of `stormlog query`, described in its help"
)]
pub struct SessionFilter {
    pub session_id: Option<Text>,
    pub status: Option<Text>,
    pub job_id: Option<Text>,
    pub rank: Option<i64>,
    pub world_size: Option<i64>,
    pub has_oom_bundle: Option<bool>,
    pub source_kind: Option<Text>,
}

impl SessionFilter {
    fn accepts(&self, row: &SessionRow) -> bool {
        let summary = &row.summary;
        let has_oom_bundle = row.oom_bundle_count > 0;
        fits(self.session_id.as_ref(), Some(&summary.session_id))
            && fits(self.job_id.as_ref(), summary.job_id.as_ref())
            && fits(self.status.as_ref(), Some(summary.status.as_str()))
            && fits(self.source_kind.as_ref(), Some(row.source_kind.as_str()))
            && fits(self.rank.as_ref(), Some(&summary.rank))
            && fits(self.world_size.as_ref(), Some(&summary.world_size))
            && fits(self.has_oom_bundle.as_ref(), Some(&has_oom_bundle))
    }
}

impl super::Store {
    /// The sessions that the filter accepts, the newest first.
    pub fn sessions(
        &self,
        filter: &SessionFilter,
        surroundings: Option<&Surroundings<'_>>,
    ) -> Vec<SessionRow> {
        let mut rows = self.all_sessions(surroundings);
        rows.retain(|row| filter.accepts(row));
        rows
    }

    pub(crate) fn all_sessions(&self, surroundings: Option<&Surroundings<'_>>) -> Vec<SessionRow> {
        if let Some(given) = self.given_sessions() {
            return given.to_vec();
        }
        let mut rows = Vec::new();
        for (index, source) in self.catalog().sources.iter().enumerate() {
            rows.extend(self.sessions_of(index, source, surroundings));
        }
        joined(rows, &self.catalog().oom_bundles)
    }

    /// One row per session id; if an id occurs several times, the oldest session counts.
    pub fn session_by_id(&self) -> HashMap<Text, SessionRow> {
        let rows = self.sessions_as_written().iter();
        rows.map(|row| (row.summary.session_id.clone(), row.clone()))
            .collect()
    }

    fn sessions_of(
        &self,
        place: usize,
        source: &Source,
        surroundings: Option<&Surroundings<'_>>,
    ) -> Vec<SessionRow> {
        match &source.manifest {
            Some(manifest) if !manifest.sessions.is_empty() => {
                return from_manifest(source, manifest, surroundings);
            }
            _ => {}
        }
        if source.kind == SourceKind::DiagnoseBundle {
            let summaries = source.diagnosed.iter();
            return summaries
                .map(|summary| {
                    let last_event_ns = || last_event_in_bundle(source, summary);
                    let status = effective_status(summary, last_event_ns, surroundings);
                    row(source, summary.clone(), status, 1, None)
                })
                .collect();
        }
        let loaded = self.loaded(place);
        let sessions = loaded.sessions.iter();
        sessions
            .map(|session| {
                let count = i64::try_from(session.events.len()).ok();
                let files = i64::try_from(session.sources.len()).unwrap_or(i64::MAX);
                let last_event_ns = || session.last_event_ns();
                let status = effective_status(&session.summary, last_event_ns, surroundings);
                let mut row = row(source, session.summary.clone(), status, files, count);
                row.warning_count = i64::try_from(session.damage.len()).unwrap_or(i64::MAX);
                row
            })
            .collect()
    }

    /// The status of each session according to the manifests. If several manifests list a session,
    /// the first one counts.
    pub(crate) fn manifest_statuses(&self) -> HashMap<Text, Text> {
        let mut statuses = HashMap::new();
        for source in &self.catalog().sources {
            let listed = source
                .manifest
                .iter()
                .flat_map(|manifest| &manifest.sessions);
            for summary in listed.chain(&source.diagnosed) {
                let id = summary.session_id.clone();
                statuses
                    .entry(id)
                    .or_insert_with(|| summary.status.as_str().into());
            }
        }
        statuses
    }
}

/// The session rows of all sources as one list, the newest first, each with the number of its OOM
/// bundles.
pub(super) fn joined(mut rows: Vec<SessionRow>, oom_bundles: &[OomBundle]) -> Vec<SessionRow> {
    let mut bundles: HashMap<&Text, i64> = HashMap::new();
    for id in oom_bundles.iter().filter_map(|one| one.session_id.as_ref()) {
        *bundles.entry(id).or_default() += 1;
    }
    join_what_bundles_hold(&mut rows);
    for row in &mut rows {
        let count = bundles.get(&row.summary.session_id);
        row.oom_bundle_count = count.copied().unwrap_or(0);
    }
    // The sort is stable, so that of sessions with equal keys the one found first comes first.
    rows.sort_by(|a, b| {
        let key = |row: &SessionRow| (row.summary.started_at_ns, row.summary.session_id.clone());
        key(b).cmp(&key(a))
    });
    rows
}

/// Joins rows of the same session: a diagnose bundle may contain the sink that it was made from, so
/// that its session is found twice.
fn join_what_bundles_hold(rows: &mut Vec<SessionRow>) {
    let mut bundles: HashMap<Text, Vec<usize>> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        if row.source_kind == SourceKind::DiagnoseBundle {
            let id = row.summary.session_id.clone();
            bundles.entry(id).or_default().push(index);
        }
    }
    let holder_of = |row: &SessionRow| {
        let named = bundles.get(&row.summary.session_id).into_iter().flatten();
        named.copied().find(|bundle| is_inside(row, &rows[*bundle]))
    };
    let holders: Vec<Option<usize>> = rows.iter().map(holder_of).collect();
    for (index, holder) in holders.iter().enumerate() {
        let Some(holder) = *holder else { continue };
        let (events, warnings) = (rows[index].event_count, rows[index].warning_count);
        let holder = &mut rows[holder];
        holder.event_count = holder.event_count.or(events);
        holder.warning_count += warnings;
    }
    let mut holders = holders.into_iter();
    rows.retain(|_| holders.next().flatten().is_none());
}

fn is_inside(row: &SessionRow, bundle: &SessionRow) -> bool {
    let path = row.source_path.as_bytes();
    let rest = path.strip_prefix(bundle.source_path.as_bytes());
    row.source_kind == SourceKind::Sink && rest.is_some_and(|rest| rest.starts_with(b"/"))
}

fn from_manifest(
    source: &Source,
    manifest: &Manifest,
    surroundings: Option<&Surroundings<'_>>,
) -> Vec<SessionRow> {
    let mut of_session: HashMap<&Text, (i64, i64)> = HashMap::new();
    for segment in &manifest.segments {
        let Some(id) = &segment.session_id else {
            continue;
        };
        let (count, events) = of_session.entry(id).or_default();
        *count += 1;
        let uncounted = uncounted_events(&source.path, segment);
        *events = events.saturating_add(segment.event_count.saturating_add(uncounted));
    }
    let sessions = manifest.sessions.iter();
    sessions
        .map(|summary| {
            let listed = of_session.get(&summary.session_id);
            let (count, events) = listed.copied().unwrap_or_default();
            let last_event_ns = || last_event_ns(&source.path, manifest, &summary.session_id);
            let status = effective_status(summary, last_event_ns, surroundings);
            row(source, summary.clone(), status, count, Some(events))
        })
        .collect()
}

fn row(
    source: &Source,
    mut summary: SessionSummary,
    effective_status: SessionStatus,
    source_count: i64,
    event_count: Option<i64>,
) -> SessionRow {
    // An empty job id is removed, because it does not identify a job.
    summary.job_id.take_if(|job| job.as_bytes().is_empty());
    SessionRow {
        effective_status,
        summary,
        source_path: path_text(&source.path),
        source_kind: source.kind,
        source_count,
        warning_count: 0,
        event_count,
        oom_bundle_count: 0,
    }
}

/// The time of the last event of a session that `stormlog diagnose` records into a bundle.
fn last_event_in_bundle(bundle: &Source, summary: &SessionSummary) -> Option<i64> {
    let sink = bundle.path.join(file_names::BUNDLE_SINK);
    let manifest = read_manifest(&manifest_path(&sink)?)?;
    last_event_ns(&sink, &manifest, &summary.session_id)
}

/// The session that the manifest of a diagnose bundle describes. `None` when it has no session id
/// or an invalid status; other missing fields get placeholders, such as the pid -1.
pub(crate) fn diagnosed(manifest: &Map) -> Option<SessionSummary> {
    if let Some(session) = manifest.object("session")
        && let Ok(summary) = SessionSummary::from_map(session)
    {
        return Some(summary);
    }
    let status = match manifest.get("session_status") {
        None => SessionStatus::Incomplete,
        Some(value) => SessionStatus::of_value(value).ok()?,
    };
    Some(SessionSummary {
        session_id: text(manifest, "session_id")?,
        status,
        started_at_ns: 0,
        ended_at_ns: None,
        host: "unknown".into(),
        pid: -1,
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        source: "stormlog.diagnose".into(),
        recorder: None,
    })
}
