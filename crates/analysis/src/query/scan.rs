//! Reads only the part of a sink that a query needs: segments of other sessions and, where a
//! fresh rollup has their times, of other times are not opened, events that do not match are
//! dropped where they are read, and a limit ends the reading.
//!
//! This takes the manifest's word for whose a segment is, and the recorder's for the order
//! of its lines. In a small sink neither saves time, so there every line is read and both
//! are found out.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use stormlog_format::json::parse;
use stormlog_format::rollup::RollupFile;
use stormlog_format::{Manifest, SessionSummary, Text, Value};

use super::catalog::{Source, SourceKind};
use super::events::EventFilter;
use crate::columns::{EventRef, Events};
use crate::load::{Damage, LoadOptions, OnError, load_matching, open};

/// Sinks of fewer bytes are read as a whole.
const WORTH_SKIPPING: u64 = 8 << 20;

/// A first line longer than this is no record.
const LONGEST_FIRST_LINE: u64 = 1 << 20;

/// The wanted events of one session of a sink.
pub(crate) struct Scanned<'a> {
    pub(crate) summary: &'a SessionSummary,
    /// The first file of the session.
    pub(crate) file: PathBuf,
    pub(crate) events: Events,
}

/// A segment and the session that the manifest gives it to.
struct Segment<'a> {
    file: &'a PathBuf,
    session: &'a SessionSummary,
}

/// The wanted events of a sink, by session, and what could not be read. `None` when
/// the sink has to be loaded as a whole: when its manifest does not name the session of a
/// segment, or names the wrong one.
pub(crate) fn scan<'a>(
    source: &'a Source,
    rollups: Option<&RollupFile>,
    filter: &EventFilter,
) -> Option<(Vec<Scanned<'a>>, Vec<Damage>)> {
    let manifest = source.manifest.as_ref()?;
    let is_large = || {
        let sizes = source.event_paths.iter();
        let sizes = sizes.filter_map(|file| Some(file.metadata().ok()?.len()));
        sizes.sum::<u64>() >= WORTH_SKIPPING
    };
    if source.kind != SourceKind::Sink || manifest.schema_version < 2 || !is_large() {
        return None;
    }
    let segments: Vec<Segment<'a>> = source
        .event_paths
        .iter()
        .map(|file| {
            let session = session_of(manifest, file)?;
            Some(Segment { file, session })
        })
        .collect::<Option<_>>()?;
    let first_file: BTreeMap<&Text, PathBuf> = segments
        .iter()
        .rev()
        .map(|segment| (&segment.session.session_id, segment.file.clone()))
        .collect();
    let mut wanted: Vec<&Segment<'a>> = segments
        .iter()
        .filter(|segment| is_wanted(segment.session, rollups, filter))
        .collect();
    let (mut events, damage) = match filter.limit {
        None => read(source, manifest, &wanted, filter)?,
        Some(limit) => {
            wanted.sort_by_cached_key(|segment| first_time(segment.file));
            read_first(source, manifest, &wanted, filter, limit)?
        }
    };
    // Of events that happened together, those of the first file come first.
    events.sort_by_key(|(segment, _)| segment.file);
    let mut sessions: BTreeMap<&Text, (&SessionSummary, Vec<Events>)> = BTreeMap::new();
    for (segment, events) in events {
        let id = &segment.session.session_id;
        let entry = sessions.entry(id).or_insert((segment.session, Vec::new()));
        entry.1.push(events);
    }
    // In the order in which a loaded sink lists its sessions.
    let mut scanned: Vec<Scanned<'a>> = sessions
        .into_iter()
        .filter_map(|(id, (summary, parts))| {
            Some(Scanned {
                summary,
                file: first_file.get(id)?.clone(),
                events: Events::merged(&parts.iter().collect::<Vec<_>>()),
            })
        })
        .collect();
    scanned.sort_by(|a, b| a.summary.selection_key().cmp(&b.summary.selection_key()));
    Some((scanned, damage))
}

/// The session that the manifest gives a segment to.
pub(super) fn session_of<'a>(manifest: &'a Manifest, file: &Path) -> Option<&'a SessionSummary> {
    let name = file.file_name()?.to_string_lossy();
    let listed = manifest
        .segments
        .iter()
        .rfind(|segment| segment.filename.to_str_lossy() == name)?;
    let id = listed.session_id.as_ref()?;
    let mut sessions = manifest.sessions.iter();
    sessions.rfind(|session| session.session_id == *id)
}

pub(super) fn is_wanted(
    session: &SessionSummary,
    rollups: Option<&RollupFile>,
    filter: &EventFilter,
) -> bool {
    let same =
        |wanted: &Option<Text>, given: &str| wanted.as_ref().is_none_or(|wanted| *wanted == given);
    let id = filter.session_id.as_ref();
    id.is_none_or(|id| *id == session.session_id)
        && same(&filter.status, session.status.as_str())
        && !is_of_another_time(session, rollups, filter)
}

/// Whether all events of a session are known to lie outside the wanted time.
fn is_of_another_time(
    session: &SessionSummary,
    rollups: Option<&RollupFile>,
    filter: &EventFilter,
) -> bool {
    let mut sessions = rollups.iter().flat_map(|rollups| &rollups.sessions);
    let Some(known) = sessions.find(|known| known.session.session_id == session.session_id) else {
        return false;
    };
    let ends_before = filter
        .time_start_ns
        .zip(known.last_timestamp_ns)
        .is_some_and(|(start, last)| last < start);
    let starts_after = filter
        .time_end_ns
        .zip(known.first_timestamp_ns)
        .is_some_and(|(end, first)| first > end);
    ends_before || starts_after
}

/// Segments with what was wanted of them, and what could not be read.
type Found<'s, 'a> = (Vec<(&'s Segment<'a>, Events)>, Vec<Damage>);

/// Reads segments in parallel.
fn read<'s, 'a>(
    source: &Source,
    manifest: &Manifest,
    segments: &[&'s Segment<'a>],
    filter: &EventFilter,
) -> Option<Found<'s, 'a>> {
    let mut by_session: BTreeMap<&Text, Vec<&'s Segment<'a>>> = BTreeMap::new();
    for segment in segments {
        let id = &segment.session.session_id;
        by_session.entry(id).or_default().push(segment);
    }
    let (mut found, mut damage) = (Vec::new(), Vec::new());
    for (id, segments) in by_session {
        let files = segments.iter().map(|segment| segment.file.clone());
        let strays = AtomicBool::new(false);
        let keep = |event: EventRef<'_>| {
            if event.origin().session_id != *id {
                strays.store(true, Ordering::Relaxed);
            }
            filter.accepts(event)
        };
        let options = LoadOptions {
            on_error: OnError::Skip,
            ..LoadOptions::default()
        };
        let outcome = load_matching(&source.path, manifest, files.collect(), &options, &keep);
        let (events, harm) = outcome.ok()?;
        if strays.into_inner() {
            return None;
        }
        let events = Events::merged(&events.iter().collect::<Vec<_>>());
        found.extend(segments.first().map(|segment| (*segment, events)));
        damage.extend(harm);
    }
    Some((found, damage))
}

/// Reads segments by their first times until what comes later cannot be among the first.
fn read_first<'s, 'a>(
    source: &Source,
    manifest: &Manifest,
    segments: &[&'s Segment<'a>],
    filter: &EventFilter,
    limit: usize,
) -> Option<Found<'s, 'a>> {
    let (mut found, mut damage) = (Vec::new(), Vec::new());
    let mut times: Vec<i64> = Vec::new();
    for segment in segments {
        let starts = first_time(segment.file);
        times.sort_unstable();
        times.truncate(limit);
        let latest = times.last().filter(|_| times.len() >= limit);
        // A segment is written in the order of time: nothing in it is before its first line.
        if limit == 0 || latest.is_some_and(|latest| starts.is_some_and(|starts| starts > *latest))
        {
            break;
        }
        let (events, harm) = read(source, manifest, &[segment], filter)?;
        damage.extend(harm);
        for (segment, events) in events {
            times.extend(events.iter().map(EventRef::timestamp_ns));
            found.push((segment, events));
        }
    }
    Some((found, damage))
}

/// The time of a segment's first record, decompressed where need be.
pub(super) fn first_time(file: &Path) -> Option<i64> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(open(file).ok()?.reader.take(LONGEST_FIRST_LINE));
    reader.read_until(b'\n', &mut line).ok()?;
    time_of(&line)
}

/// How much of a segment's end is looked at for its last record.
const TAIL_BYTES: u64 = 1 << 16;

/// The time of the last whole record of a segment that is not compressed.
pub(super) fn last_time(file: &Path) -> Option<i64> {
    let mut file = crate::regular_file::open(file).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    tail.split(|byte| *byte == b'\n').rev().find_map(time_of)
}

fn time_of(line: &[u8]) -> Option<i64> {
    let Ok(Value::Map(record)) = parse(line) else {
        return None;
    };
    record.get("timestamp_ns")?.as_int()
}
