//! The segments of a sink: opened, closed, given up, pruned.

use stormlog_format::{Pruned, Segment, Text};

use super::{Writer, signed};
use crate::store::error::SinkError;
use crate::store::lock::{self, Claimed};
use crate::store::segment::{SegmentWriter, is_plain_name};

impl Writer {
    pub(super) fn retained_bytes(&self) -> i64 {
        let sizes = self.segments.iter().map(|segment| segment.size_bytes);
        sizes.fold(0, i64::saturating_add)
    }

    /// Opens the segment that the next lines go to: the last one while it is open and of
    /// the active session, else a new one.
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
        let is_new = resumed.is_none();
        let name = match resumed {
            Some(last) => last.filename.to_string(),
            None => self.config.names.segment(self.next_index),
        };
        let session = self.current_session().cloned();
        let path = self.directory.join(&name);
        let (open, found) =
            SegmentWriter::open(path.clone()).map_err(SinkError::io("open", &path))?;
        if is_new {
            self.next_index += 1;
            let filename: Text = name.into();
            // Lines that were there before are not in the rollup: such a segment is read.
            if let (Some(rollups), Some(session), 0) =
                (&mut self.rollups, session, found.size_bytes)
            {
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
        }
        if let Some(last) = self.segments.last_mut() {
            last.event_count = signed(found.event_count);
            last.size_bytes = signed(found.size_bytes);
        }
        self.open = Some(open);
        Ok(())
    }

    pub(super) fn close_segment(&mut self) {
        self.open = None;
        self.early_events = 0;
        if let Some(last) = self.segments.last_mut() {
            last.closed = true;
        }
    }

    /// Leaves a segment that cannot be written to; segments that are gone leave the list.
    pub(super) fn give_up_segment(&mut self) {
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

    /// Deletes the oldest closed segments while there are too many.
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

    /// Deletes a segment and counts it.
    pub(super) fn delete_segment(&mut self, index: usize) {
        let segment = self.segments.remove(index);
        // The list comes from a file: it must not make us delete elsewhere.
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

    /// Makes the directory again after somebody took it away, with a lock of its own.
    pub(super) fn restore_directory(&mut self) -> Result<(), SinkError> {
        let Claimed { directory, claim } =
            lock::claim(&self.directory).map_err(SinkError::io("make", &self.directory))?;
        self.directory = directory;
        self.claim = claim;
        self.give_up_segment();
        Ok(())
    }
}
