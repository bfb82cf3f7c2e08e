//! Opens, closes and deletes the segments of a sink, and gives up a segment whose file cannot be used
//! any more.

use std::collections::HashSet;
use std::io;
use std::sync::Weak;

use stormlog_format::{Pruned, Segment, SessionStatus, SessionSummary, Text, signed};

use super::Writer;
use crate::store::error::SinkError;
use crate::store::lock::{self, Claimed};
use crate::store::segment::{SegmentWriter, is_plain_name};

/// How many sessions without segments stay in the manifest; the oldest of them are removed first.
const KEPT_WITHOUT_SEGMENTS: usize = 32;

/// How many existing file names in a row are skipped before the creation of a segment fails.
const MOST_SKIPPED_NAMES: u32 = 1000;

impl Writer {
    pub(super) fn retained_bytes(&self) -> i64 {
        let sizes = self.segments.iter().map(|segment| segment.size_bytes);
        sizes.fold(0, i64::saturating_add)
    }

    /// Opens the segment for the next lines: the last segment if it is not closed and belongs to
    /// the active session, otherwise a new one.
    pub(super) fn open_segment(&mut self) -> Result<(), SinkError> {
        if self.open.is_some() {
            return Ok(());
        }
        if !self.directory.exists() {
            self.restore_directory()?;
        }
        let resumed = self.segments.last().filter(|last| {
            !last.closed
                && last.session_id == self.active
                && last.filename.as_str().is_some_and(is_plain_name)
        });
        let resumed = resumed.map(|last| self.directory.join(last.filename.to_string()));
        match resumed.map(SegmentWriter::open) {
            Some(Ok((open, event_count))) => {
                if let Some(last) = self.segments.last_mut() {
                    last.event_count = signed(event_count);
                    last.size_bytes = signed(open.size_bytes());
                }
                self.open = Some(open);
                Ok(())
            }
            // The file of the last segment was deleted or replaced by another file, so a new
            // segment is created.
            Some(Err(_)) => {
                self.give_up_segment();
                self.begin_segment()
            }
            None => self.begin_segment(),
        }
    }

    /// Creates the next segment. File names of segments that exist already are skipped.
    fn begin_segment(&mut self) -> Result<(), SinkError> {
        let mut skipped = 0;
        let (name, open) = loop {
            let name = self.config.names.segment(self.next_index);
            let path = self.directory.join(&name);
            self.next_index += 1;
            match SegmentWriter::create(path.clone()) {
                Ok(open) => break (name, open),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && skipped < MOST_SKIPPED_NAMES =>
                {
                    skipped += 1;
                }
                Err(error) => {
                    self.next_index -= 1;
                    return Err(SinkError::io("open", &path)(error));
                }
            }
        };
        let filename: Text = name.into();
        let session = self.current_session().cloned();
        if let (Some(rollups), Some(session)) = (&mut self.rollups, session) {
            rollups.begin(&filename, &session);
        }
        self.segments.push(Segment {
            filename,
            event_count: 0,
            size_bytes: 0,
            closed: false,
            session_id: self.active.clone(),
            thinned_interval_ns: 0,
        });
        self.open = Some(open);
        Ok(())
    }

    /// Removes the oldest sessions without segments from the manifest and keeps the newest few.
    /// Without a limit on sessions, each start of the program would make the manifest longer, and
    /// every flush writes the whole manifest.
    pub(super) fn forget_sessions_without_segments(&mut self) {
        // A segment without a session id may have events of any session, so no session is removed.
        if self
            .segments
            .iter()
            .any(|segment| segment.session_id.is_none())
        {
            return;
        }
        let has_segments = |session: &SessionSummary| {
            let id = Some(&session.session_id);
            id == self.active.as_ref()
                || session.status == SessionStatus::Running
                || self
                    .segments
                    .iter()
                    .any(|segment| segment.session_id.as_ref() == id)
        };
        let mut empty: Vec<(i64, Text)> = self
            .sessions
            .iter()
            .filter(|session| !has_segments(session))
            .map(|session| (session.started_at_ns, session.session_id.clone()))
            .collect();
        let excess = empty.len().saturating_sub(KEPT_WITHOUT_SEGMENTS);
        if excess == 0 {
            return;
        }
        empty.sort();
        empty.truncate(excess);
        let gone: HashSet<Text> = empty.into_iter().map(|(_, id)| id).collect();
        self.sessions
            .retain(|session| !gone.contains(&session.session_id));
        self.pruned_sessions += signed(excess);
    }

    pub(super) fn close_segment(&mut self) {
        self.open = None;
        self.early_events = 0;
        if let Some(last) = self.segments.last_mut() {
            last.closed = true;
        }
    }

    /// Closes the current segment, because it cannot be written, and removes all segments whose
    /// files no longer exist from the manifest's list.
    pub(super) fn give_up_segment(&mut self) {
        // The lines that were written early are not synced yet.
        if let Some(open) = self.open.as_ref().filter(|_| self.early_events > 0) {
            self.unsynced.add(open.path(), open.file());
        }
        self.close_segment();
        let directory = &self.directory;
        let mut lost = 0;
        self.segments.retain(|segment| {
            let name = segment.filename.to_str_lossy();
            let is_there = directory.join(&*name).exists();
            if !is_there && segment.session_id == self.active {
                lost += segment.event_count.cast_unsigned();
            }
            is_there
        });
        self.lost_events += lost;
        self.manifest.stale = true;
    }

    /// Deletes the oldest closed segments while the sink exceeds its retention limits.
    pub(super) fn prune(&mut self) {
        while self.has_too_many_segments() {
            let oldest = self
                .segments
                .iter()
                .position(|segment| segment.closed && !self.is_being_rewritten(segment));
            let Some(oldest) = oldest else {
                return;
            };
            self.delete_segment(oldest);
        }
    }

    fn has_too_many_segments(&self) -> bool {
        let (bytes, files) = (self.retained_bytes(), self.segments.len() as u64);
        match self.config.thinning {
            Some(thinning) => bytes > signed(thinning.most_bytes()),
            None => {
                files > self.config.retention_max_files
                    || bytes > signed(self.config.retention_max_total_bytes)
            }
        }
    }

    /// Deletes the segment with the given index and counts it as deleted.
    pub(super) fn delete_segment(&mut self, index: usize) {
        let segment = self.segments.remove(index);
        // The names of segments come from a file, so a name must not make the sink delete files
        // outside of its directory.
        if let Some(name) = segment.filename.as_str().filter(|name| is_plain_name(name)) {
            let _ = std::fs::remove_file(self.directory.join(name));
        }
        if let Some(rollups) = &mut self.rollups {
            rollups.forget(&segment.filename);
        }
        self.counts.pruned_segment_count += 1;
        self.counts.pruned_bytes += segment.size_bytes.cast_unsigned();
        self.pruned = self.pruned.plus(Pruned {
            segments: 1,
            events: Some(segment.event_count),
        });
        self.manifest.stale = true;
    }

    /// Creates and locks the sink's directory again after it was removed.
    pub(super) fn restore_directory(&mut self) -> Result<(), SinkError> {
        let Claimed { directory, claim } =
            lock::claim(&self.directory).map_err(SinkError::io("make", &self.directory))?;
        self.directory = directory;
        self.claim = claim;
        if let Some(holder) = &self.holder {
            self.claim.set_holder(Weak::clone(holder));
        }
        self.give_up_segment();
        Ok(())
    }
}
