//! Reserves a little disk space, so that the end of a session can be recorded when the disk is
//! full. The file that reserves the space has no name, so it is invisible and disappears when the
//! process is killed.

use std::fs::File;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::kept_file::KeptFile;

/// The number of reserved bytes, enough for a manifest of some hundred sessions and segments.
const BYTES: u64 = 64 << 10;

/// The least number of reserved bytes: one block, enough for a manifest of a few sessions.
const FEWEST: u64 = 4 << 10;

/// Reserves disk space in a directory for the last manifest of a session: less where the disk is
/// nearly full already, and `None` where the file system cannot reserve space. Dropping the file
/// frees the space, so that the manifest can be written.
pub(crate) fn reserve(directory: &Path) -> Option<KeptFile> {
    reserve_by(directory, |file, bytes| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)
    })
}

fn reserve_by(
    directory: &Path,
    allocate: impl Fn(&File, u64) -> Result<(), Errno>,
) -> Option<KeptFile> {
    let file = tempfile::tempfile_in(directory).ok()?;
    let mut bytes = BYTES;
    while let Err(error) = allocate(&file, bytes) {
        bytes /= 2;
        if error != Errno::NOSPC || bytes < FEWEST {
            return None;
        }
    }
    KeptFile::new(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_nearly_full_disk_less_is_reserved() {
        let folder = tempfile::tempdir().unwrap();
        let reserved = |free: u64| {
            let file = reserve_by(folder.path(), |file, bytes| {
                if bytes > free {
                    return Err(Errno::NOSPC);
                }
                rustix::fs::ftruncate(file, bytes)
            })?;
            Some(file.checked().unwrap().1.len())
        };
        assert_eq!(reserved(BYTES), Some(BYTES));
        assert_eq!(reserved(20 << 10), Some(16 << 10));
        assert_eq!(reserved(FEWEST), Some(FEWEST));
        assert_eq!(reserved(FEWEST - 1), None);
    }
}
