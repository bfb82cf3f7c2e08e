//! Reserves a little disk space, so that the end of a session can be recorded when the disk is
//! full. The file that reserves the space has no name, so it is invisible and disappears when the
//! process is killed.

use std::path::Path;

use rustix::fs::FallocateFlags;

use crate::kept_file::KeptFile;

/// The number of reserved bytes, enough for a manifest of some hundred sessions and segments.
const BYTES: u64 = 64 << 10;

/// Disk space that is reserved for the last manifest of a session. Dropping the `Reserve` frees the
/// space, so that the manifest can be written.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// The open file that keeps the reserved disk space; it is never read.
    _file: KeptFile,
}

impl Reserve {
    /// Reserves disk space in a directory; `None` where the file system cannot reserve space.
    pub(crate) fn take(directory: &Path) -> Option<Self> {
        let file = tempfile::tempfile_in(directory).ok()?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BYTES).ok()?;
        Some(Self {
            _file: KeptFile::new(file).ok()?,
        })
    }
}
