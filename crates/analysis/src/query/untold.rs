//! Events that lie in a segment and not yet in the counts of its manifest: a writer gives lines to
//! the system before it tells of them, and may be killed in between.

use std::fs;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use stormlog_format::Segment;

/// How many events an open segment has past those that the manifest counts.
pub(super) fn untold_events(sink: &Path, segment: &Segment) -> i64 {
    if segment.closed {
        return 0;
    }
    let name = segment.filename.to_str_lossy();
    // A segment lies in its sink and is no link out of it.
    let is_plain = Path::new(&*name)
        .file_name()
        .is_some_and(|last| last == &*name);
    let file = sink.join(&*name);
    let size = fs::symlink_metadata(&file)
        .map_or(0, |facts| if facts.is_file() { facts.len() } else { 0 });
    match u64::try_from(segment.size_bytes) {
        Ok(told) if is_plain && told > 0 && told < size => lines_past(&file, told).unwrap_or(0),
        _ => 0,
    }
}

/// How many whole lines a file has past a place; none when no line begins there.
fn lines_past(file: &Path, told: u64) -> io::Result<i64> {
    let mut file = crate::regular_file::open(file)?;
    file.seek(SeekFrom::Start(told - 1))?;
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

    fn untold(text: &str, size_bytes: i64, closed: bool) -> i64 {
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
        untold_events(folder.path(), &segment)
    }

    #[test]
    fn whole_lines_past_the_told_ones_are_counted() {
        assert_eq!(untold("{}\n{}\n{}\n{\"to", 3, false), 2);
        assert_eq!(untold("{}\n", 3, false), 0);
    }

    #[test]
    fn a_manifest_that_speaks_of_another_file_is_believed() {
        assert_eq!(untold("{}\n{}\n", 2, false), 0);
        assert_eq!(untold("{}\n{}\n", 0, false), 0);
        assert_eq!(untold("{}\n{}\n", 3, true), 0);
        assert_eq!(untold("{}\n{}\n", 300, false), 0);
    }
}
