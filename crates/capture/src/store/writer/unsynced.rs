//! Remembers segments whose last bytes are not yet on disk, and decides when they are written to
//! disk (synced).

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
    last_taken: Instant,
}

impl Unsynced {
    pub(super) fn new() -> Self {
        Self {
            files: Vec::new(),
            last_taken: Instant::now(),
        }
    }

    /// Adds a segment to which lines were written.
    pub(super) fn add(&mut self, file: Arc<KeptFile>) {
        if self.files.iter().any(|listed| Arc::ptr_eq(listed, &file)) {
            return;
        }
        if self.files.len() >= MOST {
            self.files.retain(has_a_name);
        }
        // Segments beyond the limit on waiting segments are not synced; the operating system writes
        // them to disk when it chooses.
        if self.files.len() < MOST {
            self.files.push(file);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How long until the next sync to disk may start.
    pub(super) fn due_in(&self) -> Duration {
        PACE.saturating_sub(self.last_taken.elapsed())
    }

    /// Removes and returns all waiting segments when a sync is due, without segments that were
    /// deleted meanwhile.
    pub(super) fn take_due(&mut self) -> Vec<Arc<KeptFile>> {
        if self.is_empty() || !self.due_in().is_zero() {
            return Vec::new();
        }
        self.take()
    }

    /// Removes and returns all waiting segments, even if no sync is due.
    pub(super) fn take(&mut self) -> Vec<Arc<KeptFile>> {
        self.last_taken = Instant::now();
        let mut files = std::mem::take(&mut self.files);
        files.retain(has_a_name);
        files
    }
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
        assert_eq!(unsynced.take().len(), 2);
        assert!(unsynced.is_empty());
    }

    #[test]
    fn pruned_segments_make_room_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = Unsynced::new();
        for file in segments(&folder, MOST) {
            unsynced.add(file);
        }
        std::fs::remove_file(folder.path().join("0")).unwrap();
        let new = File::create(folder.path().join("new")).unwrap();
        unsynced.add(Arc::new(KeptFile::new(new).unwrap()));
        assert_eq!(unsynced.take().len(), MOST);
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
}
