//! Reserves a little disk space, so that the end of a session can be recorded when the disk is
//! full. The file has no name, so it is invisible and disappears when the process is killed.

use std::path::Path;

use rustix::fs::FallocateFlags;

use crate::kept_file::KeptFile;

/// Space for a manifest of some hundred sessions and segments.
const BYTES: u64 = 64 << 10;

/// Reserved disk space. It is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Keeps the space while it is open; never read.
    _file: KeptFile,
}

impl Reserve {
    /// Reserves space in a directory. `None` where the file system cannot do that.
    pub(crate) fn take(directory: &Path) -> Option<Self> {
        let file = tempfile::tempfile_in(directory).ok()?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BYTES).ok()?;
        Some(Self {
            _file: KeptFile::new(file).ok()?,
        })
    }
}
