//! A little room on the disk, kept so that a session can be ended truthfully when the disk
//! is full. The file has no name, so it is invisible and nothing is left when we are killed.

use std::path::Path;

use rustix::fs::FallocateFlags;

use crate::kept_file::KeptFile;

/// Room for a manifest of some hundred sessions and segments.
const BYTES: u64 = 64 << 10;

/// Room on a disk, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Holds the room as long as it is open; never read.
    _file: KeptFile,
}

impl Reserve {
    /// Takes room in a directory; nothing where the file system cannot keep any.
    pub(crate) fn take(directory: &Path) -> Option<Self> {
        let file = tempfile::tempfile_in(directory).ok()?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BYTES).ok()?;
        Some(Self {
            _file: KeptFile::new(file).ok()?,
        })
    }
}
