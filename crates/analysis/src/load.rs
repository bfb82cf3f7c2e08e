//! Loads sessions from paths: every artifact that Stormlog or stormlog 0.3.9 writes.

mod bundle;
mod csv;
mod document;
mod jsonl;
mod lines;
mod list;
mod live;
mod ownership;
mod parsed;
mod python_literal;
mod removed;
mod sessions;

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stormlog_format::{
    Event, Manifest, RecordDefaults, SessionStatus, SessionSummary, Text, Value,
    stable_legacy_session_id,
};

pub(crate) use live::LiveSessions;
pub use live::TooLarge;
pub use parsed::ParsedFiles;
pub use removed::Removed;
pub use sessions::absolute;
pub(crate) use sessions::inferred_status;

use crate::bytes::open;
use crate::catalog::{Artifact, FileKind};
use crate::columns::{Chunk, EventRef, Events};
use crate::damage::{Damage, MOST_LISTED};
use crate::load_error::LoadError;
use crate::pack;
use csv::Cells;
pub(crate) use lines::Hints;
use lines::LineFiles;
use sessions::ReadParts;

/// How to handle a line or record of an artifact that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Loading fails with an error; only a torn last line is skipped.
    #[default]
    Raise,
    /// The damaged line or record is skipped and listed as damage.
    Skip,
}

impl OnError {
    /// `Skip` if the user's flag for skipping damage is set, otherwise `Raise`.
    pub fn skip_if(skip_damaged: bool) -> Self {
        if skip_damaged {
            Self::Skip
        } else {
            Self::Raise
        }
    }
}

/// Options for loading artifacts.
pub struct LoadOptions<'a> {
    /// Whether old records without a `schema_version` are converted to the current format.
    pub permissive_legacy: bool,
    /// The key of the list of events in a JSON document.
    pub events_key: Option<String>,
    /// How to handle lines and records that cannot be read.
    pub on_error: OnError,
    /// A callback that any thread may call, with the number of bytes read since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// At most this many damaged places of an artifact are listed; further ones are only counted.
    pub most_damage: usize,
    /// Files that need not be parsed, because their events are already in memory.
    pub parsed: Option<&'a ParsedFiles>,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        Self {
            permissive_legacy: true,
            events_key: None,
            on_error: OnError::Raise,
            progress: &|_| {},
            most_damage: MOST_LISTED,
            parsed: None,
        }
    }
}

impl LoadOptions<'_> {
    /// The default options, except that damage is skipped and listed.
    pub fn skipping() -> Self {
        Self {
            on_error: OnError::Skip,
            ..Self::default()
        }
    }

    /// The defaults for records of an artifact. The session id of records without one is computed
    /// from the path of the artifact and from `kind`, as in stormlog 0.3.9.
    fn defaults_of(&self, path: &Path, kind: &str) -> RecordDefaults {
        self.defaults(stable_legacy_session_id(&[
            absolute(path).into(),
            kind.into(),
        ]))
    }

    /// The defaults for records, which belong to the given session if they have no session id.
    fn defaults(&self, session_id: Text) -> RecordDefaults {
        RecordDefaults {
            permissive_legacy: self.permissive_legacy,
            session_id: Some(Value::Text(session_id)),
            ..RecordDefaults::default()
        }
    }
}

/// One session of an artifact, with its events in time order.
#[derive(Clone, Debug)]
pub struct LoadedSession {
    /// The summary of the session.
    pub summary: SessionSummary,
    /// The events of the session, in time order.
    pub events: Events,
    /// The files that contain the events of the session.
    pub sources: Vec<String>,
    /// Damage in the files of the session.
    pub damage: Vec<Damage>,
    /// Samples up to `thinned_until_ns` are sparse because thinning removed some of them. Missing
    /// samples up to this time do not count as a sampling gap.
    pub thinned_until_ns: Option<i64>,
}

/// The contents of an artifact.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The sessions of the artifact; the session to select by default comes first.
    pub sessions: Vec<LoadedSession>,
    /// Damage of the artifact as a whole, which belongs to no session.
    pub damage: Vec<Damage>,
    /// Events that the recorder deleted from the sink by retention or thinning.
    pub removed: Removed,
    /// The ids of the sessions that the manifest of a sink lists as running: nobody closed them. In
    /// a bundle, which is written while its session runs, no session is open.
    pub open: Vec<Text>,
}

/// Maximum number of attempts at reading a sink that is being thinned while it is read.
const TRIES: usize = 4;

/// Loads all sessions of an artifact.
pub fn load_sessions(path: &Path, options: &LoadOptions<'_>) -> Result<Loaded, LoadError> {
    let path = &*pack::unpacked(path)?;
    for _ in 1..TRIES {
        let artifact = Artifact::at(path)?;
        let loaded = load_artifact(path, &artifact, options);
        if !artifact.was_rewritten(path) {
            return loaded;
        }
    }
    load_artifact(path, &Artifact::at(path)?, options)
}

fn load_artifact(
    path: &Path,
    artifact: &Artifact,
    options: &LoadOptions<'_>,
) -> Result<Loaded, LoadError> {
    let parts = match artifact {
        Artifact::Sink { .. } | Artifact::Lines { .. } => {
            LineFiles::of(path, artifact, options)?.read(options)?
        }
        _ => {
            let mut chunks = Vec::new();
            let parts = read_one_file(path, artifact, options, &mut |chunk| {
                chunks.push((Arc::new(chunk), 0));
            })?;
            ReadParts { chunks, ..parts }
        }
    };
    Ok(loaded_of(path, artifact, parts))
}

fn open_sessions(artifact: &Artifact) -> Vec<Text> {
    let Artifact::Sink {
        manifest: Some(manifest),
        ..
    } = artifact
    else {
        return Vec::new();
    };
    let open = manifest.sessions.iter();
    let open = open.filter(|session| session.status == SessionStatus::Running);
    open.map(|session| session.session_id.clone()).collect()
}

/// Groups the events of an artifact into sessions, and adds what was removed from the artifact.
fn loaded_of(path: &Path, artifact: &Artifact, parts: ReadParts) -> Loaded {
    let mut loaded = sessions::assemble(path, parts);
    if let Artifact::Sink { manifest, .. } | Artifact::Lines { manifest, .. } = artifact {
        let thinned = manifest.as_ref().and_then(|manifest| manifest.thinned);
        for session in &mut loaded.sessions {
            session.thinned_until_ns = thinned.map(|thinned| thinned.until_ns);
        }
    }
    loaded.removed = Removed::of(artifact);
    loaded.open = open_sessions(artifact);
    loaded
}

/// Loads the events that `keep` accepts from some segments of a sink, in the order of the files.
pub(crate) fn load_matching(
    sink: &Path,
    manifest: &Manifest,
    segments: Vec<PathBuf>,
    options: &LoadOptions<'_>,
    keep: &(dyn Fn(EventRef<'_>) -> bool + Sync),
) -> Result<(Vec<Events>, Vec<Damage>), LoadError> {
    let artifact = Artifact::of_segments(Some(manifest), segments);
    LineFiles::of(sink, &artifact, options)?.read_matching(options, keep)
}

/// Loads a file as a JSON document, whatever the suffix of its name.
pub fn load_document(path: &Path, options: &LoadOptions<'_>) -> Result<Loaded, LoadError> {
    load_file(path, FileKind::Document, options)
}

/// Loads a JSON document or a CSV table for a query, whatever the suffix of its name. Queries
/// ignore white space around the cells of a table and accept a table without a time column.
pub(crate) fn load_file(
    path: &Path,
    kind: FileKind,
    options: &LoadOptions<'_>,
) -> Result<Loaded, LoadError> {
    let mut chunks = Vec::new();
    let parts = read_file(path, kind, options, &mut |chunk| {
        chunks.push((Arc::new(chunk), 0));
    })?;
    Ok(sessions::assemble(path, ReadParts { chunks, ..parts }))
}

/// Like [`load_file`], but passes the events to `visit` while the file is read, and returns only
/// the damage.
pub(crate) fn stream_file(
    path: &Path,
    kind: FileKind,
    options: &LoadOptions<'_>,
    visit: &mut dyn FnMut(&Events) -> bool,
) -> Result<Vec<Damage>, LoadError> {
    let mut take = |chunk| {
        visit(&Events::of_chunk(chunk));
    };
    Ok(read_file(path, kind, options, &mut take)?.damage)
}

/// Reads a JSON document or a CSV table; white space around the cells of a table is ignored.
fn read_file(
    path: &Path,
    kind: FileKind,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    match kind {
        FileKind::Table => csv::read(path, path, options, take, Cells::Stripped),
        FileKind::Document | FileKind::Lines => document::read(path, path, options, take),
    }
}

/// Passes the events of one segment of a sink to `visit`, block by block, until `visit` returns
/// false. Returns the damage of the segment.
pub(crate) fn stream_segment(
    sink: &Path,
    manifest: Option<&Manifest>,
    segment: &Path,
    options: &LoadOptions<'_>,
    visit: &mut dyn FnMut(&Events) -> bool,
) -> Result<Vec<Damage>, LoadError> {
    let artifact = Artifact::of_segments(manifest, vec![segment.to_path_buf()]);
    let mut take = |chunk: Chunk| visit(&Events::of_chunk(chunk));
    let files = LineFiles::of(sink, &artifact, options)?;
    Ok(files.read_in_order(options, &mut take)?.damage)
}

/// Opens a file for reading its text, which is decompressed if the file is compressed.
pub fn open_text(file: &Path) -> Result<Box<dyn Read + Send>, LoadError> {
    Ok(open(file)?.reader)
}

/// Passes the events of the lines that begin between two offsets of a file to a callback, a bounded
/// number at a time. The file is a segment of the sink whose manifest is given, or a file that
/// belongs to no sink. The offsets in a compressed file are those of the decompressed text.
pub fn stream_lines(
    file: &Path,
    manifest: Option<&Manifest>,
    places: Range<u64>,
    options: &LoadOptions<'_>,
    visit: &mut dyn FnMut(&Events),
) -> Result<StreamedLines, LoadError> {
    let artifact = Artifact::of_segments(manifest, vec![file.to_path_buf()]);
    let mut take = |chunk: Chunk| {
        visit(&Events::of_chunk(chunk));
        true
    };
    let sink = file.parent().unwrap_or(file);
    let path = if manifest.is_some() { sink } else { file };
    let files = LineFiles::between(path, &artifact, options, places);
    let read = files.read_in_order(options, &mut take)?;
    Ok(StreamedLines {
        damage: read.damage,
        are_complete: read.are_complete,
    })
}

/// What [`stream_lines`] found in the lines, apart from their events.
#[derive(Debug)]
pub struct StreamedLines {
    /// The lines that were skipped because they are invalid, and why.
    pub damage: Vec<Damage>,
    /// Whether every line is a complete record of the current format. Such lines need no default
    /// values from the options or the manifest, so their events can be used for [`ParsedFiles`].
    pub are_complete: bool,
}

/// Groups events that the caller already has in memory into sessions; `file` is named as their
/// source.
pub fn loaded_of_events(file: &Path, events: &[Event]) -> Loaded {
    let chunks = Events::from_events(events).table.chunks.clone();
    let parts = ReadParts {
        chunks: chunks.into_iter().map(|chunk| (chunk, 0)).collect(),
        ..ReadParts::of_file(file, Vec::new())
    };
    sessions::assemble(file, parts)
}

/// Passes the events of an artifact to `visit` in file order, a bounded number at a time, and
/// returns the damage. `.jsonl` files and lists of records are never fully in memory.
pub fn stream_events(
    path: &Path,
    options: &LoadOptions<'_>,
    visit: &mut dyn FnMut(&Events),
) -> Result<Vec<Damage>, LoadError> {
    let path = &*pack::unpacked(path)?;
    let artifact = Artifact::at(path)?;
    let mut take = |chunk: Chunk| {
        visit(&Events::of_chunk(chunk));
        true
    };
    let parts = match &artifact {
        Artifact::Sink { .. } | Artifact::Lines { .. } => {
            LineFiles::of(path, &artifact, options)?.read_in_order(options, &mut take)?
        }
        _ => read_one_file(path, &artifact, options, &mut |chunk| {
            take(chunk);
        })?,
    };
    Ok(parts.damage)
}

/// Reads an artifact whose events are in one file that is not a `.jsonl` file.
fn read_one_file(
    path: &Path,
    artifact: &Artifact,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    match artifact {
        Artifact::Sink { .. } | Artifact::Lines { .. } => Ok(ReadParts::default()),
        Artifact::Document { file } => document::read(path, file, options, take),
        Artifact::Csv { file } => csv::read(path, file, options, take, Cells::AsTheyAre),
        Artifact::DiagnoseBundle { directory } => bundle::read_diagnose(directory, options, take),
        Artifact::Timeline { file } => bundle::read_timeline(file, options, take),
        Artifact::OomBundle { directory } => bundle::read_oom(directory, options, take),
    }
}

/// The session to use when the user selects none; sessions with events are preferred to those
/// without.
pub fn default_session(loaded: &Loaded) -> Option<&LoadedSession> {
    let with_events = loaded
        .sessions
        .iter()
        .find(|session| !session.events.is_empty());
    with_events.or_else(|| loaded.sessions.first())
}

/// Loads the events of the given session, or of the default session.
pub fn load_events(
    path: &Path,
    session_id: Option<&str>,
    options: &LoadOptions<'_>,
) -> Result<(Events, Vec<Damage>), LoadError> {
    events_of(load_sessions(path, options)?, session_id)
}

/// The events of the given session, or of the default session, and the damage of the artifact.
pub(crate) fn events_of(
    loaded: Loaded,
    session_id: Option<&str>,
) -> Result<(Events, Vec<Damage>), LoadError> {
    let session = match session_id {
        _ if loaded.sessions.is_empty() => None,
        None => default_session(&loaded),
        Some(id) => {
            let named = loaded
                .sessions
                .iter()
                .find(|session| session.summary.session_id == id);
            Some(named.ok_or_else(|| LoadError::SessionNotFound(id.into()))?)
        }
    };
    let events = session
        .map(|session| session.events.clone())
        .unwrap_or_default();
    Ok((events, loaded.damage))
}
