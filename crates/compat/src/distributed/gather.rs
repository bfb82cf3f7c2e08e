//! Collects sessions from the given paths. The events of a session from several files are joined
//! without duplicates, and the ranks of one job are joined to one session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hashbrown::HashSet;
use stormlog_analysis::Events;
use stormlog_analysis::{Damage, LoadedSession};
use stormlog_format::{SessionSummary, Text};

use super::directory;
use super::group;
use super::rank_choice::RankChoice;
use crate::distinct;

/// The sessions that were loaded from the given paths, and which of them is selected.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The sessions with their warnings. The session to select by default comes first.
    pub sessions: Vec<(LoadedSession, Vec<String>)>,
    /// The index in `sessions` of the session to show; `None` when there are no sessions.
    pub selected: Option<usize>,
    /// Warnings about assumptions that were made and about files that could not be read.
    pub warnings: Vec<String>,
    /// The files from which the sessions were loaded, sorted.
    pub sources: Vec<String>,
}

/// Why the sessions could not be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error messages document the variants")]
pub enum GatherError {
    #[error("Requested session_id not found: {0}")]
    SessionNotFound(String),
}

/// Loads all sessions from the given paths, and selects the one with the given id, or the default
/// one.
pub fn gather(paths: &[PathBuf], session_id: Option<&str>) -> Result<Gathered, GatherError> {
    let mut ranks = RankChoice::default();
    let mut all = Sessions::default();
    let mut alone: BTreeSet<Text> = BTreeSet::new();
    let mut nameless = Vec::new();
    let mut warnings = Vec::new();
    for path in paths {
        let mut found = directory::load_path(path, &mut ranks);
        warnings.append(&mut found.warnings);
        if found.nameless_file {
            nameless.append(&mut found.sessions);
            continue;
        }
        let ids = found.sessions.iter();
        let ids: BTreeSet<&Text> = ids.map(|(one, _)| &one.summary.session_id).collect();
        if ids.len() == 1 {
            alone.extend(ids.into_iter().cloned());
        }
        all.add(found.sessions);
    }
    if let Some(merged) = group::without_names(&nameless) {
        alone.insert(merged.0.summary.session_id.clone());
        all.add(vec![merged]);
    }
    let mut sessions = all.finish();
    let groups = group::ranks_of_jobs(&sessions, &alone);
    let grouped: BTreeSet<Text> = groups
        .iter()
        .map(|(group, _)| group.summary.session_id.clone())
        .collect();
    sessions.extend(groups);
    sort(&mut sessions);
    let selected = match session_id {
        Some(id) => {
            let mut sessions = sessions.iter();
            let named = sessions.position(|(session, _)| session.summary.session_id == id);
            Some(named.ok_or_else(|| GatherError::SessionNotFound(id.to_owned()))?)
        }
        None => default_index(&sessions, &grouped),
    };
    let sources: BTreeSet<String> = sessions
        .iter()
        .flat_map(|(session, _)| session.sources.iter().cloned())
        .collect();
    Ok(Gathered {
        sessions,
        selected,
        warnings: distinct(warnings),
        sources: sources.into_iter().collect(),
    })
}

/// The index of the default session: the joined ranks of a job if there are any, otherwise a
/// session with events.
fn default_index(
    sessions: &[(LoadedSession, Vec<String>)],
    grouped: &BTreeSet<Text>,
) -> Option<usize> {
    let of_job = sessions
        .iter()
        .position(|(session, _)| grouped.contains(&session.summary.session_id));
    let with_events = || {
        let mut sessions = sessions.iter();
        sessions.position(|(session, _)| !session.events.is_empty())
    };
    of_job
        .or_else(with_events)
        .or((!sessions.is_empty()).then_some(0))
}

/// Collects the parts of sessions from several files, by session id.
#[derive(Default)]
pub(super) struct Sessions(BTreeMap<Text, Parts>);

struct Parts {
    summary: SessionSummary,
    events: Vec<Events>,
    sources: BTreeSet<String>,
    warnings: Vec<String>,
    damage: Vec<Damage>,
}

impl Sessions {
    /// Adds sessions to those collected so far. If a session has two summaries, the one that comes
    /// first by `selection_key` is kept.
    pub(super) fn add(&mut self, found: Vec<(LoadedSession, Vec<String>)>) {
        for (session, warnings) in found {
            let id = session.summary.session_id.clone();
            let parts = self.0.entry(id).or_insert_with(|| Parts {
                summary: session.summary.clone(),
                events: Vec::new(),
                sources: BTreeSet::new(),
                warnings: Vec::new(),
                damage: Vec::new(),
            });
            if session.summary.selection_key() < parts.summary.selection_key() {
                parts.summary = session.summary;
            }
            parts.events.push(session.events);
            parts.sources.extend(session.sources);
            parts.damage.extend(session.damage);
            parts.warnings.extend(warnings);
        }
    }

    pub(super) fn finish(self) -> Vec<(LoadedSession, Vec<String>)> {
        let sessions = self.0.into_values().map(|parts| {
            let events: Vec<&Events> = parts.events.iter().collect();
            let session = LoadedSession {
                summary: parts.summary,
                events: each_once(&Events::merged(&events)),
                sources: parts.sources.into_iter().collect(),
                damage: parts.damage,
                thinned_until_ns: None,
            };
            (session, distinct(parts.warnings))
        });
        let mut sessions: Vec<_> = sessions.collect();
        sort(&mut sessions);
        sessions
    }
}

pub(super) fn sort(sessions: &mut [(LoadedSession, Vec<String>)]) {
    sessions.sort_by(|(a, _), (b, _)| a.summary.selection_key().cmp(&b.summary.selection_key()));
}

/// The events without duplicates. Two events are duplicates if session, time, rank, type, context
/// and byte counts are equal.
fn each_once(events: &Events) -> Events {
    let mut seen = HashSet::new();
    events.retained(|event| {
        let origin = event.origin();
        let ranks = (origin.rank, origin.local_rank, origin.world_size);
        let texts = (&origin.session_id, event.event_type(), event.context());
        let (allocated, reserved) = (event.allocated_bytes(), event.reserved_bytes());
        let bytes = (allocated, reserved, event.used_bytes());
        seen.insert((event.timestamp_ns(), ranks, texts, bytes))
    })
}

/// The text of a path for warnings.
pub(super) fn shown(path: &Path) -> String {
    stormlog_analysis::tidy(path).display().to_string()
}
