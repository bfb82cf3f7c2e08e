//! Remembers how far a file that other processes append to has been read.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

/// Number of bytes that are searched at a time for the end of the last line.
const SEARCHED: u64 = 64 << 10;

/// Identifies the file that was read, and the offset up to which it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    inode: u64,
    /// Offset of the end of the last line that was read.
    pub(crate) end: u64,
}

/// How a file has changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The file has the same size, so nothing was appended.
    Same,
    /// The file is longer, so lines were appended.
    Grown,
    /// The file is shorter, so it was written again from the beginning.
    Shrunk,
    /// Another file has the same name, because thinning rewrote the segment or a copy of the sink
    /// was replaced.
    Replaced,
}

impl Tail {
    /// The state of a file that was read up to an offset.
    pub(crate) fn at(facts: &Metadata, end: u64) -> Self {
        Self {
            inode: facts.ino(),
            end,
        }
    }

    /// How the file has changed since it was read.
    pub(crate) fn change(&self, facts: &Metadata) -> Change {
        if self.inode != facts.ino() {
            return Change::Replaced;
        }
        match facts.len().cmp(&self.end) {
            std::cmp::Ordering::Less => Change::Shrunk,
            std::cmp::Ordering::Equal => Change::Same,
            std::cmp::Ordering::Greater => Change::Grown,
        }
    }
}

/// The end of the last whole line between two offsets of a file; the first offset when there is no
/// whole line.
pub(crate) fn last_line_end(file: &mut File, from: u64, to: u64) -> io::Result<u64> {
    let mut end = to;
    let mut bytes = Vec::new();
    while end > from {
        let start = end.saturating_sub(SEARCHED).max(from);
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(end - start).read_to_end(&mut bytes)?;
        if let Some(last) = memchr::memrchr(b'\n', &bytes) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(from)
}
