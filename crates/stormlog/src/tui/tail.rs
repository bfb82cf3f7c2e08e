//! Follows the segments of sinks that other processes write, also while they roll over.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stormlog_analysis::{artifacts_at, regular_file, segment_paths};
use stormlog_format::json::parse;
use stormlog_format::{Event, RecordDefaults, Value, event_from_record};

/// So much of the past is read when following begins: a few hundred events.
const PAST: u64 = 256 * 1024;
/// The number of segments of each sink, newest first: several sessions may share a sink, and of a
/// long run not everything should be read.
const PAST_SEGMENTS: usize = 64;
/// So much is read at once; the rest comes the next time.
const MOST: u64 = 8 * 1024 * 1024;

/// Reads what is appended to the segments of some sinks.
pub(crate) struct Tail {
    paths: Vec<PathBuf>,
    /// How far each segment is read.
    offsets: BTreeMap<PathBuf, Offset>,
    is_first: bool,
}

impl Tail {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            offsets: BTreeMap::new(),
            is_first: true,
        }
    }

    /// The events that were appended since the last time, in order of time. Sinks that have
    /// appeared below the paths since, such as those of ranks that start later, are read from
    /// their beginning.
    pub(crate) fn read(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for path in &self.paths {
            for sink in artifacts_at(path).unwrap_or_default() {
                let mut segments = segment_paths(&sink);
                segments.retain(|segment| is_lines(segment));
                let newest = segments.len().saturating_sub(PAST_SEGMENTS);
                for (index, segment) in segments.into_iter().enumerate() {
                    let inode = inode_of(&segment);
                    let from = match self.offsets.get(&segment) {
                        Some(offset) if offset.inode == inode => offset.bytes,
                        None if !self.is_first => 0,
                        None if index >= newest => start_of_tail(&segment),
                        // It is old, or was thinned: what is in it was read before.
                        _ => size_of(&segment),
                    };
                    let read = read_lines(&segment, from);
                    let (read, end) = read.unwrap_or((Vec::new(), from));
                    events.extend(read);
                    self.offsets.insert(segment, Offset { inode, bytes: end });
                }
            }
        }
        self.is_first = false;
        events.sort_by_key(|event| event.timestamp_ns);
        events
    }
}

/// How far a file is read, and which file of that name.
struct Offset {
    inode: u64,
    bytes: u64,
}

fn inode_of(segment: &Path) -> u64 {
    segment.metadata().map_or(0, |facts| facts.ino())
}

fn is_lines(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
}

fn size_of(segment: &Path) -> u64 {
    segment.metadata().map_or(0, |metadata| metadata.len())
}

fn start_of_tail(segment: &Path) -> u64 {
    size_of(segment).saturating_sub(PAST)
}

/// The events of whole lines behind an offset, and where the last of these lines ends. A line
/// that is being written, or the rest of one that began before the offset, is no event.
fn read_lines(segment: &Path, from: u64) -> std::io::Result<(Vec<Event>, u64)> {
    let mut file = regular_file::open(segment)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |last| last + 1);
    let defaults = RecordDefaults::default();
    let events = bytes[..whole]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| match parse(line) {
            Ok(Value::Map(record)) => event_from_record(&record, &defaults).ok(),
            _ => None,
        })
        .collect();
    Ok((events, from + u64::try_from(whole).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use stormlog_format::{Counters, Map, Version};

    use super::*;

    fn line(step: i64) -> String {
        let event = Event {
            version: Version::V3,
            session_id: "s".into(),
            timestamp_ns: step,
            event_type: "sample".into(),
            collector: "c".into(),
            sampling_interval_ms: 1,
            pid: 1,
            host: "h".into(),
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            device_id: 0,
            counters: Counters {
                allocator_allocated_bytes: Some(step),
                allocator_reserved_bytes: Some(step),
                allocator_change_bytes: Some(0),
                device_used_bytes: Some(step),
                ..Counters::default()
            },
            context: None,
            metadata: Map::new(),
        };
        format!("{}\n", event.to_line())
    }

    #[test]
    fn only_what_is_new_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("segment-000001.jsonl");
        std::fs::write(&first, line(1) + &line(2)).unwrap();
        let mut tail = Tail::new(vec![folder.path().into()]);
        let times = |events: Vec<Event>| -> Vec<i64> {
            events.iter().map(|event| event.timestamp_ns).collect()
        };
        assert_eq!(times(tail.read()), [1, 2]);
        assert_eq!(times(tail.read()), Vec::<i64>::new());
        let next = line(3);
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&first)
            .unwrap();
        file.write_all(&next.as_bytes()[..20]).unwrap();
        assert_eq!(times(tail.read()), Vec::<i64>::new());
        file.write_all(&next.as_bytes()[20..]).unwrap();
        std::fs::write(folder.path().join("segment-000002.jsonl"), line(4)).unwrap();
        assert_eq!(times(tail.read()), [3, 4]);
    }

    #[test]
    fn a_thinned_segment_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let segment = folder.path().join("segment-000001.jsonl");
        std::fs::write(&segment, line(1) + &line(2)).unwrap();
        let mut tail = Tail::new(vec![folder.path().into()]);
        assert_eq!(tail.read().len(), 2);
        let rewritten = folder.path().join("rewritten.tmp");
        std::fs::write(&rewritten, line(1) + &line(3) + &line(5)).unwrap();
        std::fs::rename(&rewritten, &segment).unwrap();
        assert_eq!(tail.read().len(), 0);
    }

    #[test]
    fn ranks_that_start_later_are_followed_too() {
        let folder = tempfile::tempdir().unwrap();
        let rank = |name: &str| {
            let sink = folder.path().join(name);
            std::fs::create_dir(&sink).unwrap();
            sink.join("segment-000001.jsonl")
        };
        std::fs::write(rank("rank0"), line(1)).unwrap();
        let mut tail = Tail::new(vec![folder.path().into()]);
        assert_eq!(tail.read().len(), 1);
        std::fs::write(rank("rank1"), line(2) + &line(3)).unwrap();
        assert_eq!(tail.read().len(), 2);
    }

    #[test]
    fn of_the_past_only_the_newest_segments_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for index in 1..=70 {
            let name = format!("segment-{index:06}.jsonl");
            std::fs::write(folder.path().join(name), line(index)).unwrap();
        }
        let mut tail = Tail::new(vec![folder.path().into()]);
        assert_eq!(tail.read().len(), PAST_SEGMENTS);
        assert_eq!(tail.read().len(), 0);
    }
}
