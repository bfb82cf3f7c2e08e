//! Remembers segments whose last bytes are not yet on disk, and decides when they are written to
//! disk (synced).

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kept_file::KeptFile;

/// The least time between two syncs of segments to disk. Constant syncing slows down the disk for
/// all programs, and when many events arrive, most segments are deleted by retention before they
/// need to be on disk.
const PACE: Duration = Duration::from_millis(250);

/// The largest number of segments that wait to be synced to disk.
const MOST: usize = 16;

/// The segment files with bytes that may not be on disk yet, and the time of the last sync.
#[derive(Debug)]
pub(super) struct Unsynced {
    files: Vec<Arc<KeptFile>>,
    /// The files that the thread of the sink syncs at the moment.
    in_sync: Vec<Arc<KeptFile>>,
    last_taken: Instant,
}

impl Unsynced {
    pub(super) fn new() -> Self {
        Self {
            files: Vec::new(),
            in_sync: Vec::new(),
            last_taken: Instant::now(),
        }
    }

    /// Adds a segment to which lines were written. When too many segments wait, the oldest of them
    /// is not synced; the operating system writes it to disk when it chooses.
    pub(super) fn add(&mut self, file: Arc<KeptFile>) {
        if self.files.iter().any(|listed| Arc::ptr_eq(listed, &file)) {
            return;
        }
        if self.files.len() >= MOST {
            self.files.retain(has_a_name);
        }
        if self.files.len() >= MOST {
            self.files.remove(0);
        }
        self.files.push(file);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.in_sync.is_empty()
    }

    /// How long until the next sync to disk may start.
    pub(super) fn due_in(&self) -> Duration {
        PACE.saturating_sub(self.last_taken.elapsed())
    }

    /// When a sync is due, returns all waiting segments, without segments that were deleted
    /// meanwhile. The caller syncs them and then calls [`end_sync`](Self::end_sync).
    pub(super) fn take_due(&mut self) -> Vec<Arc<KeptFile>> {
        if self.files.is_empty() || !self.due_in().is_zero() {
            return Vec::new();
        }
        self.last_taken = Instant::now();
        self.in_sync = std::mem::take(&mut self.files);
        self.in_sync.retain(has_a_name);
        self.in_sync.clone()
    }

    /// Ends the sync of the segments that [`take_due`](Self::take_due) returned; those whose sync
    /// failed wait again.
    pub(super) fn end_sync(&mut self, failed: Vec<Arc<KeptFile>>) {
        self.in_sync.clear();
        for file in failed {
            self.add(file);
        }
    }

    /// Syncs all segments now, also those whose sync is not finished. A segment whose sync fails
    /// keeps waiting.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.last_taken = Instant::now();
        for file in self.in_sync.clone() {
            self.add(file);
        }
        self.files.retain(has_a_name);
        while let Some(file) = self.files.last() {
            file.sync_data()?;
            self.files.pop();
        }
        Ok(())
    }
}

/// Syncs segments to disk and returns those whose sync failed.
pub(crate) fn sync(mut files: Vec<Arc<KeptFile>>) -> Vec<Arc<KeptFile>> {
    files.retain(|file| file.sync_data().is_err());
    files
}

fn has_a_name(file: &Arc<KeptFile>) -> bool {
    file.checked()
        .is_ok_and(|(_, metadata)| metadata.nlink() > 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn segments(folder: &tempfile::TempDir, count: usize) -> Vec<Arc<KeptFile>> {
        let paths = (0..count).map(|number| folder.path().join(number.to_string()));
        paths
            .map(|path| Arc::new(KeptFile::new(File::create(path).unwrap()).unwrap()))
            .collect()
    }

    #[test]
    fn a_segment_waits_once_and_not_when_it_was_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = Unsynced::new();
        for file in segments(&folder, 3) {
            unsynced.add(file.clone());
            unsynced.add(file);
        }
        std::fs::remove_file(folder.path().join("1")).unwrap();
        unsynced.last_taken = Instant::now().checked_sub(PACE).unwrap();
        assert_eq!(unsynced.take_due().len(), 2);
        unsynced.end_sync(Vec::new());
        assert!(unsynced.is_empty());
    }

    #[test]
    fn pruned_segments_make_room_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = Unsynced::new();
        let files = segments(&folder, MOST + 2);
        for file in &files[..MOST] {
            unsynced.add(file.clone());
        }
        std::fs::remove_file(folder.path().join("5")).unwrap();
        unsynced.add(files[MOST].clone());
        assert!(Arc::ptr_eq(&unsynced.files[0], &files[0]));
        // No further segment was deleted, so the oldest one is not synced.
        unsynced.add(files[MOST + 1].clone());
        assert!(Arc::ptr_eq(&unsynced.files[0], &files[1]));
        assert!(Arc::ptr_eq(
            unsynced.files.last().unwrap(),
            &files[MOST + 1]
        ));
        assert_eq!(unsynced.files.len(), MOST);
    }

    #[test]
    fn the_disk_is_left_alone_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = Unsynced::new();
        unsynced.add(segments(&folder, 1).remove(0));
        unsynced.last_taken = Instant::now() + PACE;
        assert!(unsynced.take_due().is_empty() && unsynced.due_in() > Duration::ZERO);
        unsynced.last_taken = Instant::now().checked_sub(PACE).unwrap();
        assert_eq!(unsynced.take_due().len(), 1);
    }

    #[test]
    fn a_segment_waits_until_its_sync_has_succeeded() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = Unsynced::new();
        unsynced.add(segments(&folder, 1).remove(0));
        unsynced.last_taken = Instant::now().checked_sub(PACE).unwrap();
        let taken = unsynced.take_due();
        assert!(!unsynced.is_empty(), "its sync is not finished");
        unsynced.end_sync(taken);
        assert_eq!(unsynced.files.len(), 1);
        unsynced.sync().unwrap();
        assert!(unsynced.is_empty());
    }
}
