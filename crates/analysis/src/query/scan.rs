//! Reads only the part of a sink that a query needs. Segments of other sessions are not opened. If
//! the rollups are up to date, segments of sessions outside the query's time span are not opened
//! either. Events that do not match the query are dropped while reading, and reading stops at the
//! query's limit.
//!
//! The scan assumes that the manifest names the session of each segment, and that the recorder
//! wrote the lines of a segment in order of time. A small sink is read completely instead, because
//! skipping segments saves little time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use stormlog_format::rollup::RollupFile;
use stormlog_format::{Manifest, SessionSummary, Text};

use super::catalog::{Source, SourceKind};
use super::events::EventFilter;
use super::filter::fits;
use super::stream::size_of;
use crate::columns::{EventRef, Events};
use crate::damage::Damage;
use crate::load::{Hints, LoadOptions, load_matching};
use crate::segment_times::first_time;

/// Sinks (recording folders) with fewer bytes than this are read completely.
const WORTH_SKIPPING: u64 = 8 << 20;

/// The events of one session in a sink that match a query.
pub(crate) struct Scanned<'a> {
    pub(crate) summary: &'a SessionSummary,
    /// The first file of the session.
    pub(crate) file: PathBuf,
    pub(crate) events: Events,
}

/// A segment (one file of a sink), and the session that the manifest names for it.
struct Segment<'a> {
    file: &'a PathBuf,
    session: &'a SessionSummary,
}

/// The events of a sink that match the query, by session, and the damage. `None` when the sink must
/// be loaded completely, because its manifest names no session for a segment, or names the wrong
/// one.
pub(crate) fn scan<'a>(
    source: &'a Source,
    rollups: Option<&RollupFile>,
    filter: &EventFilter,
) -> Option<(Vec<Scanned<'a>>, Vec<Damage>)> {
    let manifest = source.manifest.as_ref()?;
    let is_large = || size_of(source) >= WORTH_SKIPPING;
    if source.kind != SourceKind::Sink || manifest.schema_version < 2 || !is_large() {
        return None;
    }
    let hints = Hints::of(Some(manifest));
    let segments: Vec<Segment<'a>> = source
        .event_paths
        .iter()
        .map(|file| {
            let session = session_of(manifest, &hints, file)?;
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
    // The lists of events are sorted by the path of their segment, so that of events with equal
    // times, those of the first segment come first.
    events.sort_by_key(|(segment, _)| segment.file);
    let mut sessions: BTreeMap<&Text, (&SessionSummary, Vec<Events>)> = BTreeMap::new();
    for (segment, events) in events {
        let id = &segment.session.session_id;
        let entry = sessions.entry(id).or_insert((segment.session, Vec::new()));
        entry.1.push(events);
    }
    // The sessions have the same order as when the sink is loaded completely.
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

/// The session that the manifest of a sink names for a segment, one of the sink's files; `None`
/// when the manifest names none.
pub(super) fn session_of<'a>(
    manifest: &'a Manifest,
    hints: &Hints<'_>,
    file: &Path,
) -> Option<&'a SessionSummary> {
    let id = hints.session(file)?;
    let mut sessions = manifest.sessions.iter();
    sessions.rfind(|session| session.session_id == *id)
}

pub(super) fn is_wanted(
    session: &SessionSummary,
    rollups: Option<&RollupFile>,
    filter: &EventFilter,
) -> bool {
    fits(filter.session_id.as_ref(), Some(&session.session_id))
        && filter.accepts_status(session.status.as_str())
        && !is_of_another_time(session, rollups, filter)
}

/// Whether all events of a session are known to be outside the time span of the query.
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

/// Lists of events that match a query, and the places that could not be read (damage). Each list
/// was read from one or more segments, and is stored with the first of them.
type Found<'s, 'a> = (Vec<(&'s Segment<'a>, Events)>, Vec<Damage>);

/// Reads the matching events of segments in parallel. `None` when a segment cannot be read, or
/// contains events of another session than the manifest says.
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
        let options = LoadOptions::skipping();
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

/// Reads segments in order of their first events, until the remaining segments cannot contain any
/// of the first `limit` events.
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
        // A segment is written in order of time, so no event of a segment is earlier than its first
        // line.
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
