//! Remembers segments whose last bytes are not yet on disk, and decides when they are written to
//! disk (synced).
//!
//! Linux reports that bytes could not be written to disk to only one sync of an open file. A second
//! sync succeeds, although the bytes are lost. The error of a sync in the background is therefore
//! kept until a forced flush returns it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::files::{is_regular, open_regular};
use crate::kept_file::KeptFile;
use crate::mutex::lock;

/// The least time between two syncs of segments to disk. Constant syncing slows down the disk for
/// all programs, and when many events arrive, most segments are deleted by retention before they
/// need to be on disk.
const PACE: Duration = Duration::from_millis(250);

/// The largest number of segments that are kept open while they wait to be synced to disk.
const MOST_OPEN: usize = 16;

/// A segment with bytes that may not be on disk yet.
#[derive(Clone, Debug)]
struct Waiting {
    path: PathBuf,
    /// The open file; `None` if too many others are open. The file is then opened again for the
    /// sync, as is a file that the program has closed.
    file: Option<Arc<KeptFile>>,
}

impl Waiting {
    fn sync(&self) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().and_then(|file| file.get().ok()) {
            return file.sync_data();
        }
        match open_regular(&self.path) {
            Ok(file) => KeptFile::new(file)?.get()?.sync_data(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the segment was not deleted meanwhile.
    fn exists(&self) -> bool {
        let opened = self.file.as_ref().and_then(|file| file.checked().ok());
        opened.map_or_else(
            || is_regular(&self.path),
            |(_, metadata)| metadata.nlink() > 0,
        )
    }
}

/// The segment files with bytes that may not be on disk, and the time of the last sync.
#[derive(Debug)]
pub(super) struct Unsynced {
    files: Vec<Waiting>,
    /// The segments that the thread of the sink syncs at the moment.
    batch: Batch,
    /// Whether the result of the batch is still to come.
    is_syncing: bool,
    last_taken: Instant,
    /// Why the last sync failed; `None` after a sync has succeeded.
    failure: Option<String>,
    /// The error of a sync in the background that no forced flush has returned yet.
    unreported: Option<io::Error>,
}

impl Unsynced {
    pub(super) fn new() -> Self {
        Self {
            files: Vec::new(),
            batch: Batch::default(),
            is_syncing: false,
            last_taken: Instant::now(),
            failure: None,
            unreported: None,
        }
    }

    /// Adds a segment to which lines were written. When too many segments wait, the oldest of them
    /// is closed, and opened again for its sync.
    pub(super) fn add(&mut self, path: &Path, file: Arc<KeptFile>) {
        let file = Some(file);
        if let Some(listed) = self.files.iter_mut().find(|listed| listed.path == path) {
            listed.file = file;
            return;
        }
        let path = path.to_path_buf();
        self.files.push(Waiting { path, file });
        self.close_the_oldest();
    }

    fn close_the_oldest(&mut self) {
        let open = |files: &[Waiting]| files.iter().filter(|one| one.file.is_some()).count();
        if open(&self.files) > MOST_OPEN {
            self.files.retain(Waiting::exists);
        }
        let too_many = open(&self.files).saturating_sub(MOST_OPEN);
        let oldest = self.files.iter_mut().filter(|one| one.file.is_some());
        for one in oldest.take(too_many) {
            one.file = None;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.is_syncing
    }

    /// Why the last sync failed; `None` after a sync has succeeded.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether a sync in the background has failed since the last forced flush.
    pub(super) fn has_unreported(&self) -> bool {
        self.unreported.is_some()
    }

    /// The error of a sync in the background that no forced flush has returned yet.
    pub(super) fn take_unreported(&mut self) -> Option<io::Error> {
        self.unreported.take()
    }

    /// How long until the next sync to disk may start.
    pub(super) fn due_in(&self) -> Duration {
        PACE.saturating_sub(self.last_taken.elapsed())
    }

    /// When a sync is due, returns all waiting segments, without segments that were deleted
    /// meanwhile. The caller syncs them and then calls [`end_sync`](Self::end_sync).
    pub(super) fn take_due(&mut self) -> Batch {
        if self.files.is_empty() || !self.due_in().is_zero() {
            return Batch::default();
        }
        self.last_taken = Instant::now();
        self.files.retain(Waiting::exists);
        self.is_syncing = !self.files.is_empty();
        lock(&self.batch.0).waiting = std::mem::take(&mut self.files);
        self.batch.clone()
    }

    /// Ends the sync of the segments that [`take_due`](Self::take_due) returned, and waits for it if
    /// another thread has not finished it. Segments whose sync failed or did not begin wait again.
    pub(super) fn end_sync(&mut self) {
        if !std::mem::take(&mut self.is_syncing) {
            return;
        }
        let Batched {
            mut waiting,
            failed,
            error,
        } = std::mem::take(&mut *lock(&self.batch.0));
        if waiting.is_empty() {
            self.failure = error.as_ref().map(ToString::to_string);
        }
        self.unreported = self.unreported.take().or(error);
        waiting.extend(failed);
        let listed = std::mem::take(&mut self.files);
        waiting.retain(|one| listed.iter().all(|other| other.path != one.path));
        // The older segments come first.
        waiting.extend(listed);
        self.files = waiting;
        self.close_the_oldest();
    }

    /// Syncs all segments now, also those whose sync is not finished. A segment whose sync fails
    /// keeps waiting.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.end_sync();
        self.last_taken = Instant::now();
        self.files.retain(Waiting::exists);
        while let Some(file) = self.files.last() {
            if let Err(error) = file.sync() {
                self.failure = Some(error.to_string());
                // The caller learns of this error instead.
                self.unreported = None;
                return Err(error);
            }
            self.files.pop();
        }
        self.failure = None;
        Ok(())
    }
}

/// Segments that a thread syncs while other threads use the writer. It is locked during the sync, so
/// that a forced flush can wait for the sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch(Arc<Mutex<Batched>>);

#[derive(Debug, Default)]
struct Batched {
    waiting: Vec<Waiting>,
    failed: Vec<Waiting>,
    error: Option<io::Error>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).waiting.is_empty()
    }

    /// Syncs the segments to disk.
    pub(crate) fn sync(&self) {
        let mut batch = lock(&self.0);
        for one in std::mem::take(&mut batch.waiting) {
            if let Err(error) = one.sync() {
                batch.error = Some(error);
                batch.failed.push(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn segments(folder: &tempfile::TempDir, count: usize) -> Vec<(PathBuf, Arc<KeptFile>)> {
        let paths = (0..count).map(|number| folder.path().join(number.to_string()));
        paths
            .map(|path| {
                let file = KeptFile::new(File::create(&path).unwrap()).unwrap();
                (path, Arc::new(file))
            })
            .collect()
    }

    fn all_of(segments: &[(PathBuf, Arc<KeptFile>)]) -> Unsynced {
        let mut unsynced = Unsynced::new();
        for (path, file) in segments {
            unsynced.add(path, file.clone());
        }
        unsynced.last_taken = Instant::now().checked_sub(PACE).unwrap();
        unsynced
    }

    /// The numbers of the segments that wait, and of those that are open.
    fn listed(unsynced: &Unsynced) -> (usize, usize) {
        let open = unsynced.files.iter().filter(|one| one.file.is_some());
        (unsynced.files.len(), open.count())
    }

    #[test]
    fn a_segment_waits_once_and_not_when_it_was_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let segments = segments(&folder, 3);
        let mut unsynced = all_of(&segments);
        for (path, file) in &segments {
            unsynced.add(path, file.clone());
        }
        std::fs::remove_file(folder.path().join("1")).unwrap();
        let batch = unsynced.take_due();
        assert_eq!(lock(&batch.0).waiting.len(), 2);
        batch.sync();
        unsynced.end_sync();
        assert!(unsynced.is_empty());
    }

    #[test]
    fn pruned_segments_make_room_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let segments = segments(&folder, MOST_OPEN + 2);
        let mut unsynced = all_of(&segments[..MOST_OPEN]);
        std::fs::remove_file(folder.path().join("5")).unwrap();
        let (path, file) = &segments[MOST_OPEN];
        unsynced.add(path, file.clone());
        assert_eq!(listed(&unsynced), (MOST_OPEN, MOST_OPEN));
        // No further segment was deleted, so the oldest one is closed.
        let (path, file) = &segments[MOST_OPEN + 1];
        unsynced.add(path, file.clone());
        assert_eq!(listed(&unsynced), (MOST_OPEN + 1, MOST_OPEN));
        assert!(unsynced.files[0].file.is_none());
    }

    #[test]
    fn a_forced_flush_syncs_also_segments_that_were_closed() {
        let folder = tempfile::tempdir().unwrap();
        let segments = segments(&folder, MOST_OPEN + 3);
        let mut unsynced = all_of(&segments[..2]);
        let _batch = unsynced.take_due();
        for (path, file) in &segments[2..] {
            unsynced.add(path, file.clone());
        }
        assert_eq!(listed(&unsynced), (MOST_OPEN + 1, MOST_OPEN));
        unsynced.end_sync();
        assert_eq!(listed(&unsynced), (MOST_OPEN + 3, MOST_OPEN));
        // The first one cannot be opened again.
        let first = folder.path().join("0");
        let other = folder.path().join("other");
        std::fs::rename(&first, &other).unwrap();
        std::fs::create_dir(&first).unwrap();
        unsynced.files[0].path = first.clone();
        assert!(!unsynced.files[0].exists(), "a folder is no segment");
        assert!(unsynced.files[0].sync().is_err());
        std::fs::remove_dir(&first).unwrap();
        std::fs::rename(&other, &first).unwrap();
        unsynced.sync().unwrap();
        assert!(unsynced.is_empty());
    }

    #[test]
    fn the_disk_is_left_alone_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = all_of(&segments(&folder, 1));
        unsynced.last_taken = Instant::now() + PACE;
        assert!(unsynced.take_due().is_empty() && unsynced.due_in() > Duration::ZERO);
        unsynced.last_taken = Instant::now().checked_sub(PACE).unwrap();
        assert!(!unsynced.take_due().is_empty());
    }

    #[test]
    fn a_segment_waits_until_its_sync_has_succeeded() {
        let folder = tempfile::tempdir().unwrap();
        let mut unsynced = all_of(&segments(&folder, 1));
        let batch = unsynced.take_due();
        assert!(!unsynced.is_empty(), "its sync is not finished");
        {
            let mut batch = lock(&batch.0);
            batch.failed = std::mem::take(&mut batch.waiting);
            batch.error = Some(io::ErrorKind::StorageFull.into());
        }
        unsynced.end_sync();
        assert_eq!(listed(&unsynced), (1, 1));
        assert!(unsynced.failure().is_some() && unsynced.has_unreported());
        unsynced.sync().unwrap();
        assert!(unsynced.is_empty() && unsynced.failure().is_none());
        assert!(
            unsynced.take_unreported().is_some(),
            "no caller knows of it"
        );
        // The thread of the sink finds nothing to do.
        batch.sync();
        unsynced.end_sync();
        assert!(unsynced.is_empty() && !unsynced.has_unreported());
    }
}
