//! Finds the times of the first and the last event of a segment without reading the whole segment.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use stormlog_format::json::parse_object;

use crate::bytes::open;
use crate::regular_file;

/// Maximum number of bytes of a segment's first line that are read to get the time of the first
/// event.
const LONGEST_FIRST_LINE: u64 = 1 << 20;

/// The time of a segment's first event; the segment may be compressed.
pub(crate) fn first_time(file: &Path) -> Option<i64> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(open(file).ok()?.reader.take(LONGEST_FIRST_LINE));
    reader.read_until(b'\n', &mut line).ok()?;
    time_of(&line)
}

/// Number of bytes at the end of a segment that are searched for its last event.
const TAIL_BYTES: u64 = 1 << 16;

/// The time of the last complete event in an uncompressed segment.
pub(crate) fn last_time(file: &Path) -> Option<i64> {
    let mut file = regular_file::open(file).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    tail.split(|byte| *byte == b'\n').rev().find_map(time_of)
}

fn time_of(line: &[u8]) -> Option<i64> {
    parse_object(line)?.int("timestamp_ns")
}
