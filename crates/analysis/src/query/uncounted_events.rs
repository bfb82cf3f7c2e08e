//! Counts events that are in a segment but not yet counted in the sink's manifest. A recorder
//! flushes lines before it updates the manifest, and may be killed in between.

use std::fs;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use stormlog_format::Segment;

/// Number of events in an open segment that the manifest does not count yet.
pub(super) fn uncounted_events(sink: &Path, segment: &Segment) -> i64 {
    if segment.closed {
        return 0;
    }
    let name = segment.filename.to_str_lossy();
    // A segment whose name contains a folder, or that is a link, is skipped, because segments must
    // be inside their sink.
    let is_plain = Path::new(&*name)
        .file_name()
        .is_some_and(|last| last == &*name);
    let file = sink.join(&*name);
    let size = fs::symlink_metadata(&file)
        .map_or(0, |facts| if facts.is_file() { facts.len() } else { 0 });
    match u64::try_from(segment.size_bytes) {
        Ok(counted) if is_plain && counted > 0 && counted < size => {
            lines_past(&file, counted).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Number of complete lines after an offset of a file; 0 when the offset is not the beginning of a
/// line.
fn lines_past(file: &Path, offset: u64) -> io::Result<i64> {
    let mut file = crate::regular_file::open(file)?;
    file.seek(SeekFrom::Start(offset - 1))?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut count = 0;
    let mut is_first = true;
    loop {
        let bytes = file.fill_buf()?;
        let Some(first) = bytes.first() else {
            return Ok((count - 1).max(0));
        };
        if std::mem::take(&mut is_first) && *first != b'\n' {
            return Ok(0);
        }
        let ends = memchr::memchr_iter(b'\n', bytes).count();
        count += i64::try_from(ends).unwrap_or(i64::MAX);
        let length = bytes.len();
        file.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncounted(text: &str, size_bytes: i64, closed: bool) -> i64 {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("segment-000001.jsonl"), text).unwrap();
        let segment = Segment {
            filename: "segment-000001.jsonl".into(),
            event_count: 1,
            size_bytes,
            closed,
            session_id: None,
            thinned_interval_ns: 0,
        };
        uncounted_events(folder.path(), &segment)
    }

    #[test]
    fn whole_lines_past_the_counted_ones_are_counted() {
        assert_eq!(uncounted("{}\n{}\n{}\n{\"to", 3, false), 2);
        assert_eq!(uncounted("{}\n", 3, false), 0);
    }

    #[test]
    fn a_manifest_of_another_file_is_believed() {
        assert_eq!(uncounted("{}\n{}\n", 2, false), 0);
        assert_eq!(uncounted("{}\n{}\n", 0, false), 0);
        assert_eq!(uncounted("{}\n{}\n", 3, true), 0);
        assert_eq!(uncounted("{}\n{}\n", 300, false), 0);
    }
}
