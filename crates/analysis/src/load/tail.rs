//! How far a file that other processes append to has been read.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

/// Bytes that are searched at a time for the end of the last line.
const SEARCHED: u64 = 64 << 10;

/// The file that was read, and the place up to which it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    inode: u64,
    /// Where the last line that was read ends.
    pub(crate) end: u64,
}

/// What became of a file since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing was written.
    Same,
    /// It is longer.
    Grown,
    /// It is shorter: it was written anew.
    Shrunk,
    /// Another file has its name: thinning rewrites segments, and copies of sinks are replaced.
    Replaced,
}

impl Tail {
    /// A file that was read up to a place.
    pub(crate) fn at(facts: &Metadata, end: u64) -> Self {
        Self {
            inode: facts.ino(),
            end,
        }
    }

    /// What has happened to the file.
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

/// Where the last whole line between two places of a file ends; the first place when none does.
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
