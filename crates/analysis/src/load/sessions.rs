//! Groups what was read into sessions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::{
    Manifest, RecordDefaults, SessionStatus, SessionSummary, Text, Value, stable_legacy_session_id,
};

use super::artifact::{Artifact, tidy};
use super::damage::Damage;
use super::error::LoadError;
use super::jsonl::{self, PartOutcome, Problem, ProblemKind};
use super::{LoadOptions, Loaded, LoadedSession, OnError};
use crate::columns::{Chunk, Events, RowId, Table};

/// What was read from the files of an artifact, not yet grouped.
#[derive(Default)]
pub(crate) struct ReadParts {
    /// Chunks and the file that each came from.
    pub(crate) chunks: Vec<(Chunk, usize)>,
    /// The files, as they are listed in `sources_loaded`, each with the session that the
    /// manifest says it belongs to.
    pub(crate) files: Vec<(String, Option<Text>)>,
    /// Sessions that are known before any event is seen.
    pub(crate) known: Vec<SessionSummary>,
    pub(crate) damage: Vec<Damage>,
}

/// Reads a sink's segments, or one file of lines, in parallel.
pub(crate) fn read_lines(
    path: &Path,
    artifact: &Artifact,
    options: &LoadOptions<'_>,
) -> Result<ReadParts, LoadError> {
    let (manifest, files, damage): (Option<&Manifest>, Vec<&Path>, Vec<Damage>) = match artifact {
        Artifact::Sink {
            manifest,
            segments,
            damage,
        } => (
            manifest.as_ref(),
            segments.iter().map(PathBuf::as_path).collect(),
            damage.clone(),
        ),
        Artifact::Lines { manifest, file } => (manifest.as_ref(), vec![file], Vec::new()),
        _ => (None, Vec::new(), Vec::new()),
    };
    let hints: Vec<Option<Text>> = files
        .iter()
        .map(|file| session_hint(manifest, file))
        .collect();
    let mut parts = Vec::new();
    for (place, file) in files.iter().enumerate() {
        parts.extend(jsonl::parts(place, file)?);
    }
    let go_on = options.on_error == OnError::Skip;
    let fallback = stable_legacy_session_id(&[absolute(path).into(), "sink".into()]);
    let outcomes: Vec<PartOutcome> = parts
        .par_iter()
        .map(|part| {
            let defaults = RecordDefaults {
                permissive_legacy: options.permissive_legacy,
                session_id: Some(Value::Text(
                    hints[part.file].clone().unwrap_or_else(|| fallback.clone()),
                )),
                ..RecordDefaults::default()
            };
            jsonl::read_part(files[part.file], *part, &defaults, go_on, options.progress)
        })
        .collect::<Result<_, _>>()?;

    let mut read = ReadParts {
        damage,
        ..ReadParts::default()
    };
    let mut first_line = vec![0; files.len()];
    let mut problems: Vec<(usize, u64, Problem)> = Vec::new();
    for (part, outcome) in parts.iter().zip(outcomes) {
        let base = first_line[part.file];
        first_line[part.file] += outcome.lines;
        problems.extend(
            outcome
                .problems
                .into_iter()
                .map(|problem| (part.file, base, problem)),
        );
        read.chunks
            .extend(outcome.chunks.into_iter().map(|chunk| (chunk, part.file)));
    }
    if !go_on && let Some(error) = first_error(&files, &problems) {
        return Err(error);
    }
    read.damage.extend(
        problems
            .iter()
            .map(|(file, base, problem)| damage_of(files[*file], *base, problem)),
    );
    read.known = manifest
        .map(|manifest| manifest.sessions.clone())
        .unwrap_or_default();
    read.files = files
        .iter()
        .zip(hints)
        .map(|(file, hint)| (file.to_string_lossy().into_owned(), hint))
        .collect();
    Ok(read)
}

fn session_hint(manifest: Option<&Manifest>, file: &Path) -> Option<Text> {
    let name = file.file_name()?.to_string_lossy();
    let segment = manifest?.segments.iter().rfind(|segment| {
        let listed = segment.filename.to_str_lossy();
        name == listed
            || name
                .strip_prefix(&*listed)
                .is_some_and(|rest| [".gz", ".zst"].contains(&rest))
    });
    segment?.session_id.clone()
}

/// The error of the first file with one; text that is no text comes before the rest, since
/// such a file cannot be read at all.
fn first_error(files: &[&Path], problems: &[(usize, u64, Problem)]) -> Option<LoadError> {
    let fatal = problems.iter().filter(|(.., problem)| !problem.is_tear());
    let (file, base, problem) = fatal.min_by_key(|(file, base, problem)| {
        let is_text = !matches!(problem.kind, ProblemKind::NotUtf8 { .. });
        (*file, is_text, base + problem.line)
    })?;
    let (file, line) = (files[*file].to_path_buf(), base + problem.line + 1);
    Some(match &problem.kind {
        ProblemKind::NotUtf8 { offset, byte } => LoadError::NotUtf8 {
            file,
            offset: *offset,
            byte: *byte,
        },
        ProblemKind::Malformed(_) => LoadError::MalformedLine { file, line },
        ProblemKind::NotAnObject => LoadError::LineNotAnObject { file, line },
        ProblemKind::BadRecord(source) => LoadError::BadRecord {
            file,
            line: Some(line),
            index: None,
            source: source.clone(),
        },
        ProblemKind::Broken(source) => LoadError::Io {
            file,
            source: std::io::Error::new(source.kind(), source.to_string()),
        },
    })
}

fn damage_of(file: &Path, base: u64, problem: &Problem) -> Damage {
    let reason = match &problem.kind {
        ProblemKind::NotUtf8 { .. } | ProblemKind::Malformed(_) if problem.torn => {
            "the last line was torn; everything before it is loaded".to_owned()
        }
        ProblemKind::NotUtf8 { offset, .. } => format!("not UTF-8 at byte {offset}"),
        ProblemKind::Malformed(reason) => format!("not JSON: {reason}"),
        ProblemKind::NotAnObject => "not an object".to_owned(),
        ProblemKind::BadRecord(error) => error.to_string(),
        ProblemKind::Broken(error) => format!("the file breaks off: {error}"),
    };
    let bytes = (problem.start < problem.end).then_some(problem.start..problem.end);
    Damage {
        file: file.into(),
        line: Some(base + problem.line + 1),
        bytes,
        reason,
    }
}

impl Problem {
    /// Whether this is what a crash in the middle of a write leaves. A tear inside a
    /// character fails the load unless damage is skipped, as in the reference; segments
    /// are ASCII, so none of theirs can.
    fn is_tear(&self) -> bool {
        self.torn
            && matches!(
                self.kind,
                ProblemKind::Malformed(_) | ProblemKind::Broken(_)
            )
    }
}

/// One session while its events are gathered.
#[derive(Default)]
struct Group {
    rows: Vec<RowId>,
    files: BTreeSet<usize>,
}

/// Groups events by session, orders them by time, and adds what is known of each session.
pub(crate) fn assemble(path: &Path, parts: ReadParts) -> Loaded {
    let (chunks, chunk_files): (Vec<Chunk>, Vec<usize>) = parts.chunks.into_iter().unzip();
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
    for (place, (chunk, origins)) in chunks.iter().zip(&origins).enumerate() {
        let chunk_id = u32::try_from(place).unwrap_or(u32::MAX);
        for row in 0..chunk.len() {
            let group = &mut groups[origins[chunk.origin_index(row)]].1;
            group.rows.push(RowId {
                chunk: chunk_id,
                row: u32::try_from(row).unwrap_or(u32::MAX),
            });
        }
        for group in origins {
            groups[*group].1.files.insert(chunk_files[place]);
        }
    }
    // A segment counts as a source of the session that the manifest gives it to, also when
    // nothing of it could be read.
    for (file, (_, hint)) in parts.files.iter().enumerate() {
        if let Some(group) = hint.as_ref().and_then(|hint| ids.get(hint)) {
            groups[*group].1.files.insert(file);
        }
    }
    let table = Arc::new(Table { chunks });
    let source = format!(
        "artifact:{}",
        tidy(path).file_name().unwrap_or_default().to_string_lossy()
    );
    let mut sessions: Vec<LoadedSession> = groups
        .into_iter()
        .map(|(id, group)| {
            let events = in_time_order(&table, group.rows);
            let known = parts.known.iter().rfind(|summary| summary.session_id == id);
            let summary = known.cloned().unwrap_or_else(|| {
                infer_summary(
                    id,
                    &events,
                    source.clone().into(),
                    SessionStatus::Incomplete,
                )
            });
            let mut sources: Vec<String> = group
                .files
                .iter()
                .map(|file| parts.files[*file].0.clone())
                .collect();
            if sources.is_empty() {
                sources.push(absolute(path));
            }
            sources.sort();
            let damage = parts.damage.iter().filter(|damage| {
                sources
                    .iter()
                    .any(|source| Path::new(source) == damage.file)
            });
            LoadedSession {
                summary,
                events,
                damage: damage.cloned().collect(),
                sources,
            }
        })
        .collect();
    sessions.sort_by(|a, b| a.summary.selection_key().cmp(&b.summary.selection_key()));
    Loaded {
        sessions,
        damage: parts.damage,
    }
}

/// The path as the reference makes it part of ids: absolute, links resolved.
pub(crate) fn absolute(path: &Path) -> String {
    let resolved = path.canonicalize().or_else(|_| std::path::absolute(path));
    resolved
        .unwrap_or_else(|_| path.to_path_buf())
        .to_string_lossy()
        .into_owned()
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

/// What the events alone tell of their session.
fn infer_summary(
    session_id: Text,
    events: &Events,
    source: Text,
    fallback: SessionStatus,
) -> SessionSummary {
    let stop = events
        .iter()
        .filter(|event| event.event_type() == b"stop")
        .last();
    let first = events.get(0);
    let origin = first.map(crate::columns::EventRef::origin);
    SessionSummary {
        session_id,
        status: if stop.is_some() {
            SessionStatus::Completed
        } else {
            fallback
        },
        started_at_ns: first.map_or(0, crate::columns::EventRef::timestamp_ns),
        ended_at_ns: stop.map(crate::columns::EventRef::timestamp_ns),
        host: origin.map_or_else(|| "unknown".into(), |origin| origin.host.clone()),
        pid: origin.map_or(-1, |origin| origin.pid),
        job_id: origin.and_then(|origin| origin.job_id.clone()),
        rank: origin.map_or(0, |origin| origin.rank),
        local_rank: origin.map_or(0, |origin| origin.local_rank),
        world_size: origin.map_or(1, |origin| origin.world_size),
        source,
    }
}
