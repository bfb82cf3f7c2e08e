//! Follows sinks that are still being written: each call reads the events appended since the
//! previous call.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::RecordDefaults;

use super::jsonl::{self, Chunks, Part};
use super::lines::{Hints, damage_of};
use super::sessions::ReadParts;
use super::{Damage, LoadError, LoadOptions, Loaded, loaded_of};
use crate::bytes::read_error;
use crate::catalog::Artifact;
use crate::columns::Chunk;
use crate::compression::Compression;
use crate::regular_file;
use crate::tail::{Change, Tail, last_line_end};

/// Maximum number of bytes in the segments that are followed; in memory the events take about a
/// third of that. For comparison, thinning keeps a sink below 256 MiB by default.
const MOST_BYTES: u64 = 1 << 30;

/// A file that was read in more pieces than this is read again as a whole, because every piece
/// stores its own copy of texts that recur in the events.
const MOST_PIECES: usize = 64;

/// Maximum number of damaged places of one file that are listed.
const MOST_DAMAGE: usize = 1000;

/// The error that a recording is too large to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording is larger than {} MiB", MOST_BYTES >> 20)]
pub struct TooLarge;

/// The sessions of sinks that are still being written; each call of [`read_on`](Self::read_on) reads
/// the events appended since the previous call.
#[derive(Default)]
pub(crate) struct LiveSessions {
    files: HashMap<PathBuf, Followed>,
}

/// The events read so far from a segment, and the position up to which it was read.
#[derive(Default)]
struct Followed {
    tail: Tail,
    pieces: Vec<Arc<Chunk>>,
    lines: u64,
    damage: Vec<Damage>,
}

impl LiveSessions {
    /// Reads what was appended to the segments of the given sinks. Damaged records are skipped and
    /// listed; a line that is still being written is not damaged. Returns the first segment that
    /// cannot be read now, and why; the events read from it before remain.
    pub(crate) fn read_on(
        &mut self,
        sinks: &[(&Path, Artifact)],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<(PathBuf, LoadError)>, TooLarge> {
        let mut before = std::mem::take(&mut self.files);
        if sinks.iter().map(|(_, sink)| sink.size_bytes()).sum::<u64>() > MOST_BYTES {
            return Err(TooLarge);
        }
        let segments = sinks.iter().flat_map(|(_, sink)| match sink {
            Artifact::Sink { segments, .. } => segments.as_slice(),
            _ => &[],
        });
        let mut files: Vec<(PathBuf, Followed)> = segments
            .map(|segment| {
                let followed = before.remove(segment).unwrap_or_default();
                (segment.clone(), followed)
            })
            .collect();
        drop(before);
        let unread = files
            .par_iter_mut()
            .filter_map(|(segment, followed)| {
                let read = followed.read_on(segment, progress);
                Some((segment.clone(), read.err()?))
            })
            .collect::<Vec<_>>();
        self.files = files.into_iter().collect();
        Ok(unread.into_iter().next())
    }

    /// The number of bytes of all segments that were read; in memory the events take about a third.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.files.values().map(|file| file.tail.end).sum()
    }

    /// The sessions of a sink whose segments were read.
    pub(crate) fn loaded(&self, path: &Path, sink: &Artifact) -> Loaded {
        let Artifact::Sink {
            manifest,
            segments,
            damage,
        } = sink
        else {
            return Loaded::default();
        };
        let hints = Hints::of(manifest.as_ref());
        let mut parts = ReadParts {
            known: manifest
                .as_ref()
                .map(|manifest| manifest.sessions.clone())
                .unwrap_or_default(),
            damage: damage.clone(),
            lost: hints.lost(damage),
            ..ReadParts::default()
        };
        for segment in segments {
            let Some(followed) = self.files.get(segment) else {
                continue;
            };
            let file = parts.files.len();
            let name = segment.to_string_lossy().into_owned();
            parts.files.push((name, hints.session(segment).cloned()));
            let pieces = followed.pieces.iter();
            parts
                .chunks
                .extend(pieces.map(|piece| (piece.clone(), file)));
            parts.damage.extend_from_slice(&followed.damage);
        }
        loaded_of(path, sink, parts)
    }
}

impl Followed {
    /// Reads the lines that were appended to a segment, or all lines when the file was replaced.
    fn read_on(
        &mut self,
        segment: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), LoadError> {
        let failed = |error| read_error(segment, error);
        let mut file = regular_file::open(segment).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        let change = self.tail.change(&facts);
        if change == Change::Same {
            return Ok(());
        }
        let is_plain = Compression::of(&mut file).map_err(failed)?.is_none();
        let goes_on = match change {
            // A compressed file is read again as a whole, because decompression cannot continue at
            // an offset.
            Change::Grown => is_plain && self.pieces.len() <= MOST_PIECES,
            Change::Same | Change::Shrunk | Change::Replaced => false,
        };
        if !goes_on {
            *self = Self::default();
        }
        let (part, end) = if is_plain {
            let end = last_line_end(&mut file, self.tail.end, facts.len()).map_err(failed)?;
            (Part::between(self.tail.end, end), end)
        } else {
            (Part::between(0, u64::MAX), facts.len())
        };
        if end > self.tail.end {
            self.read(segment, part, progress)?;
        }
        self.tail = Tail::at(&facts, end);
        Ok(())
    }

    fn read(
        &mut self,
        segment: &Path,
        part: Part,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), LoadError> {
        let options = LoadOptions {
            progress,
            ..LoadOptions::skipping()
        };
        let defaults = RecordDefaults {
            permissive_legacy: options.permissive_legacy,
            ..RecordDefaults::default()
        };
        let mut take = |chunk| self.pieces.push(Arc::new(chunk));
        let outcome =
            jsonl::read_part(segment, part, &defaults, &options, Chunks::Full, &mut take)?;
        let room = MOST_DAMAGE.saturating_sub(self.damage.len());
        let problems = outcome.problems.iter().take(room);
        self.damage
            .extend(problems.map(|problem| damage_of(segment, self.lines, problem)));
        self.lines += outcome.lines;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};

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
    fn damage_and_compressed_segments_are_those_of_a_whole_load() {
        let (folder, lines) = leak();
        let half = memchr::memrchr(b'\n', &lines[..lines.len() / 2]).unwrap() + 1;
        let gz = File::create(folder.path().join("segment-000001.jsonl.gz")).unwrap();
        let mut gz = flate2::write::GzEncoder::new(gz, flate2::Compression::fast());
        gz.write_all(&lines[..half]).unwrap();
        gz.finish().unwrap();
        let segment = folder.path().join("segment-000002.jsonl");
        let mut file = File::create(&segment).unwrap();
        let mut live = LiveSessions::default();
        let read = |live: &mut LiveSessions| {
            let sinks = [(folder.path(), Artifact::at(folder.path()).unwrap())];
            assert!(live.read_on(&sinks, &|_| {}).unwrap().is_none());
            live.loaded(sinks[0].0, &sinks[0].1)
        };
        for piece in lines[half..].chunks(lines.len() / 5) {
            file.write_all(piece).unwrap();
            assert_eq!(read(&mut live).sessions.len(), 1);
        }
        let followed = &live.files[&segment];
        assert_eq!(followed.tail.end, (lines.len() - half) as u64);
        assert!(followed.pieces.len() > 2, "each line is read once");
        file.write_all(b"{\"torn\": \n").unwrap();
        let read = read(&mut live);
        let options = LoadOptions::skipping();
        let whole = load_sessions(folder.path(), &options).unwrap();
        assert_eq!(read.damage.len(), 1);
        assert_eq!(read.damage, whole.damage);
        let (live, whole) = (&read.sessions[0], &whole.sessions[0]);
        assert_eq!(live.events.len(), whole.events.len());
        assert_eq!(
            (&live.summary, &live.sources),
            (&whole.summary, &whole.sources)
        );
    }
}
