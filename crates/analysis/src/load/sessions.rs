//! Groups loaded events into sessions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use stormlog_format::{EventType, SessionStatus, SessionSummary, Text};

use super::ownership::Ownership;
use super::{Loaded, LoadedSession, Removed};
use crate::catalog::{resolve, tidy};
use crate::columns::{Chunk, EventRef, Events, RowId, Table};
use crate::damage::Damage;
use crate::pack;

/// The contents of an artifact's files, not yet grouped into sessions.
#[derive(Default)]
pub(crate) struct ReadParts {
    /// Chunks of events, each with the index of its file.
    pub(crate) chunks: Vec<(Arc<Chunk>, usize)>,
    /// The absolute paths of the files, for [`LoadedSession::sources`], each with the session that
    /// its records without a session id belong to.
    pub(crate) files: Vec<(String, Option<Text>)>,
    /// Sessions that are known without their events, for example from a manifest.
    pub(crate) known: Vec<SessionSummary>,
    pub(crate) damage: Vec<Damage>,
    /// Missing files, each with the session it belongs to.
    pub(crate) lost: Vec<(PathBuf, Text)>,
    /// Whether every line of a `.jsonl` file is a complete record of the current format.
    pub(crate) are_complete: bool,
}

impl ReadParts {
    /// The parts of an artifact that consists of one file, with its damage.
    pub(crate) fn of_file(file: &Path, damage: Vec<Damage>) -> Self {
        Self {
            files: vec![(absolute(file), None)],
            damage,
            ..Self::default()
        }
    }
}

/// One session while its events are collected.
#[derive(Default)]
struct Group {
    rows: Vec<RowId>,
    files: BTreeSet<usize>,
}

/// Groups events by session, sorts them by time, and adds the summary of each session.
pub(crate) fn assemble(path: &Path, mut parts: ReadParts) -> Loaded {
    let (chunks, chunk_files): (Vec<Arc<Chunk>>, Vec<usize>) =
        std::mem::take(&mut parts.chunks).into_iter().unzip();
    let mut ids: HashMap<Text, usize> = HashMap::new();
    let mut groups: Vec<(Text, Group)> = Vec::new();
    let mut group_of = |id: &Text| {
        *ids.entry_ref(id).or_insert_with(|| {
            groups.push((id.clone(), Group::default()));
            groups.len() - 1
        })
    };
    let origins: Vec<Vec<usize>> = chunks
        .iter()
        .map(|chunk| {
            chunk
                .origins()
                .iter()
                .map(|origin| group_of(&origin.session_id))
                .collect()
        })
        .collect();
    for summary in &parts.known {
        group_of(&summary.session_id);
    }
    for (index, (chunk, origins)) in chunks.iter().zip(&origins).enumerate() {
        let chunk_id = u32::try_from(index).unwrap_or(u32::MAX);
        for row in 0..chunk.len() {
            let group = &mut groups[origins[chunk.origin_index(row)]].1;
            group.rows.push(RowId {
                chunk: chunk_id,
                row: u32::try_from(row).unwrap_or(u32::MAX),
            });
        }
        for group in origins {
            groups[*group].1.files.insert(chunk_files[index]);
        }
    }
    let gave_events: BTreeSet<usize> = chunk_files.iter().copied().collect();
    // A file without events is still listed as a source of one session: the session that records
    // without a session id would belong to.
    for (file, (_, session)) in parts.files.iter().enumerate() {
        let session = session.as_ref().filter(|_| !gave_events.contains(&file));
        if let Some(group) = session.and_then(|session| ids.get(session)) {
            groups[*group].1.files.insert(file);
        }
    }
    let used = groups.iter().flat_map(|(_, group)| &group.files).copied();
    let ownership = Ownership::of(&parts, &used.collect(), groups.len());
    // If a manifest lists a session twice, the last entry counts.
    let known = parts.known.iter();
    let known: HashMap<&Text, &SessionSummary> = known
        .map(|summary| (&summary.session_id, summary))
        .collect();
    let table = Arc::new(Table { chunks });
    let source = format!(
        "artifact:{}",
        tidy(path).file_name().unwrap_or_default().to_string_lossy()
    );
    let whole = absolute(path);
    let mut sessions: Vec<LoadedSession> = groups
        .into_iter()
        .map(|(id, group)| {
            let events = in_time_order(&table, group.rows);
            let damage = ownership.concerning(&id, &group.files);
            let listed = known.get(&id).copied();
            let inferred = || infer_summary(id, &events, source.clone().into());
            let summary = listed.cloned().unwrap_or_else(inferred);
            let mut sources: Vec<String> = group
                .files
                .iter()
                .map(|file| parts.files[*file].0.clone())
                .collect();
            if sources.is_empty() {
                sources.push(whole.clone());
            }
            sources.sort();
            LoadedSession {
                summary,
                events,
                sources,
                damage,
                thinned_until_ns: None,
            }
        })
        .collect();
    drop((ownership, known));
    sessions.sort_by(|a, b| a.summary.selection_key().cmp(&b.summary.selection_key()));
    Loaded {
        sessions,
        damage: parts.damage,
        removed: Removed::default(),
        open: Vec::new(),
    }
}

/// The path as stormlog 0.3.9 uses it in ids: absolute, with links resolved.
pub fn absolute(path: &Path) -> String {
    let resolved = resolve(path);
    let shown = pack::shown(&resolved);
    let shown = std::path::absolute(&shown).unwrap_or_else(|_| shown.into_owned());
    shown.to_string_lossy().into_owned()
}

fn in_time_order(table: &Arc<Table>, mut rows: Vec<RowId>) -> Events {
    let time = |id: &RowId| table.chunks[id.chunk as usize].timestamp(id.row as usize);
    if !rows.is_sorted_by_key(time) {
        rows.sort_by_key(time);
    }
    Events {
        table: Arc::clone(table),
        rows: rows.into(),
    }
}

/// The status of a session that no manifest describes: completed if it has a stop event, otherwise
/// incomplete.
pub(crate) fn inferred_status(has_stopped: bool) -> SessionStatus {
    if has_stopped {
        SessionStatus::Completed
    } else {
        SessionStatus::Incomplete
    }
}

/// Infers the summary of a session from its events.
fn infer_summary(session_id: Text, events: &Events, source: Text) -> SessionSummary {
    let stop = events
        .iter()
        .filter(|event| EventType::Stop.is(event.event_type()))
        .last();
    let first = events.get(0);
    let origin = first.map(EventRef::origin);
    SessionSummary {
        session_id,
        status: inferred_status(stop.is_some()),
        started_at_ns: first.map_or(0, EventRef::timestamp_ns),
        ended_at_ns: stop.map(EventRef::timestamp_ns),
        host: origin.map_or_else(|| "unknown".into(), |origin| origin.host.clone()),
        pid: origin.map_or(-1, |origin| origin.pid),
        job_id: origin.and_then(|origin| origin.job_id.clone()),
        rank: origin.map_or(0, |origin| origin.rank),
        local_rank: origin.map_or(0, |origin| origin.local_rank),
        world_size: origin.map_or(1, |origin| origin.world_size),
        source,
        recorder: None,
    }
}
