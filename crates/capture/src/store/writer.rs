//! The writer of a sink: it buffers and flushes events, starts new segments, deletes old segments
//! and closes the sink.
//!
//! The writer of a sink starts no thread and waits for none. A failed call leaves the writer
//! unchanged, so that the call can be repeated: lines stay buffered until they are in a segment.

mod manifest_pace;
mod segments;
mod thin;
mod unsynced;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, Instant};

use stormlog_format::rollup::Observation;
use stormlog_format::{
    Event, Pruned, Rewriting, Segment, SessionStatus, SessionSummary, SinkNames, Text, Thinned,
    signed,
};

use self::manifest_pace::ManifestState;
pub(crate) use self::unsynced::Batch;
use self::unsynced::Unsynced;
use super::config::SinkConfig;
use super::diagnostics::Diagnostics;
use super::error::SinkError;
use super::fork::Holder;
use super::lock::{self, Claim, Claimed, Lock};
use super::recorder_mark::{mark_recorder, remove_recorder_mark};
use super::recover::{recover, upsert};
use super::reserve::reserve;
use super::rollups::Rollups;
use super::segment::{AppendError, SegmentWriter};
use super::session::new_session;
use crate::clock::now_ns;
use crate::files::Durability;
use crate::kept_file::KeptFile;
use stormlog_redact::LineFilter;

/// The largest number of bytes that are buffered while the disk accepts no writes, enough for about
/// twenty thousand events. When the buffer is full, further events are dropped and counted, because
/// the watched program needs the memory.
const MAX_BUFFERED_BYTES: usize = 8 << 20;

/// How long the writer waits after a first failed write. The wait doubles with each further
/// failure, up to [`LONGEST_BACK_OFF`].
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(5);

/// How soon the manifest is replaced when its counts of events no longer match the segments.
const CATCH_UP: Duration = Duration::from_millis(50);

/// The part of a sink that writes files; only one thread uses it at a time.
#[derive(Debug)]
pub(crate) struct Writer {
    config: SinkConfig,
    directory: PathBuf,
    claim: Claim,
    sessions: Vec<SessionSummary>,
    active: Option<Text>,
    segments: Vec<Segment>,
    next_index: u64,
    open: Option<SegmentWriter>,
    buffer: String,
    /// How many bytes at the start of the buffer were already filtered for secrets.
    filtered_bytes: usize,
    filter: LineFilter,
    buffered_events: u64,
    /// How many events [`write_early`](Self::write_early) has written to the segment since the last
    /// flush. The next flush updates the manifest for them.
    early_events: u64,
    /// What the rollups need from the buffered events. If an entry is missing for any buffered
    /// event, the buffered lines are parsed for the rollups instead.
    observations: Vec<Observation>,
    dropped_events: u64,
    earlier_dropped_events: i64,
    lost_events: u64,
    last_flush: Instant,
    counts: Diagnostics,
    manifest: ManifestState,
    unsynced: Unsynced,
    thinned: Thinned,
    pruned: Pruned,
    pruned_sessions: i64,
    /// The rewrite of segments by thinning that the manifest announces and that is not finished.
    rewriting: Option<Rewriting>,
    /// The file names of the segments that thinning rewrites at the moment.
    in_work: Vec<Text>,
    /// When thinning may be tried again after a failure, and how long the last wait was.
    thin_again: Option<(Instant, Duration)>,
    failure: Option<Failure>,
    /// The rollups, which are built while events are written; `None` if they are disabled.
    rollups: Option<Rollups>,
    notices: Vec<String>,
    /// Disk space that is reserved during a session, so that the last manifest can be written on a
    /// full disk.
    reserve: Option<KeptFile>,
    /// The object that ends the session when another sink of this process takes the directory over.
    holder: Option<Weak<dyn Holder>>,
    /// Whether the program closed the sink's file descriptors. The writer reports closed
    /// descriptors only the first time.
    was_closed: bool,
}

#[derive(Clone, Debug)]
struct Failure {
    message: String,
    back_off: Duration,
    retry_at: Instant,
}

/// When a flush writes the buffered events, and whether it waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Writes the buffered events only if enough events are buffered or enough time has passed
    /// since the last flush.
    IfDue,
    /// Writes all buffered events and waits for the disk.
    Now,
    /// Writes all buffered events to the operating system only, so that a killed process loses none
    /// of them. The next regular flush updates the manifest and waits for the disk.
    Early,
}

impl Writer {
    /// Opens a sink: claims its directory, or a sibling when another process records into that
    /// directory, and repairs the files in it.
    pub(crate) fn open(config: SinkConfig) -> Result<Self, SinkError> {
        let Claimed { directory, claim } =
            lock::claim(&config.root_dir).map_err(SinkError::io("open", &config.root_dir))?;
        let segments_lock = claim.segments();
        let replacing = segments_lock.take();
        let recovered = recover(&directory, config.names, now_ns())
            .map_err(SinkError::io("read", &directory))?;
        for name in &recovered.leftovers {
            // If a superfluous file cannot be deleted, the next sink in the directory deletes it.
            let _ = std::fs::remove_file(directory.join(name));
        }
        drop(replacing);
        let config = SinkConfig {
            thinning: config.thinning.or(recovered.thinning),
            ..config
        };
        let now = Instant::now();
        let mut writer = Self {
            config,
            directory,
            claim,
            sessions: recovered.sessions,
            active: None,
            segments: recovered.segments,
            next_index: recovered.next_index.max(1),
            open: None,
            buffer: String::new(),
            filtered_bytes: 0,
            filter: LineFilter::default(),
            buffered_events: 0,
            early_events: 0,
            observations: Vec::new(),
            dropped_events: 0,
            earlier_dropped_events: recovered.dropped_event_count,
            lost_events: 0,
            last_flush: now,
            counts: Diagnostics::default(),
            manifest: ManifestState::new(recovered.needs_manifest),
            unsynced: Unsynced::new(),
            thinned: recovered.thinned,
            pruned: recovered.pruned,
            pruned_sessions: recovered.pruned_sessions,
            rewriting: None,
            in_work: Vec::new(),
            thin_again: None,
            failure: None,
            rollups: None,
            notices: Vec::new(),
            reserve: None,
            holder: None,
            was_closed: false,
        };
        writer.notices.extend(writer.notice_of_redirection());
        if writer.config.write_rollups && writer.config.names == SinkNames::Ordinary {
            let window_ns = signed(writer.config.rollup_window.as_nanos());
            writer.rollups = Some(Rollups::open(
                &writer.directory,
                window_ns,
                &writer.manifest(),
            ));
        }
        if writer.manifest.stale {
            writer.write_manifest(Durability::Disk)?;
        }
        Ok(writer)
    }

    /// The directory that the sink writes to: the configured one, or a sibling when another process
    /// uses the configured one.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A log message, if this sink uses a sibling directory because another process uses the
    /// requested one.
    fn notice_of_redirection(&self) -> Option<String> {
        (self.directory != self.config.root_dir).then(|| {
            format!(
                "another process records into '{wanted}'; this one records into '{used}'",
                wanted = self.config.root_dir.display(),
                used = self.directory.display()
            )
        })
    }

    /// Sets the object that ends the session when another sink of this process takes the directory
    /// over.
    pub(crate) fn set_holder(&mut self, holder: Weak<dyn Holder>) {
        self.claim.set_holder(holder.clone());
        self.holder = Some(holder);
    }

    /// Writes buffered lines, ends the session and leaves the directory to another sink of this
    /// process.
    pub(crate) fn hand_over(&mut self) {
        if self.active.is_some() && self.close(SessionStatus::Interrupted).is_err() {
            let _ = self.give_up(SessionStatus::Interrupted);
        }
        self.claim.release();
        self.notices.push(taken_over(&self.directory));
    }

    /// Removes and returns the log messages of the sink that were not fetched yet.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Makes a session the active one; if a session is already active, it stays the active one.
    pub(crate) fn start_session(
        &mut self,
        summary: Option<SessionSummary>,
    ) -> Result<SessionSummary, SinkError> {
        if let Some(session) = self.current_session() {
            return Ok(session.clone());
        }
        self.check_claim()?;
        let mut session = summary.unwrap_or_else(|| new_session(None));
        session.status = SessionStatus::Running;
        session.ended_at_ns = None;
        if session.recorder.is_none() {
            // The mark is written before the manifest, so that every reader of the manifest finds
            // the mark.
            mark_recorder(&self.directory, &session.session_id);
        }
        let (sessions, active) = (self.sessions.clone(), session.session_id.clone());
        upsert(&mut self.sessions, session.clone());
        self.forget_sessions_without_segments();
        if let Err(error) = self.write_manifest(Durability::System) {
            self.sessions = sessions;
            return Err(error);
        }
        self.active = Some(active);
        self.reserve = reserve(&self.directory);
        Ok(session)
    }

    /// The session that is recorded at the moment; `None` when there is none.
    pub(crate) fn current_session(&self) -> Option<&SessionSummary> {
        let mut sessions = self.sessions.iter();
        sessions.find(|session| Some(&session.session_id) == self.active.as_ref())
    }

    /// Checks that the session of a record is the active session; begins the record's session when
    /// none is active.
    pub(crate) fn enter_session(&mut self, session_id: Option<&[u8]>) -> Result<(), SinkError> {
        match (&self.active, session_id) {
            (Some(active), Some(named)) if active.as_bytes() != named => {
                Err(SinkError::SessionMismatch)
            }
            (Some(_), _) => Ok(()),
            (None, named) => {
                let named = named.filter(|id| !id.is_empty()).map(Text::from_bytes);
                self.start_session(Some(new_session(named)))?;
                Ok(())
            }
        }
    }

    /// Buffers a record of the active session, given as a line without its newline, and flushes
    /// when a flush is due. Without an `observation`, the line is parsed for the rollups.
    pub(crate) fn append(
        &mut self,
        line: &str,
        observation: Option<Observation>,
    ) -> Result<(), SinkError> {
        self.check_room(line.len())?;
        self.push(line, observation);
        self.flush_when_due()
    }

    /// Buffers one event of the active session, and flushes when a flush is due.
    pub(crate) fn append_event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.check_room(0)?;
        event.push_line(&mut self.buffer);
        self.buffer.push('\n');
        self.buffered_events += 1;
        if self.rollups.is_some() {
            self.observations.push(Observation::of(event));
        }
        self.flush_when_due()
    }

    fn flush_when_due(&mut self) -> Result<(), SinkError> {
        if self.is_due() && !self.is_backing_off() {
            self.flush(Flush::IfDue)?;
        }
        Ok(())
    }

    /// When the disk accepts no writes and the buffer is full, counts an event as dropped and
    /// returns an error.
    fn check_room(&mut self, more_bytes: usize) -> Result<(), SinkError> {
        if self.buffer.len() + more_bytes < MAX_BUFFERED_BYTES || self.failure.is_none() {
            return Ok(());
        }
        self.dropped_events += 1;
        self.manifest.stale = true;
        Err(SinkError::BufferFull {
            directory: self.directory.clone(),
            dropped: self.dropped_events,
        })
    }

    /// Buffers a record if nothing else needs to be done: the record's session is active, and no
    /// flush is due. If more than buffering is needed, the function returns false and does nothing.
    pub(crate) fn buffer_only(
        &mut self,
        session_id: Option<&[u8]>,
        line: &str,
        observation: &mut Option<Observation>,
    ) -> bool {
        let is_active = self
            .active
            .as_ref()
            .is_some_and(|active| session_id.is_none_or(|named| named == active.as_bytes()));
        let is_last = self.buffered_events + 1 >= self.config.flush_every_events;
        if !is_active || is_last || self.failure.is_some() || self.is_due() {
            return false;
        }
        self.push(line, observation.take());
        true
    }

    fn push(&mut self, line: &str, observation: Option<Observation>) {
        self.buffer.push_str(line);
        self.buffer.push('\n');
        self.buffered_events += 1;
        if self.rollups.is_some() {
            self.observations.extend(observation);
        }
    }

    fn is_due(&self) -> bool {
        self.unflushed_events() >= self.config.flush_every_events
            || self.last_flush.elapsed() >= self.config.flush_every
    }

    /// How many events were recorded since the last flush.
    fn unflushed_events(&self) -> u64 {
        self.buffered_events + self.early_events
    }

    /// Whether the last write failed so recently that the next write would probably fail too.
    pub(crate) fn is_backing_off(&self) -> bool {
        let failure = self.failure.as_ref();
        failure.is_some_and(|failure| Instant::now() < failure.retry_at)
    }

    /// Why the last write or the last sync failed; `None` after it has succeeded.
    pub(crate) fn failure(&self) -> Option<&str> {
        let failure = self.failure.as_ref();
        failure
            .map(|failure| failure.message.as_str())
            .or(self.unsynced.failure())
    }

    /// Writes the buffered lines to the segment file and updates the manifest. With
    /// [`Flush::IfDue`], nothing is done before a flush is due, and the manifest may be updated
    /// later by [`tick`](Self::tick).
    pub(crate) fn flush(&mut self, flush: Flush) -> Result<(), SinkError> {
        let is_needed = match flush {
            Flush::IfDue => self.unflushed_events() > 0 && self.is_due(),
            Flush::Early => self.unflushed_events() > 0,
            Flush::Now => {
                self.unflushed_events() > 0 || self.is_behind() || self.unsynced.has_unreported()
            }
        };
        if !is_needed {
            return Ok(());
        }
        self.check_claim()?;
        let result = if flush == Flush::Now {
            self.write_to_disk().and_then(|()| {
                let unreported = self.unsynced.take_unreported();
                self.lost(unreported)
            })
        } else {
            self.write_buffer(flush)
        };
        self.noted(result)
    }

    /// The error of an earlier sync in the background, as the result of a forced flush or a close.
    fn lost(&self, unreported: Option<io::Error>) -> Result<(), SinkError> {
        unreported
            .map_or(Ok(()), Err)
            .map_err(SinkError::io("write to", &self.directory))
    }

    /// Writes the buffered lines, waits until all segments are on disk, and updates the manifest.
    fn write_to_disk(&mut self) -> Result<(), SinkError> {
        if self.unflushed_events() > 0 {
            self.write_buffer(Flush::Now)?;
        }
        self.unsynced
            .sync()
            .map_err(SinkError::io("write to", &self.directory))?;
        if self.manifest.stale {
            self.write_manifest(Durability::System)?;
        }
        Ok(())
    }

    /// Writes buffered lines to the segment before their flush is due. The first events of a
    /// segment are flushed instead of written early, because a reader finds a segment only through
    /// the manifest.
    pub(crate) fn write_early(&mut self) -> Result<(), SinkError> {
        if self.buffered_events == 0 || self.failure.is_some() {
            return Ok(());
        }
        self.check_claim()?;
        let is_listed = self.open.is_some() && self.segments.last().is_some_and(is_begun);
        let result = self.write_buffer(if is_listed {
            Flush::Early
        } else {
            Flush::IfDue
        });
        self.noted(result)
    }

    fn write_buffer(&mut self, flush: Flush) -> Result<(), SinkError> {
        if flush != Flush::Early {
            self.last_flush = Instant::now();
        }
        self.keep_lock()?;
        self.open_segment()?;
        // The buffer is empty when all lines were already written ahead of the flush.
        if !self.buffer.is_empty() {
            // All records pass the filter for secrets, so a secret that a program puts into its
            // metadata is not written.
            self.filter_buffer();
            self.append_buffer()?;
        }
        let Some(open) = &self.open else {
            return Ok(());
        };
        let size = signed(open.size_bytes());
        let (path, file) = (open.path().to_path_buf(), open.file());
        let events = signed(self.buffered_events);
        if let (Some(rollups), Some(segment)) = (&mut self.rollups, self.segments.last()) {
            if self.observations.len() as u64 == self.buffered_events {
                rollups.observe(&segment.filename, &self.observations);
            } else {
                rollups.observe_lines(&segment.filename, self.buffer.as_bytes());
            }
        }
        self.observations.clear();
        self.buffer.clear();
        self.filtered_bytes = 0;
        self.early_events += std::mem::take(&mut self.buffered_events);
        let mut is_full = false;
        let most_bytes = self.config.segment_bytes();
        if let Some(segment) = self.segments.last_mut() {
            segment.event_count += events;
            segment.size_bytes = size;
            is_full = segment.event_count >= signed(self.config.rollover_max_events)
                || segment.size_bytes >= signed(most_bytes);
        }
        if flush == Flush::Early && !is_full {
            return Ok(());
        }
        self.early_events = 0;
        self.unsynced.add(&path, file);
        if is_full {
            self.close_segment();
            self.counts.rollover_count += 1;
        }
        self.prune();
        self.manifest.stale = true;
        // A flush that waits for the disk updates the manifest after the wait.
        if flush != Flush::Now && self.may_write_manifest() {
            self.write_manifest(Durability::System)?;
        }
        Ok(())
    }

    /// Replaces secrets in the buffered lines; each line is filtered only once, even if its write
    /// is tried again.
    fn filter_buffer(&mut self) {
        let unfiltered = &self.buffer[self.filtered_bytes..];
        if let Some(hidden) = self.filter.redacted(unfiltered) {
            self.buffer.truncate(self.filtered_bytes);
            self.buffer.push_str(&hidden);
        }
        self.filtered_bytes = self.buffer.len();
    }

    /// Appends the buffered lines to the file of the open segment.
    fn append_buffer(&mut self) -> Result<(), SinkError> {
        let mut is_again = false;
        loop {
            let Some(open) = &mut self.open else {
                return Ok(());
            };
            let Err(error) = open.append(self.buffer.as_bytes()) else {
                return Ok(());
            };
            let path = open.path().to_path_buf();
            let source = match error {
                AppendError::Clean(source) => source,
                AppendError::Torn(source) => {
                    self.give_up_segment();
                    source
                }
                AppendError::Closed(source) => {
                    self.note_closed();
                    // The program closed the descriptor of the segment, but the segment file is
                    // unchanged, so it is opened again.
                    self.open = None;
                    if !is_again {
                        is_again = true;
                        self.open_segment()?;
                        continue;
                    }
                    source
                }
            };
            return Err(SinkError::io("write to", &path)(source));
        }
    }

    /// Locks the directory of the sink again if the watched program closed the file descriptor that
    /// held the lock.
    fn keep_lock(&mut self) -> Result<(), SinkError> {
        match self.claim.keep_lock(&self.directory) {
            Ok(Lock::Kept) => {}
            Ok(Lock::TakenAgain) => {
                self.note_closed();
                // The program has probably closed the descriptor of the reserved disk space
                // together with that of the directory lock.
                self.reserve = reserve(&self.directory);
            }
            // The sink's directory was removed, or another process has locked it.
            Err(_) => {
                self.note_closed();
                self.restore_directory()?;
            }
        }
        Ok(())
    }

    fn note_closed(&mut self) {
        if !std::mem::replace(&mut self.was_closed, true) {
            self.notices.push(format!(
                "the program closed file descriptors of the recorder; recording into '{}' goes on",
                self.directory.display()
            ));
        }
    }

    /// Performs what is due: a flush, or the replacement of a manifest that was delayed. The
    /// segments that are returned are not yet on disk; the caller syncs them and then calls
    /// [`end_sync`](Self::end_sync).
    pub(crate) fn tick(&mut self) -> Result<Batch, SinkError> {
        if self.is_backing_off() || !self.claim.holds() {
            return Ok(Batch::default());
        }
        if self.unflushed_events() > 0 && (self.is_due() || self.failure.is_some()) {
            let result = self.write_buffer(Flush::IfDue);
            self.noted(result)?;
        } else if self.manifest.stale || self.failure.is_some() {
            // If only a sync has failed, the manifest shows whether the disk accepts writes again.
            let result = self.write_manifest(Durability::System);
            self.noted(result)?;
        }
        Ok(self.unsynced.take_due())
    }

    /// Ends the sync of the segments that [`tick`](Self::tick) returned; the segments whose sync
    /// failed are synced again later.
    pub(crate) fn end_sync(&mut self) {
        self.unsynced.end_sync();
    }

    /// Whether [`tick`](Self::tick) will soon have a manifest to write or a segment to sync.
    pub(crate) fn is_behind(&self) -> bool {
        self.manifest.stale || !self.unsynced.is_empty()
    }

    /// Whether the writer has nothing to write, sync or thin until the next session begins.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.claim.holds()
            || (self.active.is_none()
                && self.unflushed_events() == 0
                && !self.is_behind()
                && self.in_work.is_empty()
                && !self.wants_thinning())
    }

    /// How long until [`tick`](Self::tick) has events or a manifest to write, or segments to sync.
    pub(crate) fn idle_for(&self) -> Duration {
        let now = Instant::now();
        if let Some(failure) = &self.failure {
            return failure.retry_at.saturating_duration_since(now);
        }
        let flush = if self.unflushed_events() > 0 {
            self.config
                .flush_every
                .saturating_sub(self.last_flush.elapsed())
        } else {
            self.config.flush_every
        };
        if self.manifest.stale {
            flush.min(CATCH_UP)
        } else if self.unsynced.is_empty() {
            flush
        } else {
            flush.min(self.unsynced.due_in())
        }
    }

    /// Flushes the buffered events, closes the segment and ends the active session. A sink whose
    /// directory was taken over by another sink has no session to end.
    pub(crate) fn close(&mut self, status: SessionStatus) -> Result<(), SinkError> {
        if !self.claim.holds() {
            self.active = None;
            return Ok(());
        }
        // An earlier failure of the disk does not keep the session from ending.
        self.unsynced.end_sync();
        let unreported = self.unsynced.take_unreported();
        self.seal()?;
        let result = self
            .end_session(status)
            .and_then(|()| self.lost(unreported));
        self.noted(result)
    }

    /// Writes buffered lines and closes the segment; the session continues in a new segment.
    pub(crate) fn seal(&mut self) -> Result<(), SinkError> {
        self.flush(Flush::Now)?;
        self.seal_segment();
        Ok(())
    }

    fn seal_segment(&mut self) {
        self.open = None;
        if let Some(last) = self.segments.last_mut()
            && (self.active.is_none() || last.session_id == self.active)
        {
            last.closed = true;
        }
    }

    fn end_session(&mut self, status: SessionStatus) -> Result<(), SinkError> {
        let active = self.active.as_ref();
        if let Some(session) = self
            .sessions
            .iter_mut()
            .find(|session| Some(&session.session_id) == active)
        {
            session.status = status;
            session.ended_at_ns = Some(now_ns());
            session.recorder = None;
        }
        self.write_manifest(Durability::Disk)?;
        self.active = None;
        self.reserve = None;
        remove_recorder_mark(&self.directory);
        self.write_rollups();
        Ok(())
    }

    /// Writes the rollups; a failure is only reported, because rollups can be computed again from
    /// the events.
    fn write_rollups(&mut self) {
        let Some(rollups) = &self.rollups else {
            return;
        };
        let written = rollups.write(&self.directory, &self.manifest(), &self.counts);
        self.notices
            .extend(written.err().map(|error| error.to_string()));
    }

    /// Ends the session on a disk that accepts no events: buffered events are dropped and counted,
    /// and the last manifest uses the reserved space.
    pub(crate) fn give_up(&mut self, status: SessionStatus) -> Result<(), SinkError> {
        self.dropped_events += self.buffered_events;
        self.buffered_events = 0;
        self.early_events = 0;
        self.buffer.clear();
        self.filtered_bytes = 0;
        self.observations.clear();
        self.reserve = None;
        // Lines that were written early are not synced yet. If the sync fails, the session ends
        // nevertheless.
        if let Some(open) = &self.open {
            self.unsynced.add(open.path(), open.file());
        }
        let _ = self.unsynced.sync();
        self.seal_segment();
        self.end_session(status)
    }

    /// How many times the sink started a new segment, how many segments and bytes it deleted, and
    /// how many segments and bytes remain.
    pub(crate) fn diagnostics(&self) -> Diagnostics {
        Diagnostics {
            final_retained_files: self.segments.len() as u64,
            final_retained_bytes: self.retained_bytes().cast_unsigned(),
            ..self.counts
        }
    }

    /// Counts events that were dropped before they reached the writer.
    pub(crate) fn count_dropped(&mut self, events: u64) {
        self.dropped_events += events;
        self.manifest.stale |= events > 0;
    }

    /// How many events were dropped, or were lost with a segment that disappeared.
    pub(crate) fn missing_events(&self) -> u64 {
        self.dropped_events + self.lost_events
    }

    fn check_claim(&self) -> Result<(), SinkError> {
        if self.claim.holds() {
            return Ok(());
        }
        Err(SinkError::TakenOver {
            directory: self.directory.clone(),
        })
    }

    /// Stores the failure of a write and the time of the next attempt, or clears the last failure;
    /// returns the result of the write.
    fn noted(&mut self, result: Result<(), SinkError>) -> Result<(), SinkError> {
        let last = self.failure.take();
        self.failure = result.as_ref().err().map(|error| {
            let back_off = last.map_or(FIRST_BACK_OFF, |last| {
                (last.back_off * 2).min(LONGEST_BACK_OFF)
            });
            Failure {
                message: error.to_string(),
                back_off,
                retry_at: Instant::now() + back_off,
            }
        });
        result
    }
}

/// The log message for a directory that another sink of this process has taken over.
pub(crate) fn taken_over(directory: &Path) -> String {
    format!(
        "another sink of this process records into '{}' now; the session of this sink has ended as \
         interrupted (give each sink its own directory to keep both sessions)",
        directory.display()
    )
}

fn is_begun(segment: &Segment) -> bool {
    segment.event_count > 0
}
