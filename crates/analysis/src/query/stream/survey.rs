//! Examines files before their events are merged: their sizes, their sessions and their order in
//! time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use stormlog_format::{EventType, SessionStatus, Text};

use super::LEAST_WINDOW;
use crate::catalog::Artifact;
use crate::catalog::FileKind;
use crate::columns::{EventRef, Events};
use crate::compression::Compression;
use crate::damage::Damage;
use crate::load::{
    LoadOptions, absolute, inferred_status, stream_events, stream_file, stream_segment,
};
use crate::load_error::LoadError;
use crate::query::catalog::{Source, SourceKind};
use crate::query::payload::path_text;
use crate::regular_file;
use crate::segment_times::last_time;

/// The uncompressed size of a compressed file is estimated as this many times its size on disk.
const EXPANDS: u64 = 16;

/// A session, with the values that query results show in the rows of its events.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) session_id: Text,
    pub(super) source_path: Text,
    pub(super) source_kind: SourceKind,
    pub(super) status: &'static str,
}

/// The sessions of one source, by session id.
pub(super) type Homes = HashMap<Text, Arc<Home>>;

/// A chain: files of one source whose events follow each other in time.
pub(super) struct Chain {
    pub(super) source: usize,
    pub(super) files: Vec<PathBuf>,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
}

/// Passes the events of a file to `visit`, block by block, and returns what could not be read.
/// Reading stops when `visit` returns false, except that a JSONL file is always read to the end.
pub(super) fn stream(
    source: &Source,
    file: &Path,
    visit: &mut dyn FnMut(&Events) -> bool,
) -> Result<Vec<Damage>, LoadError> {
    let skipping = LoadOptions::skipping();
    match source.kind {
        SourceKind::DiagnoseBundle => Ok(Vec::new()),
        SourceKind::Sink => stream_segment(
            &source.path,
            source.manifest.as_ref(),
            file,
            &skipping,
            visit,
        ),
        SourceKind::TelemetryJson => {
            stream_file(file, FileKind::Document, &LoadOptions::default(), visit)
        }
        SourceKind::TelemetryCsv => stream_file(file, FileKind::Table, &skipping, visit),
        SourceKind::TelemetryJsonl => {
            let mut ignore_end = |events: &Events| {
                visit(events);
            };
            stream_events(file, &skipping, &mut ignore_end)
        }
    }
}

/// The number of bytes in the files of a source; for compressed files, an estimate of their
/// uncompressed size.
pub(in crate::query) fn size_of(source: &Source) -> u64 {
    let sizes = source.event_paths.iter().map(|file| {
        let size = file.metadata().map_or(0, |facts| facts.len());
        let compression = regular_file::open(file).and_then(|mut file| Compression::of(&mut file));
        match compression {
            Ok(Some(_)) => size.saturating_mul(EXPANDS),
            Ok(None) | Err(_) => size,
        }
    });
    sizes.fold(0, u64::saturating_add)
}

/// Arranges files in chains. Each file of a chain begins after the previous file has ended.
pub(super) fn chains(source: usize, mut files: Vec<(i64, &PathBuf)>, waiting: &mut Vec<Chain>) {
    files.sort();
    let mut own: Vec<Chain> = Vec::new();
    for (first_ns, file) in files {
        // Of a compressed file, only the start can be read without reading it completely. No file
        // follows it in its chain.
        let last_ns = last_time(file).map_or(i64::MAX, |last_ns| last_ns.max(first_ns));
        match own.iter_mut().find(|chain| chain.last_ns <= first_ns) {
            Some(chain) => {
                chain.files.push(file.clone());
                chain.last_ns = last_ns;
            }
            None => own.push(Chain {
                source,
                files: vec![file.clone()],
                first_ns,
                last_ns,
            }),
        }
    }
    waiting.extend(own);
}

/// Examines a file without a manifest in one pass, and returns its sessions and the time of its
/// first event. `None` when the file must be loaded instead, because it cannot be read, or because
/// its events are too far out of order to be sorted in a window of `LEAST_WINDOW` events.
pub(super) fn survey(source: &Source) -> Option<(Homes, Option<i64>)> {
    let mut stopped: HashMap<Text, bool> = HashMap::new();
    let (mut first_ns, mut latest_ns) = (None::<i64>, i64::MIN);
    // A checkpoint follows every `LEAST_WINDOW / 4` events, and remembers the latest time seen so
    // far. `latest_before` has the times of the last two checkpoints, `settled_ns` the time of the
    // checkpoint before them. An event earlier than `settled_ns` is too far out of order for the
    // window.
    let mut latest_before: VecDeque<i64> = VecDeque::new();
    let mut settled_ns = i64::MIN;
    let mut is_sortable = true;
    let mut seen = 0_usize;
    stream(source, &source.path, &mut |events| {
        for event in events.iter() {
            let time = event.timestamp_ns();
            first_ns = Some(first_ns.map_or(time, |first| first.min(time)));
            is_sortable &= time >= settled_ns;
            latest_ns = latest_ns.max(time);
            seen += 1;
            if seen.is_multiple_of(LEAST_WINDOW / 4) {
                latest_before.push_back(latest_ns);
                if latest_before.len() > 2 {
                    settled_ns = latest_before.pop_front().unwrap_or(settled_ns);
                }
            }
            note_session(&mut stopped, event);
        }
        true
    })
    .ok()?;
    let beside = match Artifact::at(&source.path) {
        Ok(Artifact::Lines { manifest, .. }) => manifest,
        _ => None,
    };
    let path = match source.kind {
        SourceKind::TelemetryJsonl => path_text(&source.path),
        _ => absolute(&source.path).into(),
    };
    let homes = stopped.into_iter().map(|(id, has_stopped)| {
        let mut known = beside.iter().flat_map(|manifest| &manifest.sessions);
        let known = known.rfind(|known| known.session_id == id);
        let status = known.map_or_else(|| inferred_status(has_stopped), |known| known.status);
        let home = Home {
            session_id: id.clone(),
            source_path: path.clone(),
            source_kind: source.kind,
            status: status.as_str(),
        };
        (id, Arc::new(home))
    });
    is_sortable.then(|| (homes.collect(), first_ns))
}

/// Finds the sessions in all segments of a sink whose manifest assigns segments to the wrong
/// sessions.
pub(super) fn survey_sink(source: &Source) -> Homes {
    let mut found = HashMap::new();
    for file in &source.event_paths {
        let mut stopped = HashMap::new();
        // An error is ignored here, because it is reported when the events of the file are listed.
        let _ = stream(source, file, &mut |events| {
            for event in events.iter() {
                note_session(&mut stopped, event);
            }
            true
        });
        for (id, has_stopped) in stopped {
            found.entry(id).or_insert((file, false)).1 |= has_stopped;
        }
    }
    let sessions = source
        .manifest
        .iter()
        .flat_map(|manifest| &manifest.sessions);
    let known: HashMap<&Text, SessionStatus> = sessions
        .map(|session| (&session.session_id, session.status))
        .collect();
    let homes = found.into_iter().map(|(id, (file, has_stopped))| {
        let status = known.get(&id).copied();
        let home = Home {
            session_id: id.clone(),
            source_path: path_text(file),
            source_kind: source.kind,
            status: status
                .unwrap_or_else(|| inferred_status(has_stopped))
                .as_str(),
        };
        (id, Arc::new(home))
    });
    homes.collect()
}

fn note_session(stopped: &mut HashMap<Text, bool>, event: EventRef<'_>) {
    let id = &event.origin().session_id;
    *stopped.entry_ref(id).or_insert(false) |= EventType::Stop.is(event.event_type());
}
