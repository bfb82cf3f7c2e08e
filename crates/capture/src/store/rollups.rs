//! Builds the rollups of a sink while events are written, one rollup per segment, and merges them
//! when the sink is closed.
//!
//! For the rollups, only segments of an earlier process are read back, and only if the rollups of
//! that process are missing or one of its segments was deleted.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use stormlog_format::rollup::{
    Coverage, LineError, Observation, ROLLUP_FILENAME, RollupFile, SegmentRollup, SessionRollup,
    SessionRollupBuilder, events_of_lines, observe_lines,
};
use stormlog_format::{
    Event, EventType, Manifest, Segment, SessionStatus, SessionSummary, Text, file_names, json,
    stable_legacy_session_id,
};

use super::diagnostics::Diagnostics;
use super::segment::is_plain_name;
use crate::clock::now_ns;
use crate::files::{Durability, is_regular, read_regular, replace_file};

/// The largest segment of an earlier process, in bytes, that is read back for rollups.
const MAX_READ_BACK_BYTES: u64 = 1 << 30;

/// Writes `rollups.json` into a directory, which is created when it is missing, and returns the
/// path of the file.
pub fn write_rollups(directory: &Path, rollups: &RollupFile) -> io::Result<PathBuf> {
    std::fs::create_dir_all(directory)?;
    let text = rollups.to_text();
    replace_file(
        directory,
        ROLLUP_FILENAME,
        text.as_bytes(),
        Durability::Disk,
    )?;
    Ok(directory.join(ROLLUP_FILENAME))
}

/// The rollups of the segments of a sink: for every session, a summary of its events in time
/// windows.
#[derive(Debug)]
pub(crate) struct Rollups {
    window_ns: i64,
    /// The rollup of each segment that this sink wrote; other segments must be read for the
    /// rollups.
    parts: HashMap<Text, Part>,
    /// The rollups found when the sink was opened, if they describe the segments that still exist.
    earlier: Option<RollupFile>,
}

/// The rollup of one segment that this sink wrote; all events of the segment belong to one session.
#[derive(Debug)]
struct Part {
    session_id: Text,
    events: SegmentRollup,
}

/// Why `rollups.json` was not written: a segment could not be read, or the file could not be
/// written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RollupFailure {
    #[error("rollups.json was not written, because of an error with '{file}': {source}")]
    Line { file: Text, source: LineError },
    #[error("rollups.json was not written, because of an error with '{file}': {source}")]
    Io { file: Text, source: io::Error },
}

impl Rollups {
    /// Starts with the rollups that an earlier sink wrote, if the directory has any.
    pub(crate) fn open(directory: &Path, window_ns: i64, manifest: &Manifest) -> Self {
        let earlier = read_regular(&directory.join(ROLLUP_FILENAME), MAX_READ_BACK_BYTES)
            .ok()
            .and_then(|text| json::parse(&text).ok())
            .and_then(|document| RollupFile::from_value(&document).ok())
            .filter(|file| file.window_duration_ns == window_ns && file.matches(manifest));
        Self {
            window_ns,
            parts: HashMap::new(),
            earlier,
        }
    }

    /// Adds a new, empty segment of a session to the rollups.
    pub(crate) fn begin(&mut self, segment: &Text, session: &SessionSummary) {
        let part = Part {
            session_id: session.session_id.clone(),
            events: SegmentRollup::new(session.started_at_ns, self.window_ns),
        };
        self.parts.insert(segment.clone(), part);
    }

    /// Adds events that were appended to a segment to the rollup of the segment.
    pub(crate) fn observe(&mut self, segment: &Text, observed: &[Observation]) {
        if let Some(Part { events, .. }) = self.parts.get_mut(segment) {
            events.observe_all(observed);
        }
    }

    /// Adds lines that were appended to a segment to the rollup of the segment.
    pub(crate) fn observe_lines(&mut self, segment: &Text, lines: &[u8]) {
        let Some(Part { session_id, events }) = self.parts.get_mut(segment) else {
            return;
        };
        let mut is_mixed = false;
        let observed = observe_lines(lines, session_id, |owner, event| {
            is_mixed |= owner != session_id.as_bytes();
            events.observe(event);
        });
        // A segment with records of other sessions, or with lines that are not records, is read as
        // a whole when the sink closes.
        if is_mixed || observed.is_err() {
            self.parts.remove(segment);
        }
    }

    /// Removes the rollup of a segment that was deleted.
    pub(crate) fn forget(&mut self, segment: &Text) {
        self.parts.remove(segment);
    }

    /// Writes the rollups of all segments that the manifest lists. For a sink without segments, no
    /// rollups are written.
    pub(crate) fn write(
        &self,
        directory: &Path,
        manifest: &Manifest,
        counts: &Diagnostics,
    ) -> Result<(), RollupFailure> {
        let present: Vec<&Segment> = manifest
            .segments
            .iter()
            .filter(|segment| {
                let name = segment.filename.as_str().filter(|name| is_plain_name(name));
                name.is_some_and(|name| is_regular(&directory.join(name)))
            })
            .collect();
        if present.is_empty() {
            return Ok(());
        }
        let count = |count: u64| i64::try_from(count).ok();
        let file = RollupFile {
            generated_at_ns: now_ns(),
            source_manifest: Some(file_names::MANIFEST.into()),
            source_manifest_schema_version: Some(manifest.schema_version),
            window_duration_ns: self.window_ns,
            coverage: Coverage::of(
                Some(manifest),
                count(counts.pruned_segment_count),
                count(counts.pruned_bytes),
            ),
            sessions: self.sessions(directory, manifest, &present)?,
        };
        let written = write_rollups(directory, &file);
        written.map(drop).map_err(|source| RollupFailure::Io {
            file: ROLLUP_FILENAME.into(),
            source,
        })
    }

    fn sessions(
        &self,
        directory: &Path,
        manifest: &Manifest,
        present: &[&Segment],
    ) -> Result<Vec<SessionRollup>, RollupFailure> {
        let mut merged = Merged {
            directory,
            window_ns: self.window_ns,
            builders: Vec::new(),
        };
        for session in &manifest.sessions {
            merged.add_session(session.clone());
        }
        let reused = self.reusable(directory, manifest, present);
        let covered = reused.map_or(&[][..], |file| &file.coverage.retained_segment_filenames);
        let left = present
            .iter()
            .filter(|segment| !covered.contains(&segment.filename));
        let part_of = |segment: &Segment| {
            let part = self.parts.get(&segment.filename)?;
            let started_at_ns = part.events.started_at_ns();
            merged
                .has_session(&part.session_id, started_at_ns)
                .then_some(part)
        };
        let parts: Vec<(&Segment, Option<&Part>)> =
            left.map(|segment| (*segment, part_of(segment))).collect();
        let unknown = parts.iter().filter(|(_, part)| part.is_none());
        merged.add_strangers(&unknown.map(|(segment, _)| *segment).collect::<Vec<_>>())?;
        for (segment, part) in parts {
            match part {
                Some(part) => merged.add_part(segment, &part.session_id, &part.events),
                None => merged.read(segment)?,
            }
        }
        let mut sessions = merged.finish();
        for earlier in reused.into_iter().flat_map(|file| &file.sessions) {
            let id = &earlier.session.session_id;
            sessions.retain(|session| session.session.session_id != *id);
            sessions.push(earlier.clone());
        }
        sessions.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok(sessions)
    }

    /// The rollups of an earlier sink, if all segments that they describe still exist unchanged.
    fn reusable(
        &self,
        directory: &Path,
        manifest: &Manifest,
        present: &[&Segment],
    ) -> Option<&RollupFile> {
        let earlier = self.earlier.as_ref()?;
        let is_as_it_was = |name: &Text| {
            let segment = present.iter().find(|segment| segment.filename == *name);
            segment.is_some_and(|segment| {
                let path = directory.join(name.to_str_lossy().as_ref());
                let size = std::fs::metadata(path).map(|file| file.len()).ok();
                size == u64::try_from(segment.size_bytes).ok()
            })
        };
        let covered = &earlier.coverage.retained_segment_filenames;
        let covered_bytes: i64 = present
            .iter()
            .filter(|segment| covered.contains(&segment.filename))
            .map(|segment| segment.size_bytes)
            .sum();
        let is_usable = covered.iter().all(is_as_it_was)
            && covered_bytes == earlier.coverage.retained_bytes
            && earlier
                .sessions
                .iter()
                .all(|rollup| manifest.sessions.contains(&rollup.session));
        is_usable.then_some(earlier)
    }
}

/// Builds the rollups of a sink's sessions from the rollups of its segments.
struct Merged<'a> {
    directory: &'a Path,
    window_ns: i64,
    builders: Vec<SessionRollupBuilder>,
}

impl Merged<'_> {
    fn add_session(&mut self, session: SessionSummary) {
        self.builders
            .push(SessionRollupBuilder::new(session, self.window_ns));
    }

    fn builder(&mut self, id: &[u8]) -> Option<&mut SessionRollupBuilder> {
        self.builders
            .iter_mut()
            .find(|builder| builder.session().session_id.as_bytes() == id)
    }

    fn has_session(&self, id: &Text, started_at_ns: i64) -> bool {
        self.builders.iter().any(|builder| {
            let session = builder.session();
            session.session_id == *id && session.started_at_ns == started_at_ns
        })
    }

    fn source(&self, segment: &Segment) -> Text {
        let path = self
            .directory
            .join(segment.filename.to_str_lossy().as_ref());
        path.to_string_lossy().as_ref().into()
    }

    fn add_part(&mut self, segment: &Segment, id: &Text, events: &SegmentRollup) {
        let source = self.source(segment);
        if let Some(builder) = self.builder(id.as_bytes()) {
            builder.merge(events);
            builder.add_source(source);
        }
    }

    /// Reads a segment from disk and adds its events to the rollups of their sessions.
    fn read(&mut self, segment: &Segment) -> Result<(), RollupFailure> {
        let source = self.source(segment);
        let mut owners: Vec<Text> = Vec::new();
        let lines = Lines::read(self.directory, segment)?;
        lines.observe(|id, event| {
            if !owners.iter().any(|owner| owner.as_bytes() == id) {
                owners.push(Text::from_bytes(id));
            }
            if let Some(builder) = self.builder(id) {
                builder.observe(event);
            }
        })?;
        // A segment without events belongs to the session for which it was created.
        if owners.is_empty() {
            owners.push(lines.owner);
        }
        for owner in owners {
            if let Some(builder) = self.builder(owner.as_bytes()) {
                builder.add_source(source.clone());
            }
        }
        Ok(())
    }

    /// Adds the sessions that occur in the events of segments but not in the manifest. The time
    /// windows of a rollup count from the start of a session, so all sessions must be known before
    /// any event is counted.
    fn add_strangers(&mut self, segments: &[&Segment]) -> Result<(), RollupFailure> {
        let mut strangers: Vec<Stranger> = Vec::new();
        for segment in segments {
            let lines = Lines::read(self.directory, segment)?;
            let mut has_strangers = false;
            lines.observe(|id, _| has_strangers |= self.builder(id).is_none())?;
            if !has_strangers {
                continue;
            }
            lines.events(|event| {
                let id = &event.session_id;
                if self.builder(id.as_bytes()).is_some() {
                    return;
                }
                match strangers
                    .iter_mut()
                    .find(|known| known.first.session_id == *id)
                {
                    Some(known) => known.note(event),
                    None => strangers.push(Stranger::new(event)),
                }
            })?;
        }
        let name = self.directory.file_name().unwrap_or_default();
        let source: Text = format!("artifact:{}", name.to_string_lossy()).into();
        for stranger in strangers {
            self.add_session(stranger.summary(source.clone()));
        }
        Ok(())
    }

    fn finish(self) -> Vec<SessionRollup> {
        let directory = absolute(self.directory);
        let finished = self.builders.into_iter().map(|builder| {
            let mut rollup = builder.finish();
            if rollup.sources_loaded.is_empty() {
                rollup.sources_loaded.push(directory.clone());
                rollup.source_count = 1;
            }
            rollup
        });
        finished.collect()
    }
}

/// The text of a segment, and the session to which its records without a session id belong.
struct Lines<'a> {
    segment: &'a Segment,
    owner: Text,
    text: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn read(directory: &Path, segment: &'a Segment) -> Result<Self, RollupFailure> {
        let path = directory.join(segment.filename.to_str_lossy().as_ref());
        let failure = |source| RollupFailure::Io {
            file: segment.filename.clone(),
            source,
        };
        let unnamed = || stable_legacy_session_id(&[absolute(directory), "sink".into()]);
        Ok(Self {
            segment,
            owner: segment.session_id.clone().unwrap_or_else(unnamed),
            text: read_regular(&path, MAX_READ_BACK_BYTES).map_err(failure)?,
        })
    }

    fn observe(&self, take: impl FnMut(&[u8], &Observation)) -> Result<(), RollupFailure> {
        observe_lines(&self.text, &self.owner, take).map_err(|source| self.failure(source))
    }

    fn events(&self, take: impl FnMut(Event)) -> Result<(), RollupFailure> {
        events_of_lines(&self.text, &self.owner, take).map_err(|source| self.failure(source))
    }

    fn failure(&self, source: LineError) -> RollupFailure {
        RollupFailure::Line {
            file: self.segment.filename.clone(),
            source,
        }
    }
}

/// A session that the manifest does not list. Its summary is made from its earliest event and its
/// last `stop` event.
struct Stranger {
    first: Event,
    stop_ns: Option<i64>,
}

impl Stranger {
    fn new(event: Event) -> Self {
        let mut stranger = Self {
            stop_ns: None,
            first: event.clone(),
        };
        stranger.note(event);
        stranger
    }

    fn note(&mut self, event: Event) {
        if event.event_type == EventType::Stop.as_str() {
            self.stop_ns = self.stop_ns.max(Some(event.timestamp_ns));
        }
        if event.timestamp_ns < self.first.timestamp_ns {
            self.first = event;
        }
    }

    fn summary(self, source: Text) -> SessionSummary {
        let status = match self.stop_ns {
            Some(_) => SessionStatus::Completed,
            None => SessionStatus::Incomplete,
        };
        SessionSummary {
            session_id: self.first.session_id,
            status,
            started_at_ns: self.first.timestamp_ns,
            ended_at_ns: self.stop_ns,
            host: self.first.host,
            pid: self.first.pid,
            job_id: self.first.job_id,
            rank: self.first.rank,
            local_rank: self.first.local_rank,
            world_size: self.first.world_size,
            source,
            recorder: None,
        }
    }
}

/// The absolute path of a sink's directory, with links resolved. For records without a session id,
/// a session id is computed from this path.
fn absolute(path: &Path) -> Text {
    let resolved = path.canonicalize().or_else(|_| std::path::absolute(path));
    let resolved = resolved.unwrap_or_else(|_| path.to_path_buf());
    resolved.to_string_lossy().as_ref().into()
}
