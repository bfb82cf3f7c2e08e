//! A run that is being written: each look reads what was appended since the last one and judges the
//! run so far.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use stormlog_format::RecordDefaults;

use super::artifact::Artifact;
use super::jsonl::{self, Chunks, Part};
use super::sessions::{ReadParts, assemble};
use super::{LoadOptions, LoadedSession, OnError};
use crate::analyze::diagnosed;
use crate::catalog::artifacts_at;
use crate::columns::Chunk;
use crate::detect::{self, Diagnosis};
use crate::regular_file;
use crate::timeline::{Member, Run, runs};

/// The most bytes of segments that are followed: what is loaded takes about a third of them. A
/// thinned sink has at most 256 MiB.
const MOST_BYTES: u64 = 1 << 30;

/// A file that was read in more pieces than this is read again as a whole: every piece has texts of
/// its own.
const MOST_PIECES: usize = 64;

/// Bytes that are searched at a time for the end of the last line.
const SEARCHED: u64 = 64 << 10;

/// The recording is too large to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording is larger than {} MiB", MOST_BYTES >> 20)]
pub struct TooLarge;

/// What a look at a run found.
#[derive(Debug)]
pub struct LiveLook {
    /// Its tracks, what was run and how it ended so far.
    pub timeline: Run,
    /// What the detectors find in it.
    pub diagnosis: Diagnosis,
}

/// Follows the newest run below a directory.
pub struct LiveRun {
    root: PathBuf,
    rank: Option<i64>,
    files: HashMap<PathBuf, Followed>,
}

/// What is known of a segment.
#[derive(Default)]
struct Followed {
    /// Thinning replaces a segment, which shows here.
    inode: u64,
    /// Where the last whole line ends.
    end: u64,
    pieces: Vec<Arc<Chunk>>,
}

impl LiveRun {
    /// Follows the sinks below a directory, of all ranks or of one.
    pub fn new(root: PathBuf, rank: Option<i64>) -> Self {
        Self {
            root,
            rank,
            files: HashMap::new(),
        }
    }

    /// Reads what is new and judges the newest run; nothing while no session has begun. What cannot
    /// be read now may be readable at the next look.
    pub fn look(&mut self, options: &detect::Options) -> Result<Option<LiveLook>, TooLarge> {
        let sinks = artifacts_at(&self.root).unwrap_or_default();
        let sinks: Vec<(PathBuf, Artifact)> = sinks
            .into_iter()
            .filter_map(|path| {
                let artifact = Artifact::at(&path).ok()?;
                matches!(artifact, Artifact::Sink { .. }).then_some((path, artifact))
            })
            .collect();
        if sinks.iter().map(|(_, sink)| sink.size_bytes()).sum::<u64>() > MOST_BYTES {
            self.files.clear();
            return Err(TooLarge);
        }
        let mut before = std::mem::take(&mut self.files);
        let mut sessions: Vec<(usize, LoadedSession)> = Vec::new();
        for (index, (path, sink)) in sinks.iter().enumerate() {
            let of_sink = self.sessions_of(path, sink, &mut before);
            sessions.extend(of_sink.into_iter().map(|session| (index, session)));
        }
        let is_wanted = |session: &LoadedSession| {
            !session.events.is_empty() && self.rank.is_none_or(|rank| session.summary.rank == rank)
        };
        sessions.retain(|(_, session)| is_wanted(session));
        let members = sessions.iter().map(|(artifact, session)| Member {
            artifact: *artifact,
            session,
        });
        let started = |run: &Vec<usize>| {
            let sessions = run.iter().map(|index| &sessions[*index].1.summary);
            sessions.map(|summary| summary.started_at_ns).max()
        };
        let Some(newest) = runs(members).into_iter().max_by_key(started) else {
            return Ok(None);
        };
        let newest: Vec<&LoadedSession> = newest.iter().map(|index| &sessions[*index].1).collect();
        let (timeline, diagnosis) = diagnosed(&newest, options);
        Ok(Some(LiveLook {
            timeline,
            diagnosis,
        }))
    }

    fn sessions_of(
        &mut self,
        path: &Path,
        sink: &Artifact,
        before: &mut HashMap<PathBuf, Followed>,
    ) -> Vec<LoadedSession> {
        let Artifact::Sink {
            manifest, segments, ..
        } = sink
        else {
            return Vec::new();
        };
        let mut parts = ReadParts {
            known: manifest
                .as_ref()
                .map(|manifest| manifest.sessions.clone())
                .unwrap_or_default(),
            ..ReadParts::default()
        };
        for segment in segments {
            let mut followed = before.remove(segment).unwrap_or_default();
            // What was read before still counts when the file cannot be read now.
            let _ = followed.read_on(segment);
            let file = parts.files.len();
            parts
                .files
                .push((segment.to_string_lossy().into_owned(), None));
            let pieces = followed.pieces.iter();
            parts
                .chunks
                .extend(pieces.map(|piece| (piece.clone(), file)));
            self.files.insert(segment.clone(), followed);
        }
        let thinned = manifest.as_ref().and_then(|manifest| manifest.thinned);
        let mut sessions = assemble(path, parts).sessions;
        for session in &mut sessions {
            session.thinned_until_ns = thinned.map(|thinned| thinned.until_ns);
        }
        sessions
    }
}

impl Followed {
    /// Reads the lines that were appended; all of them when the file was replaced.
    fn read_on(&mut self, segment: &Path) -> io::Result<()> {
        let mut file = regular_file::open(segment)?;
        let facts = file.metadata()?;
        let is_same = self.inode == facts.ino() && self.end <= facts.len();
        if !is_same || self.pieces.len() > MOST_PIECES {
            *self = Self {
                inode: facts.ino(),
                ..Self::default()
            };
        }
        let end = last_line_end(&mut file, self.end, facts.len())?;
        if end <= self.end {
            return Ok(());
        }
        let options = LoadOptions {
            on_error: OnError::Skip,
            ..LoadOptions::default()
        };
        let part = Part::between(self.end, end);
        let defaults = RecordDefaults {
            permissive_legacy: options.permissive_legacy,
            ..RecordDefaults::default()
        };
        let mut take = |chunk| self.pieces.push(Arc::new(chunk));
        jsonl::read_part(segment, part, &defaults, &options, Chunks::Full, &mut take)
            .map_err(io::Error::other)?;
        self.end = end;
        Ok(())
    }
}

/// Where the last whole line between two places of a file ends; the first place when none does.
fn last_line_end(file: &mut File, from: u64, to: u64) -> io::Result<u64> {
    let mut end = to;
    let mut bytes = Vec::new();
    while end > from {
        let start = end.saturating_sub(SEARCHED).max(from);
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(end - start).read_to_end(&mut bytes)?;
        if let Some(place) = memchr::memrchr(b'\n', &bytes) {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(from)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::load::load_sessions;

    fn leak() -> (tempfile::TempDir, Vec<u8>) {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
        let file = File::open(runs.join("h200_leak_graph/events.jsonl.gz")).unwrap();
        let mut lines = Vec::new();
        let mut stream = flate2::read::GzDecoder::new(file);
        stream.read_to_end(&mut lines).unwrap();
        (tempfile::tempdir().unwrap(), lines)
    }

    #[test]
    fn what_is_appended_is_read_once_and_only_in_whole_lines() {
        let (folder, lines) = leak();
        let segment = folder.path().join("segment-000001.jsonl");
        let mut live = LiveRun::new(folder.path().into(), None);
        let options = detect::Options::default();
        let mut file = File::create(&segment).unwrap();
        // Pieces that end anywhere in a line.
        for piece in lines.chunks(lines.len() / 7 + 1) {
            file.write_all(piece).unwrap();
            let look = live.look(&options).unwrap().unwrap();
            let expected = load_sessions(folder.path(), &LoadOptions::default()).unwrap();
            let run = crate::timeline::run_of(&[&expected.sessions[0]]);
            assert_eq!(look.timeline.tracks, run.tracks);
        }
        let followed = &live.files[&segment];
        assert_eq!(followed.end, lines.len() as u64);
        assert!(followed.pieces.len() > 5);
        // A file that was replaced is read anew.
        let replaced = folder.path().join("replaced");
        let half = memchr::memrchr(b'\n', &lines[..lines.len() / 2]).unwrap() + 1;
        std::fs::write(&replaced, &lines[..half]).unwrap();
        std::fs::rename(&replaced, &segment).unwrap();
        let look = live.look(&options).unwrap().unwrap();
        let expected = load_sessions(folder.path(), &LoadOptions::default()).unwrap();
        let run = crate::timeline::run_of(&[&expected.sessions[0]]);
        assert_eq!(look.timeline.tracks, run.tracks);
    }

    #[test]
    fn an_empty_directory_and_another_rank_have_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let options = detect::Options::default();
        let mut live = LiveRun::new(folder.path().into(), None);
        assert!(live.look(&options).unwrap().is_none());
        let (folder, lines) = leak();
        std::fs::write(folder.path().join("segment-000001.jsonl"), lines).unwrap();
        let mut live = LiveRun::new(folder.path().into(), Some(7));
        assert!(live.look(&options).unwrap().is_none());
    }
}
