//! Follows the lines that other processes append to sinks and to files of lines.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use stormlog_format::json::parse;
use stormlog_format::{Event, Manifest, RecordDefaults, SinkNames, Text, Value, event_from_record};

use super::directory::{Directory, DirectoryKind, is_segment};
use super::names::{FileKind, directory_of, holding_folder, is_plain_lines, tidy};
use super::sink::settled;
use super::walk::{Place, Scope, walk};
use crate::load::{Change, Tail};
use crate::pack::unpacked;
use crate::regular_file;

/// Most bytes of a file that are read in one poll, and of all files together; the rest is read in
/// the next polls. One of them at a time is in memory.
const MOST_OF_FILE: u64 = 8 << 20;
const MOST_OF_POLL: u64 = 64 << 20;

/// So much of each file is recent: a few hundred events.
const RECENT_BYTES: u64 = 256 << 10;
/// The number of segments of a sink that are recent: several sessions may share a sink, and of a
/// long run not everything is read.
const RECENT_SEGMENTS: usize = 64;

/// Most damaged lines that are reported per file and poll.
const MOST_REPORTED: usize = 5;

/// Which of the events that exist at the first poll are given. Files that appear later are read
/// from their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowFrom {
    /// All of them.
    Start,
    /// The last 256 KiB of the newest 64 segments of each sink.
    Recent,
    /// None.
    Now,
}

/// What a poll found besides events.
#[derive(Debug, Default)]
pub struct Followed {
    /// Directories of OOM bundles that are new since the last poll.
    pub oom_bundles: Vec<PathBuf>,
    /// Lines that could not be read and why, at most five per file.
    pub damaged: Vec<(PathBuf, String)>,
    /// Whether files have more lines than one poll reads: poll again soon.
    pub is_behind: bool,
}

/// Reads what is appended below some paths.
///
/// A poll costs a look at the directories; files that have not grown are not opened. Memory is
/// bounded by one read of 8 MiB and an offset for each file that exists.
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
    /// Which file the next poll begins with, after one that could not read all.
    next: usize,
}

/// How far a file is read.
struct Offset {
    tail: Tail,
    /// Another file has taken the name; the next poll knows from the manifest why.
    is_replaced: bool,
}

/// A file of lines that is followed.
struct Candidate {
    file: PathBuf,
    /// Whether it is among the newest of its sink.
    is_recent: bool,
    /// Whether thinning has rewritten it: what is in it was read before.
    is_thinned: bool,
}

impl Follower {
    /// Follows what the paths hold: directories of runs, sinks, files of lines, packs.
    pub fn new(paths: Vec<PathBuf>, from: FollowFrom) -> Self {
        // A pack that cannot be opened has nothing to follow; opening it before has reported why.
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

    /// Gives the events that were appended since the last poll, each with its file: in the order of
    /// the files, within a file in that of its lines. A line that is still being written waits.
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
            // What cannot be read now may be readable at the next poll.
            let is_cut = start > 0 && !self.offsets.contains_key(&candidate.file);
            let most = MOST_OF_FILE.min(budget);
            let Ok(read) = read_lines(&candidate.file, start, most, is_cut) else {
                continue;
            };
            budget -= read.bytes.len() as u64;
            followed.is_behind |= read.bytes.len() as u64 == most;
            self.set(candidate, &facts, start + read.end as u64);
            read.give(&candidate.file, visit, &mut followed.damaged);
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

    /// Where to read a file from, and what it is now; nothing when it has to wait.
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
                // The manifest that was read may be older than the rename.
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
                if directory.kind == DirectoryKind::OomBundle {
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
        if directory.kind != DirectoryKind::Sink {
            let is_known = |file: &Path| self.offsets.contains_key(file);
            let files = directory.files.iter().filter(|file| is_plain_lines(file));
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
            .filter(|file| is_segment(file) && is_plain_lines(file) && !is_of(&replaced, file))
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

/// The manifest of a sink whose segments are or were rewritten; of others it is not needed.
fn manifest_of_rewritten(directory: &Directory) -> Option<Manifest> {
    let (names, document) = SinkNames::ALL
        .into_iter()
        .find_map(|names| Some((names, directory.manifest(names)?)))?;
    if !document.contains("rewriting") && !document.contains("thinned") {
        return None;
    }
    let manifest = Manifest::from_value(&Value::Map(document.clone()))?;
    Some(settled(&directory.path, names, manifest))
}

/// What was read of a file.
struct Read {
    bytes: Vec<u8>,
    /// The whole lines among them.
    lines: std::ops::Range<usize>,
    /// Where to go on.
    end: usize,
}

/// Reads the whole lines after an offset. If the offset lies within a line (`is_cut`), the rest of
/// that line is skipped.
fn read_lines(file: &Path, start: u64, most: u64, is_cut: bool) -> std::io::Result<Read> {
    let mut file = regular_file::open(file)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |last| last + 1);
    // A line that is longer than a read is skipped piece by piece.
    let is_endless = whole == 0 && bytes.len() as u64 == most;
    let first = if is_cut {
        memchr::memchr(b'\n', &bytes).map_or(whole, |end| end + 1)
    } else {
        0
    };
    Ok(Read {
        lines: first..whole,
        end: if is_endless { bytes.len() } else { whole },
        bytes,
    })
}

impl Read {
    fn give(
        &self,
        file: &Path,
        visit: &mut dyn FnMut(&Path, Event),
        damaged: &mut Vec<(PathBuf, String)>,
    ) {
        let mut reported = 0;
        for line in self.bytes[self.lines.clone()].split(|byte| *byte == b'\n') {
            match event_of(line) {
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

/// The event of a line, nothing when the line is blank, or what is wrong with it.
pub(super) fn event_of(line: &[u8]) -> Result<Option<Event>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Value::Map(record) = parse(line).map_err(|error| format!("damaged line: {error}"))? else {
        return Err("damaged line: not an object".into());
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
        // A program that copies a sink replaces its files.
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
        // The first line of what is recent is cut, and no damage.
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
