//! Reads the current state of sinks that are being written: the samples at the end of the newest
//! segment, and the event counts in the manifest. The number of bytes read from a sink is bounded,
//! however long the run is.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use stormlog_analysis::catalog::event_of_line;
use stormlog_analysis::{artifacts_at, manifest_path, read_manifest, regular_file, segment_paths};
use stormlog_format::{
    Event, EventType, Manifest, SessionStatus, SessionSummary, Text, classify, metadata_keys,
};

use crate::levels::{DeviceId, Labels, Levels};

/// How many bytes are read at the end of a sink's newest segments; this many bytes contain a few
/// hundred events.
const TAIL: u64 = 256 << 10;

/// How many bytes at the start of a session's first segment are read to find the ids of its
/// devices. They are read once per session.
const HEAD: u64 = 64 << 10;

/// A sample is too old to be a current value when it is older than one minute and also older than
/// 20 sampling intervals.
const STALE_NS: i64 = 60_000_000_000;
const STALE_INTERVALS: i64 = 20;

/// Reads sinks. The ids of devices are remembered, because only the first event of a session
/// contains them.
#[derive(Debug, Default)]
pub struct Recordings {
    devices: HashMap<(Text, i64), DeviceId>,
    /// Ids of the sessions whose first segment was already read.
    read_sessions: BTreeSet<String>,
}

impl Recordings {
    /// Adds the current metrics of all sinks below the directory `root`.
    pub fn read_below(&mut self, root: &Path, now_ns: i64, levels: &mut Levels) {
        for sink in artifacts_at(root).unwrap_or_default() {
            self.read_sink(&sink, now_ns, levels);
        }
    }

    /// Adds the current values of a sink. Adds nothing when no session of the sink is running, or
    /// when the last sample is old, because a value that is no longer measured is unknown.
    pub fn read_sink(&mut self, sink: &Path, now_ns: i64, levels: &mut Levels) {
        let Some(manifest) = manifest_path(sink).and_then(|path| read_manifest(&path)) else {
            return;
        };
        let is_running = |session: &&SessionSummary| session.status == SessionStatus::Running;
        let running: Vec<&SessionSummary> = manifest.sessions.iter().filter(is_running).collect();
        if running.is_empty() {
            return;
        }
        let segments = segment_paths(sink);
        for session in &running {
            self.read_beginning(&session.session_id, &manifest, &segments);
        }
        let mut events = tail_of(&segments);
        events.retain(|event| {
            running
                .iter()
                .any(|session| session.session_id == event.session_id)
        });
        let fresh = self.add_latest(&events, now_ns, levels);
        for session in running {
            if fresh.contains(&session.session_id) {
                add_counts(session, &manifest, now_ns, levels);
            }
        }
    }

    /// Adds the latest sample of each track from a list of events that is sorted by time. Returns
    /// the ids of the sessions that have a recent sample.
    pub fn add_latest(
        &mut self,
        events: &[Event],
        now_ns: i64,
        levels: &mut Levels,
    ) -> BTreeSet<Text> {
        let mut fresh = BTreeSet::new();
        let (mut sampled, mut stepped) = (BTreeSet::new(), BTreeSet::new());
        let unknown = DeviceId::default();
        for event in events.iter().rev() {
            let age = now_ns.saturating_sub(event.timestamp_ns);
            let interval = event.sampling_interval_ms.saturating_mul(1_000_000);
            let patience = interval.saturating_mul(STALE_INTERVALS).max(STALE_NS);
            if !classify::is_sample(event.event_type.as_bytes()) || age > patience {
                continue;
            }
            let track = (event.session_id.clone(), event.device_id);
            let device = self.devices.get(&track).unwrap_or(&unknown);
            fresh.insert(event.session_id.clone());
            if sampled.insert(track.clone()) {
                levels.add_sample(event, device);
            }
            if !stepped.contains(&track) && levels.add_steps(event, device) {
                stepped.insert(track);
            }
        }
        fresh
    }

    /// Stores the driver's unique id of a session's device, for the labels of its metrics.
    pub fn know_device(&mut self, session_id: &Text, index: i64, uuid: String) {
        let device = DeviceId { uuid: Some(uuid) };
        self.devices.insert((session_id.clone(), index), device);
    }

    fn read_beginning(&mut self, session: &Text, manifest: &Manifest, segments: &[PathBuf]) {
        if !self
            .read_sessions
            .insert(session.to_str_lossy().into_owned())
        {
            return;
        }
        let mut of_session = manifest.segments.iter();
        let first = of_session.find(|segment| segment.session_id.as_ref() == Some(session));
        let name = first.map(|segment| segment.filename.to_str_lossy());
        let is_first = |path: &&PathBuf| {
            let file_name = path
                .file_name()
                .map(|file_name| file_name.to_string_lossy());
            name.is_none() || file_name == name
        };
        let Some(path) = segments.iter().find(is_first) else {
            // The first segment of the session was not found. It may be so new that the manifest
            // does not list it yet, so the next call tries again.
            self.read_sessions.remove(&*session.to_str_lossy());
            return;
        };
        let events = part_of(path, SeekFrom::Start(0), HEAD).unwrap_or_default();
        for event in events
            .iter()
            .filter(|event| EventType::Start.is(event.event_type.as_bytes()))
        {
            let uuid = event.metadata.text(metadata_keys::DEVICE_UUID);
            if let Some(uuid) = uuid {
                let uuid = uuid.to_str_lossy().into_owned();
                self.know_device(&event.session_id, event.device_id, uuid);
            }
        }
    }
}

/// The events at the end of a sink, in the order in which they were written. Up to two segments are
/// read, because the newest segment may have just begun and contain few events.
fn tail_of(segments: &[PathBuf]) -> Vec<Event> {
    let mut parts = Vec::new();
    let mut left = TAIL;
    for segment in segments.iter().rev().take(2) {
        let size = segment.metadata().map_or(0, |metadata| metadata.len());
        let start = SeekFrom::Start(size.saturating_sub(left));
        parts.push(part_of(segment, start, left).unwrap_or_default());
        left = left.saturating_sub(size);
        if left == 0 {
            break;
        }
    }
    parts.into_iter().rev().flatten().collect()
}

/// Reads a section of a file and returns the events of its complete lines.
fn part_of(path: &Path, start: SeekFrom, most: u64) -> io::Result<Vec<Event>> {
    let mut file = regular_file::open(path)?;
    file.seek(start)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    // A line that is cut at the start or the end of the section is not valid JSON and is skipped.
    let events = lines.filter_map(|line| event_of_line(line).ok()?);
    Ok(events.collect())
}

/// Adds the numbers of recorded and dropped events from the manifest. Events that thinning and
/// retention have removed still count as recorded, so that the number never decreases.
fn add_counts(session: &SessionSummary, manifest: &Manifest, now_ns: i64, levels: &mut Levels) {
    let segments = manifest.segments.iter();
    let kept: i64 = segments.map(|segment| segment.event_count.max(0)).sum();
    let thinned = manifest
        .thinned
        .map_or(0, |thinned| thinned.samples_dropped);
    let pruned = manifest
        .pruned
        .and_then(|pruned| pruned.events)
        .unwrap_or(0);
    let recorded = kept.saturating_add(thinned).saturating_add(pruned);
    levels.add_counts(
        &session_labels(session),
        recorded,
        manifest.dropped_event_count,
        now_ns,
    );
}

/// The labels of a session's metrics: host, job, rank, process id and source.
#[must_use]
pub fn session_labels(session: &SessionSummary) -> Labels {
    Labels::new()
        .with("host", session.host.to_str_lossy())
        .with_known("job_id", session.job_id.as_ref().map(Text::to_str_lossy))
        .with("rank", session.rank)
        .with("pid", session.pid)
        .with("source", session.source.to_str_lossy())
}
