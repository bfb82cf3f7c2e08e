//! Reserves a little disk space, so that the end of a session can be recorded when the disk is
//! full. The file that reserves the space has no name, so it is invisible and disappears when the
//! process is killed.

use std::path::Path;

use rustix::fs::FallocateFlags;

use crate::kept_file::KeptFile;

/// The number of reserved bytes, enough for a manifest of some hundred sessions and segments.
const BYTES: u64 = 64 << 10;

/// Reserves disk space in a directory for the last manifest of a session; `None` where the file
/// system cannot reserve space. Dropping the file frees the space, so that the manifest can be
/// written.
pub(crate) fn reserve(directory: &Path) -> Option<KeptFile> {
    let file = tempfile::tempfile_in(directory).ok()?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BYTES).ok()?;
    KeptFile::new(file).ok()
}
