//! Reads, at each poll, the events that recorders have appended since the last poll to sinks and to
//! `.jsonl` files.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use stormlog_format::json::parse;
use stormlog_format::{Event, Manifest, RecordDefaults, SinkNames, Text, Value, event_from_record};

use super::directory::{Directory, is_segment};
use super::names::{FileKind, directory_of, holding_folder, tidy};
use super::shape::Shape;
use super::sink::settled;
use super::walk::{Place, Scope, walk};
use crate::compression::Compression;
use crate::pack::unpacked;
use crate::regular_file;
use crate::tail::{Change, Tail};

/// Maximum number of bytes read in one poll, of one file and of all files together; later polls
/// read the rest. Only one file's bytes are in memory at a time.
const MOST_OF_FILE: u64 = 8 << 20;
const MOST_OF_POLL: u64 = 64 << 20;

/// Number of bytes at the end of each file that count as recent: a few hundred events.
const RECENT_BYTES: u64 = 256 << 10;
/// Number of a sink's newest segments that count as recent. Several sessions may share a sink, so
/// one segment is not enough, and reading all segments of a long run takes too long.
const RECENT_SEGMENTS: usize = 64;

/// Maximum number of lines in [`Followed::damaged`] per file.
const MOST_REPORTED: usize = 5;

/// Which of the events that exist at the first poll the follower reads. Files that appear after the
/// first poll are read from their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowFrom {
    /// Read all existing events.
    Start,
    /// Read recent events: the last 256 KiB of each of the newest 64 segments of a sink.
    Recent,
    /// Read no existing events, only those that are appended later.
    Now,
}

/// What [`Follower::poll`] returns in addition to the events, which it passes to a callback.
#[derive(Debug, Default)]
pub struct Followed {
    /// OOM bundles (directories with files about an out-of-memory error) that appeared since the
    /// last poll.
    pub oom_bundles: Vec<PathBuf>,
    /// For each line that could not be read, its file and the reason, at most five per file.
    pub damaged: Vec<(PathBuf, String)>,
    /// Whether some files have more lines than one poll reads, so that the caller should poll again
    /// soon.
    pub is_behind: bool,
}

/// Reads the events that are appended to files below the given paths.
///
/// A poll lists the directories; files that have not grown are not opened. Memory is bounded by one
/// read of 8 MiB, plus an offset for each file that exists.
///
/// ```no_run
/// use stormlog_analysis::catalog::{FollowFrom, Follower};
///
/// let mut follower = Follower::new(vec!["runs/today".into()], FollowFrom::Recent);
/// let mut count = 0;
/// let followed = follower.poll(&mut |_file, _event| count += 1);
/// assert!(followed.damaged.is_empty());
/// ```
pub struct Follower {
    paths: Vec<PathBuf>,
    from: FollowFrom,
    offsets: HashMap<PathBuf, Offset>,
    bundles: HashSet<PathBuf>,
    is_first: bool,
    /// Index of the file that the next poll begins with, when a poll could not read all files.
    next: usize,
}

/// How far a file has been read at the last poll.
struct Offset {
    tail: Tail,
    /// Whether the last poll found that the file had been replaced by a new file of the same name.
    /// The next poll learns from the manifest whether thinning wrote the new file.
    is_replaced: bool,
}

/// A file of events below the followed paths, as one poll found it.
struct Candidate {
    file: PathBuf,
    /// Whether the file is among the newest `RECENT_SEGMENTS` segments of its sink. Always true for
    /// a file outside a sink.
    is_recent: bool,
    /// Whether thinning has rewritten the file. Thinning only removes events, so the new file
    /// contains no new events.
    is_thinned: bool,
}

impl Follower {
    /// Follows the files at the given paths: directories of runs, sinks, `.jsonl` files, packs.
    pub fn new(paths: Vec<PathBuf>, from: FollowFrom) -> Self {
        // A pack that cannot be opened has nothing to follow, and the error is not reported again
        // here: the caller's attempt to open the pack has reported it.
        let opened = |path: PathBuf| unpacked(&path).map_or_else(|_| path.clone(), Cow::into_owned);
        Self {
            paths: paths.into_iter().map(opened).collect(),
            from,
            offsets: HashMap::new(),
            bundles: HashSet::new(),
            is_first: true,
            next: 0,
        }
    }

    /// Visits the events that were appended since the last poll, each with its file: in the order
    /// of the files, and in the order of lines within a file. A line that is still being written is
    /// left for a later poll.
    pub fn poll(&mut self, visit: &mut dyn FnMut(&Path, Event)) -> Followed {
        let mut followed = Followed::default();
        let mut files = self.candidates(&mut followed);
        let mut seen = HashSet::new();
        files.retain(|one| seen.insert(one.file.clone()));
        self.offsets.retain(|file, _| seen.contains(file));
        if !files.is_empty() {
            let next = std::mem::take(&mut self.next) % files.len();
            files.rotate_left(next);
        }
        let mut budget = MOST_OF_POLL;
        for (index, candidate) in files.iter().enumerate() {
            let Ok(Some((start, facts))) = self.start_of(candidate) else {
                continue;
            };
            if start >= facts.len() {
                self.set(candidate, &facts, start);
                continue;
            }
            if budget == 0 {
                followed.is_behind = true;
                if self.next == 0 {
                    self.next = index;
                }
                continue;
            }
            // A file that cannot be read now may be readable at the next poll, so the error is
            // ignored.
            let is_cut = start > 0 && !self.offsets.contains_key(&candidate.file);
            let most = MOST_OF_FILE.min(budget);
            let Ok(read) = read_lines(&candidate.file, start, most, is_cut) else {
                continue;
            };
            let Some(read) = read else {
                // Recorders append only to uncompressed files.
                self.set(candidate, &facts, facts.len());
                continue;
            };
            budget -= read.bytes.len() as u64;
            followed.is_behind |= read.bytes.len() as u64 == most;
            self.set(candidate, &facts, start + read.end as u64);
            read.visit_events(&candidate.file, visit, &mut followed.damaged);
        }
        self.is_first = false;
        followed
    }

    fn set(&mut self, candidate: &Candidate, facts: &Metadata, end: u64) {
        let offset = Offset {
            tail: Tail::at(facts, end),
            is_replaced: false,
        };
        self.offsets.insert(candidate.file.clone(), offset);
    }

    /// The offset to read a file from, and the file's metadata; `None` when the file is left for
    /// the next poll.
    fn start_of(&mut self, candidate: &Candidate) -> std::io::Result<Option<(u64, Metadata)>> {
        let facts = candidate.file.metadata()?;
        let size = facts.len();
        let Some(offset) = self.offsets.get_mut(&candidate.file) else {
            let start = match self.from {
                _ if !self.is_first => 0,
                FollowFrom::Start => 0,
                FollowFrom::Recent if candidate.is_recent => size.saturating_sub(RECENT_BYTES),
                FollowFrom::Recent | FollowFrom::Now => size,
            };
            return Ok(Some((start, facts)));
        };
        let start = match offset.tail.change(&facts) {
            Change::Replaced => {
                // Thinning may have replaced the file after the manifest was read, so the next poll
                // decides where to read from.
                offset.tail = Tail::at(&facts, offset.tail.end);
                offset.is_replaced = true;
                return Ok(None);
            }
            _ if offset.is_replaced && candidate.is_thinned => size,
            Change::Shrunk => 0,
            Change::Same | Change::Grown => offset.tail.end,
        };
        Ok(Some((start, facts)))
    }

    fn candidates(&mut self, followed: &mut Followed) -> Vec<Candidate> {
        let mut found = Vec::new();
        for path in &self.paths {
            let path = &tidy(path);
            let Some(directory) = directory_of(path) else {
                let is_lines = FileKind::of(path) == Some(FileKind::Lines);
                found.extend(is_lines.then(|| Candidate {
                    file: path.clone(),
                    is_recent: true,
                    is_thinned: false,
                }));
                continue;
            };
            let roots = Vec::from_iter(holding_folder(path));
            for (directory, place) in walk(directory, &roots, Scope::Everything) {
                if directory.shape == Shape::OomBundle {
                    let is_new = self.bundles.insert(directory.path.clone());
                    let is_wanted = !self.is_first || self.from == FollowFrom::Start;
                    followed
                        .oom_bundles
                        .extend((is_new && is_wanted).then_some(directory.path));
                } else if place != Place::Beside {
                    self.add_files(&directory, &mut found);
                }
            }
        }
        found
    }

    fn add_files(&self, directory: &Directory, found: &mut Vec<Candidate>) {
        if directory.shape != Shape::Sink {
            let is_known = |file: &Path| self.offsets.contains_key(file);
            let is_lines = |file: &Path| FileKind::of(file) == Some(FileKind::Lines);
            let files = directory.files.iter().filter(|file| is_lines(file));
            let files =
                files.filter(|file| is_known(file) || !super::directory::holds_other_records(file));
            found.extend(files.map(|file| Candidate {
                file: file.clone(),
                is_recent: true,
                is_thinned: false,
            }));
            return;
        }
        let manifest = manifest_of_rewritten(directory);
        let is_of = |names: &[Text], file: &Path| {
            let name = file.file_name().unwrap_or_default();
            names.iter().any(|one| *name == *one.to_str_lossy())
        };
        let (thinned, replaced) = manifest.map_or((Vec::new(), Vec::new()), |manifest| {
            let segments = manifest.segments.into_iter();
            let thinned = segments.filter(|segment| segment.thinned_interval_ns > 0);
            let thinned = thinned.map(|segment| segment.filename).collect();
            (thinned, manifest.replaced)
        });
        let segments: Vec<&PathBuf> = directory
            .files
            .iter()
            .filter(|file| is_segment(file) && !is_of(&replaced, file))
            .collect();
        let oldest = segments.len().saturating_sub(RECENT_SEGMENTS);
        for (index, file) in segments.into_iter().enumerate() {
            found.push(Candidate {
                file: file.clone(),
                is_recent: index >= oldest,
                is_thinned: is_of(&thinned, file),
            });
        }
    }
}

/// The manifest of a sink, if its segments are or were rewritten by thinning; otherwise the
/// follower does not need it.
fn manifest_of_rewritten(directory: &Directory) -> Option<Manifest> {
    let (names, document) = SinkNames::ALL
        .into_iter()
        .find_map(|names| Some((names, directory.manifest(names)?)))?;
    if !document.contains("rewriting") && !document.contains("thinned") {
        return None;
    }
    Some(settled(
        &directory.path,
        names,
        Manifest::from_map(document),
    ))
}

/// The bytes that one poll has read of a file.
struct Read {
    bytes: Vec<u8>,
    /// The range within `bytes` that has only whole lines, without the incomplete lines before and
    /// after them.
    lines: std::ops::Range<usize>,
    /// Number of bytes at the start of `bytes` that were visited or skipped; the next poll begins
    /// after them.
    end: usize,
}

/// Reads the whole lines of a file after an offset; `None` if the file is compressed. If the offset
/// lies within a line (`is_cut`), the rest of that line is skipped.
fn read_lines(file: &Path, start: u64, most: u64, is_cut: bool) -> std::io::Result<Option<Read>> {
    let mut file = regular_file::open(file)?;
    if Compression::of(&mut file)?.is_some() {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |last| last + 1);
    // If `most` bytes were read and contain no line end, the line is longer than one read. These
    // bytes are skipped.
    let is_endless = whole == 0 && bytes.len() as u64 == most;
    let first = if is_cut {
        memchr::memchr(b'\n', &bytes).map_or(whole, |end| end + 1)
    } else {
        0
    };
    Ok(Some(Read {
        lines: first..whole,
        end: if is_endless { bytes.len() } else { whole },
        bytes,
    }))
}

impl Read {
    fn visit_events(
        &self,
        file: &Path,
        visit: &mut dyn FnMut(&Path, Event),
        damaged: &mut Vec<(PathBuf, String)>,
    ) {
        let mut reported = 0;
        for line in self.bytes[self.lines.clone()].split(|byte| *byte == b'\n') {
            match event_of_line(line) {
                Ok(Some(event)) => visit(file, event),
                Err(reason) if reported < MOST_REPORTED => {
                    reported += 1;
                    damaged.push((file.to_path_buf(), reason));
                }
                Ok(None) | Err(_) => {}
            }
        }
    }
}

/// The event on a line, `None` when the line is blank, or an error that describes the damage.
pub fn event_of_line(line: &[u8]) -> Result<Option<Event>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Value::Map(record) = parse(line).map_err(|error| format!("damaged line: {error}"))? else {
        return Err("damaged line: not a JSON object".into());
    };
    event_from_record(&record, &RecordDefaults::default())
        .map(Some)
        .map_err(|error| format!("damaged line: {error}"))
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

    fn times(follower: &mut Follower) -> Vec<i64> {
        let mut times = Vec::new();
        let seen = follower.poll(&mut |_, event| times.push(event.timestamp_ns));
        assert_eq!(seen.damaged, []);
        assert!(!seen.is_behind);
        times
    }

    fn follower(folder: &Path, from: FollowFrom) -> Follower {
        Follower::new(vec![folder.to_path_buf()], from)
    }

    #[test]
    fn only_what_is_new_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("segment-000001.jsonl");
        std::fs::write(&first, line(1) + &line(2)).unwrap();
        let mut all = follower(folder.path(), FollowFrom::Recent);
        let mut new = follower(folder.path(), FollowFrom::Now);
        assert_eq!(times(&mut all), [1, 2]);
        assert!(times(&mut new).is_empty());
        assert!(times(&mut all).is_empty());
        let next = line(3);
        let options = std::fs::OpenOptions::new().append(true).open(&first);
        let mut file = options.unwrap();
        file.write_all(&next.as_bytes()[..20]).unwrap();
        assert!(times(&mut all).is_empty());
        file.write_all(&next.as_bytes()[20..]).unwrap();
        std::fs::write(folder.path().join("segment-000002.jsonl"), line(4)).unwrap();
        assert_eq!(times(&mut all), [3, 4]);
        assert_eq!(times(&mut new), [3, 4]);
    }

    #[test]
    fn a_thinned_segment_is_not_read_again_and_a_copied_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let segment = folder.path().join("segment-000001.jsonl");
        let replace = |text: String| {
            let rewritten = folder.path().join("rewritten.tmp");
            std::fs::write(&rewritten, text).unwrap();
            std::fs::rename(&rewritten, &segment).unwrap();
        };
        std::fs::write(&segment, line(1) + &line(2)).unwrap();
        let mut follower = follower(folder.path(), FollowFrom::Start);
        assert_eq!(times(&mut follower).len(), 2);
        // A program that copies a sink replaces the sink's files instead of appending to them.
        replace(line(1) + &line(2) + &line(3));
        let seen = [times(&mut follower), times(&mut follower)].concat();
        assert_eq!(seen, [3]);
        let manifest = r#"{"segments": [{"filename": "segment-000001.jsonl",
            "thinned_interval_ns": 1000}], "thinned": {"samples_dropped": 1}}"#;
        std::fs::write(folder.path().join("manifest.json"), manifest).unwrap();
        replace(line(1) + &line(3) + &line(5) + &line(7));
        let seen = [times(&mut follower), times(&mut follower)].concat();
        assert!(seen.is_empty());
    }

    #[test]
    fn whether_a_file_is_compressed_is_decided_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let packed = zstd::encode_all(line(1).as_bytes(), 1).unwrap();
        for (name, bytes) in [
            ("sink/segment-000001.jsonl", &*packed),
            ("sink/segment-000002.jsonl.gz", line(3).as_bytes()),
            ("loose/a.jsonl", &packed),
            ("loose/b.jsonl.zst", line(2).as_bytes()),
        ] {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
        }
        let mut follower = follower(folder.path(), FollowFrom::Start);
        assert_eq!(times(&mut follower), [2, 3]);
        assert!(times(&mut follower).is_empty());
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
        let mut follower = follower(folder.path(), FollowFrom::Now);
        assert!(times(&mut follower).is_empty());
        std::fs::write(rank("rank1"), line(2) + &line(3)).unwrap();
        assert_eq!(times(&mut follower), [2, 3]);
    }

    #[test]
    fn of_the_past_only_the_end_of_the_newest_segments_is_recent() {
        let folder = tempfile::tempdir().unwrap();
        for index in 1..=70 {
            let name = format!("segment-{index:06}.jsonl");
            std::fs::write(folder.path().join(name), line(index)).unwrap();
        }
        let mut recent = follower(folder.path(), FollowFrom::Recent);
        assert_eq!(times(&mut recent).len(), RECENT_SEGMENTS);
        assert!(times(&mut recent).is_empty());
        let lines: String = (0..2000).map(line).collect();
        let long = folder.path().join("segment-000070.jsonl");
        std::fs::write(long, &lines).unwrap();
        let mut recent = follower(folder.path(), FollowFrom::Recent);
        // The first line of the recent bytes is cut, but does not count as damage.
        let seen = times(&mut recent).len() - (RECENT_SEGMENTS - 1);
        let bytes = usize::try_from(RECENT_BYTES).unwrap();
        assert!(seen > 0 && seen <= bytes / line(1).len() + 1 && seen < 2000);
    }

    #[test]
    fn a_long_file_is_read_in_several_polls() {
        let folder = tempfile::tempdir().unwrap();
        let events = usize::try_from(MOST_OF_FILE).unwrap() / line(1000).len() + 1000;
        let lines = line(1000).repeat(events);
        std::fs::write(folder.path().join("segment-000001.jsonl"), lines).unwrap();
        let mut follower = follower(folder.path(), FollowFrom::Start);
        let mut seen = 0;
        assert!(follower.poll(&mut |_, _| seen += 1).is_behind);
        assert!(!follower.poll(&mut |_, _| seen += 1).is_behind);
        assert_eq!(seen, events);
    }
}
