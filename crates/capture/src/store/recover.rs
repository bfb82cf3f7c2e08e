//! Repairs the state of a directory when a sink is opened on it: sessions that were left running
//! become interrupted, and segments that no manifest lists are added.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use stormlog_format::rollup::ROLLUP_FILENAME;
use stormlog_format::{
    MANIFEST_VERSION, Manifest, Pruned, Segment, SessionStatus, SessionSummary, SinkNames, Text,
    Thinned, signed,
};

use super::manifest;
use super::segment::{Lines, is_plain_name};
use super::thinning::Thinning;
use super::thinning::rewrite::is_temporary;
use crate::files::{is_regular, is_temporary_of, open_regular};

/// The state with which a new sink begins: what earlier sinks left in the directory, after the
/// repair of what a killed process left unfinished.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recovered {
    /// The sessions in the directory; each session is listed once.
    pub(crate) sessions: Vec<SessionSummary>,
    pub(crate) segments: Vec<Segment>,
    /// The number in the file name of the next segment.
    pub(crate) next_index: u64,
    /// How many events earlier sinks in this directory dropped.
    pub(crate) dropped_event_count: i64,
    /// The thinning budget of the last sink on this directory; `None` when it had none.
    pub(crate) thinning: Option<Thinning>,
    /// How much earlier sinks on this directory thinned and deleted.
    pub(crate) thinned: Thinned,
    pub(crate) pruned: Pruned,
    pub(crate) pruned_sessions: i64,
    /// Files that an interrupted rewrite of segments left behind: its temporary file, and segments
    /// whose lines are in another segment by now.
    pub(crate) leftovers: Vec<String>,
    /// Whether the manifest on disk differs from the recovered state, so that a new manifest must
    /// be written.
    pub(crate) needs_manifest: bool,
}

/// Reads the state of a sink's directory. Of the segments, only those that no manifest lists or
/// whose writer was killed are read, and no file is changed.
pub(crate) fn recover(directory: &Path, names: SinkNames, now_ns: i64) -> io::Result<Recovered> {
    let mut found = segment_names(directory, names)?;
    let mut leftovers = temporary_names(directory, names)?;
    let Some(mut manifest) = manifest::read(directory, names) else {
        let segments = all_segments(directory, Vec::new(), &found)?;
        return Ok(Recovered {
            next_index: next_index(&segments, names),
            needs_manifest: !segments.is_empty(),
            segments,
            leftovers,
            ..Recovered::default()
        });
    };
    let was_rewriting = manifest.rewriting.is_some();
    let replaced = settle(directory, &mut manifest);
    let is_replaced = |name: &String| replaced.iter().any(|old| *old == name.as_str());
    leftovers.extend(found.extract_if(.., |name| is_replaced(name)));
    let (sessions, was_running) = ended_sessions(manifest.sessions, now_ns);
    let mut segments = all_segments(directory, manifest.segments, &found)?;
    close_segments(directory, &mut segments, &sessions)?;
    Ok(Recovered {
        next_index: next_index(&segments, names),
        needs_manifest: manifest.schema_version < MANIFEST_VERSION || was_rewriting || was_running,
        sessions,
        segments,
        dropped_event_count: manifest.dropped_event_count,
        thinning: u64::try_from(manifest.thinning_budget_bytes)
            .ok()
            .filter(|budget_bytes| *budget_bytes > 0)
            .map(|budget_bytes| Thinning { budget_bytes }),
        thinned: manifest.thinned.unwrap_or_default(),
        pruned: manifest.pruned.unwrap_or_default(),
        pruned_sessions: manifest.pruned_sessions,
        leftovers,
    })
}

/// The names of temporary files that killed writers left behind.
fn temporary_names(directory: &Path, names: SinkNames) -> io::Result<Vec<String>> {
    let replaced = [names.manifest(), ROLLUP_FILENAME];
    file_names(directory, |name| {
        is_temporary(name) || replaced.iter().any(|of| is_temporary_of(name, of))
    })
}

/// Each session of a manifest once. Sessions that were left running become interrupted; also
/// returns whether there were any.
fn ended_sessions(listed: Vec<SessionSummary>, now_ns: i64) -> (Vec<SessionSummary>, bool) {
    let mut sessions = Vec::new();
    let mut was_running = false;
    for mut session in listed {
        if session.status == SessionStatus::Running {
            session.status = SessionStatus::Interrupted;
            session.ended_at_ns = Some(now_ns);
            session.recorder = None;
            was_running = true;
        }
        upsert(&mut sessions, session);
    }
    (sessions, was_running)
}

/// The segments that a manifest lists, each once, and those that it does not list, sorted by name.
fn all_segments(
    directory: &Path,
    listed: Vec<Segment>,
    found: &[String],
) -> io::Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    for segment in listed {
        let mut known = segments.iter_mut();
        match known.find(|known| known.filename == segment.filename) {
            Some(known) => *known = segment,
            None => segments.push(segment),
        }
    }
    for name in found {
        if !segments.iter().any(|known| known.filename == name.as_str()) {
            segments.push(adopt(directory, name)?);
        }
    }
    segments.sort_by(|a, b| a.filename.cmp(&b.filename));
    Ok(segments)
}

/// Closes the open segments of interrupted sessions. This is not reason enough to write a new
/// manifest; the next manifest will contain the change.
fn close_segments(
    directory: &Path,
    segments: &mut [Segment],
    sessions: &[SessionSummary],
) -> io::Result<()> {
    for segment in segments.iter_mut().filter(|segment| !segment.closed) {
        let owner = sessions
            .iter()
            .find(|session| Some(&session.session_id) == segment.session_id.as_ref());
        if owner.is_some_and(|owner| owner.status == SessionStatus::Interrupted) {
            segment.closed = true;
            count_what_was_written_early(directory, segment)?;
        }
    }
    Ok(())
}

/// Completes an interrupted rewrite of segments in the manifest; returns the segments that the
/// rewrite made superfluous.
pub(super) fn settle(directory: &Path, manifest: &mut Manifest) -> Vec<Text> {
    let mut replaced = manifest.settle_rewrite(|name| {
        let name = name.as_str().filter(|name| is_plain_name(name))?;
        let facts = directory.join(name).symlink_metadata().ok()?;
        facts.is_file().then_some(facts.len())
    });
    replaced.retain(|name| name.as_str().is_some_and(is_plain_name));
    replaced
}

/// Replaces the session with the same id in the list of sessions, or adds it at the end.
pub(crate) fn upsert(sessions: &mut Vec<SessionSummary>, session: SessionSummary) {
    match sessions
        .iter_mut()
        .find(|known| known.session_id == session.session_id)
    {
        Some(known) => *known = session,
        None => sessions.push(session),
    }
}

fn next_index(segments: &[Segment], names: SinkNames) -> u64 {
    let indices = segments
        .iter()
        .filter_map(|segment| names.segment_index(segment.filename.as_str()?));
    indices.max().map_or(1, |last| last.saturating_add(1))
}

/// Adds the lines that a killed writer wrote after its last manifest to the counts of a segment.
/// These lines begin at byte `size_bytes`, where the segment ended when the manifest was written.
/// If there is no newline before that byte, the manifest describes another file, and the counts
/// stay unchanged.
fn count_what_was_written_early(directory: &Path, segment: &mut Segment) -> io::Result<()> {
    let name = segment.filename.as_str().filter(|name| is_plain_name(name));
    let counted_bytes = u64::try_from(segment.size_bytes).unwrap_or(0);
    let (Some(name), 1..) = (name, counted_bytes) else {
        return Ok(());
    };
    let path = directory.join(name);
    if !is_regular(&path) {
        return Ok(());
    }
    let mut file = open_regular(&path)?;
    let mut before = [0];
    file.seek(SeekFrom::Start(counted_bytes - 1))?;
    if file.read(&mut before)? == 1 && before == *b"\n" {
        let lines = Lines::of(file)?;
        segment.event_count = segment
            .event_count
            .saturating_add(signed(lines.event_count));
        segment.size_bytes = segment.size_bytes.saturating_add(signed(lines.whole_bytes));
    }
    Ok(())
}

/// Makes the manifest entry for a segment that no manifest lists. The entry has no session id;
/// readers take the session from the records of the segment.
fn adopt(directory: &Path, name: &str) -> io::Result<Segment> {
    let lines = Lines::of(open_regular(&directory.join(name))?)?;
    Ok(Segment {
        filename: name.into(),
        event_count: signed(lines.event_count + u64::from(lines.torn_event)),
        size_bytes: signed(lines.whole_bytes + lines.torn_bytes),
        closed: true,
        session_id: None,
        thinned_interval_ns: 0,
    })
}

pub(super) fn segment_names(directory: &Path, names: SinkNames) -> io::Result<Vec<String>> {
    file_names(directory, |name| names.segment_stem(name).is_some())
}

fn file_names(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // Symbolic links are ignored, because a link could lead out of the sink.
        if is_wanted(&name) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}
