//! Plans an ingest: lists the files below the given paths, what each contains, and up to which
//! position it can be read.

use std::fmt::Write;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use stormlog_analysis::compression::{Compression, without_suffix};
use stormlog_analysis::query::{Catalog, OomBundle, Source, SourceKind};
use stormlog_analysis::{Damage, absolute, open_text, regular_file, sink_names};
use stormlog_format::{Event, Manifest, SinkNames, Text};

use super::identity;

/// A position is an integer made of a segment number and a byte offset inside the segment. This
/// constant is the number of bits of the offset.
const OFFSET_BITS: u32 = 40;
/// The largest segment number that fits into a position, which is an integer made of a segment
/// number and a byte offset.
const MOST_SEGMENTS: i64 = (1 << (62 - OFFSET_BITS)) - 1;
/// The search for the last newline of a file begins with this many bytes at its end. If they
/// contain no newline, the search continues with twice as many bytes before them, and so on.
const SEARCHED: u64 = 4 << 10;

/// One recording that is ingested: a sink (a directory of segments), a single file or a bundle.
pub(crate) struct Unit {
    /// The id of the unit, a hash of its path.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: &'static str,
    pub(crate) manifest: Option<Manifest>,
    /// The files of the unit that contain events.
    pub(crate) pieces: Vec<Piece>,
    /// The index of the unit in `sources` of the catalog from which [`units`] made it; `None` if
    /// the unit is not among the sources.
    pub(crate) source: Option<usize>,
    pub(crate) bundle: Option<usize>,
    /// Why the unit cannot be read; `None` when it can.
    pub(crate) unreadable: Option<String>,
    /// Whether the lake has a recording with the same content, at this path or at another one.
    pub(crate) is_known: bool,
}

impl Unit {
    /// The damage of a unit that cannot be read.
    pub(crate) fn damage(&self) -> Option<Damage> {
        let reason = self.unreadable.as_ref()?;
        Some(Damage::of_file(&*self.path, &**reason))
    }
}

/// A file of a unit that is read line by line, or a unit that is read as a whole.
pub(crate) struct Piece {
    /// The id of the piece's stream, computed only from its content; it is the same for copies at
    /// other paths.
    pub(crate) content_id: String,
    /// The `source_id` of the piece's rows in the tables, computed from the content and the path at
    /// which the stream was first found.
    pub(crate) source_id: String,
    pub(crate) file: PathBuf,
    pub(crate) read: How,
    /// The positions in the stream at which the piece begins and ends; each combines a segment
    /// number and a byte offset, see [`position`].
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The size of the file in bytes.
    pub(crate) bytes: u64,
    /// The event in the first line of the piece, if it is a segment.
    pub(crate) first: Option<Box<Event>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Lines that can be read from any byte offset on.
    Lines,
    /// Lines of a compressed file, which is always read from its start and whose uncompressed
    /// length is unknown.
    CompressedLines,
    /// A file or a bundle that is read as a whole.
    Whole,
}

impl Unit {
    /// A number that changes whenever the unit's files or its manifest change.
    pub(super) fn state(&self) -> i64 {
        let mut text = String::new();
        for piece in &self.pieces {
            let Piece {
                source_id,
                end,
                bytes,
                ..
            } = piece;
            let _ = writeln!(text, "{source_id} {end} {bytes}");
        }
        let manifest = ["manifest.json", "host.json", "metadata.json"]
            .map(|name| std::fs::read(self.path.join(name)).unwrap_or_default());
        let [ordinary, host, details] = &manifest;
        identity::number(&[text.as_bytes(), ordinary, host, details])
    }
}

/// Combines the number of a segment and a byte offset in it to a position.
pub(crate) fn position(segment: u64, offset: u64) -> i64 {
    let segment = i64::try_from(segment)
        .unwrap_or(MOST_SEGMENTS)
        .min(MOST_SEGMENTS);
    let offset = i64::try_from(offset)
        .unwrap_or(i64::MAX)
        .min((1 << OFFSET_BITS) - 1);
    (segment << OFFSET_BITS) | offset
}

/// The byte offset that [`position`] combined with a segment number.
pub(crate) fn offset(position: i64) -> u64 {
    u64::try_from(position & ((1 << OFFSET_BITS) - 1)).unwrap_or(0)
}

/// The recordings that are stored already: for each content id, the paths at which a recording with
/// this content was found, and the `source_id` of its rows.
#[derive(Default)]
pub(crate) struct Known(HashMap<String, Vec<(PathBuf, String)>>);

impl Known {
    /// Records that a recording with this content is stored under `source_id` and was found at `path`.
    pub(crate) fn add(&mut self, content_id: String, path: &Path, source_id: String) {
        let list = self.0.entry(content_id).or_default();
        list.push((path.to_path_buf(), source_id));
    }

    /// The stream id for some content at a path. A recording that was moved keeps its id. A copy at
    /// another path gets an id of its own; `stormlog query` also lists the original and the copy
    /// separately.
    fn source_id(&self, content_id: &str, path: &str) -> String {
        let found = self.0.get(content_id).map_or(&[][..], Vec::as_slice);
        let same = found.iter().find(|(known, _)| known == Path::new(path));
        // A recording counts as moved when none of the paths at which it was found exists any more.
        let is_here = |source_id: &str| {
            let mut same_id = found.iter().filter(|(_, known)| known == source_id);
            same_id.any(|(path, _)| path.exists())
        };
        let moved = || found.iter().find(|(_, source_id)| !is_here(source_id));
        let stored = same.or_else(moved).map(|(_, source_id)| source_id.clone());
        stored.unwrap_or_else(|| identity::hash(&[content_id.as_bytes(), path.as_bytes()]))
    }
}

/// All recordings of the catalog as units, with the ids under which their events are stored.
pub(crate) fn units(catalog: &Catalog, known: &Known) -> Vec<Unit> {
    let mut units = by_content(catalog);
    for unit in &mut units {
        let path = absolute(&unit.path);
        for piece in &mut unit.pieces {
            unit.is_known |= known.0.contains_key(&piece.content_id);
            piece.source_id = known.source_id(&piece.content_id, &path);
        }
    }
    units
}

fn by_content(catalog: &Catalog) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (index, source) in catalog.sources.iter().enumerate() {
        units.push(Unit {
            source: Some(index),
            ..of_source(source)
        });
    }
    let known: Vec<&Text> = catalog
        .sources
        .iter()
        .filter_map(|source| source.manifest.as_ref())
        .flat_map(|manifest| manifest.sessions.iter().map(|session| &session.session_id))
        .collect();
    for (index, bundle) in catalog.oom_bundles.iter().enumerate() {
        let has_sink = bundle
            .session_id
            .as_ref()
            .is_some_and(|id| known.contains(&id));
        units.push(Unit {
            bundle: Some(index),
            ..of_bundle(bundle, has_sink)
        });
    }
    units
}

fn unit(path: &Path, kind: &'static str) -> Unit {
    Unit {
        id: identity::hash(&[b"path", absolute(path).as_bytes()]),
        path: path.to_path_buf(),
        kind,
        manifest: None,
        pieces: Vec::new(),
        source: None,
        bundle: None,
        unreadable: None,
        is_known: false,
    }
}

fn of_source(source: &Source) -> Unit {
    let mut unit = unit(&source.path, source.kind.as_str());
    unit.manifest.clone_from(&source.manifest);
    let result = match source.kind {
        SourceKind::Sink => segments(source, &mut unit.pieces),
        SourceKind::TelemetryJsonl => lines(&source.path, &mut unit.pieces),
        // The sink inside a diagnose bundle is a unit of its own, so the bundle has no pieces.
        SourceKind::DiagnoseBundle if has_sink(&source.path) => Ok(()),
        SourceKind::DiagnoseBundle => {
            let timeline = source.path.join("telemetry_timeline.json");
            whole(&source.path, &timeline, &mut unit.pieces)
        }
        SourceKind::TelemetryJson | SourceKind::TelemetryCsv => {
            whole(&source.path, &source.path, &mut unit.pieces)
        }
    };
    unit.unreadable = result.err().map(|error| error.to_string());
    unit
}

/// Makes the unit of an OOM bundle; if its session has a sink, the bundle has no pieces, because it
/// repeats the last events of that sink.
fn of_bundle(bundle: &OomBundle, has_sink: bool) -> Unit {
    let mut unit = unit(&bundle.bundle_path, "oom_bundle");
    let events = bundle.bundle_path.join("events.json");
    if !has_sink && events.is_file() {
        let result = whole(&bundle.bundle_path, &events, &mut unit.pieces);
        unit.unreadable = result.err().map(|error| error.to_string());
    }
    unit
}

fn has_sink(bundle: &Path) -> bool {
    sink_names(&bundle.join("telemetry")).is_some()
}

fn whole(path: &Path, file: &Path, pieces: &mut Vec<Piece>) -> io::Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    pieces.push(Piece {
        content_id: identity::of_content(file)?,
        source_id: String::new(),
        file: path.to_path_buf(),
        read: How::Whole,
        start: 0,
        end: 1,
        bytes: file.metadata()?.len(),
        first: None,
    });
    Ok(())
}

fn segments(source: &Source, pieces: &mut Vec<Piece>) -> io::Result<()> {
    for file in &source.event_paths {
        let Some(first) = first_line(file)? else {
            continue;
        };
        let number = segment_number(file).unwrap_or(0);
        let event = identity::event_of(&first);
        let content_id = event.as_ref().map_or_else(
            || identity::hash(&[b"damaged", absolute(file).as_bytes()]),
            identity::of_segment,
        );
        pieces.push(Piece {
            first: event.map(Box::new),
            ..lines_of(file, content_id, number)?
        });
    }
    Ok(())
}

fn lines(file: &Path, pieces: &mut Vec<Piece>) -> io::Result<()> {
    let Some(first) = first_line(file)? else {
        return Ok(());
    };
    // A segment without a manifest gets the same position from its file name as one with a
    // manifest, so that it is not stored again when its sink gets a manifest.
    let number = segment_number(file);
    let event = number.and_then(|_| identity::event_of(&first));
    let content_id = event
        .as_ref()
        .map_or_else(|| identity::of_lines(&first), identity::of_segment);
    pieces.push(Piece {
        first: event.map(Box::new),
        ..lines_of(file, content_id, number.unwrap_or(0))?
    });
    Ok(())
}

fn lines_of(file: &Path, content_id: String, number: u64) -> io::Result<Piece> {
    let bytes = file.metadata()?.len();
    let compression = Compression::of(&mut regular_file::open(file)?)?;
    let (read, end) = if compression.is_some() {
        // A compressed file is complete, because nothing is appended to it.
        (How::CompressedLines, position(number + 1, 0))
    } else {
        (How::Lines, position(number, readable_end(file, bytes)?))
    };
    Ok(Piece {
        content_id,
        source_id: String::new(),
        file: file.to_path_buf(),
        read,
        start: position(number, 0),
        end,
        bytes,
        first: None,
    })
}

fn first_line(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut reader = open_text(file).map_err(io::Error::other)?;
    identity::first_line(&mut reader)
}

/// The offset up to which the lines of a file can be read now: after the last newline, or at the
/// end of the file if the rest is a complete record. A line that its writer has not finished is
/// read by the next ingest.
fn readable_end(file: &Path, length: u64) -> io::Result<u64> {
    let mut reader = regular_file::open(file)?;
    let mut end = length;
    let mut rest = Vec::new();
    let mut searched = SEARCHED;
    while end > 0 {
        let start = end.saturating_sub(searched);
        searched *= 2;
        let mut block = vec![0; usize::try_from(end - start).unwrap_or(0)];
        reader.seek(SeekFrom::Start(start))?;
        reader.read_exact(&mut block)?;
        if let Some(newline) = block.iter().rposition(|byte| *byte == b'\n') {
            let after = start + newline as u64 + 1;
            let mut last = block.split_off(newline + 1);
            last.extend(rest);
            return Ok(if identity::event_of(&last).is_some() {
                length
            } else {
                after
            });
        }
        block.extend(rest);
        rest = block;
        end = start;
        if rest.len() > 64 << 20 {
            break;
        }
    }
    Ok(if identity::event_of(&rest).is_some() {
        length
    } else {
        0
    })
}

/// The number of bytes in an unfinished line at the end of a piece.
pub(super) fn torn_bytes(piece: &Piece) -> u64 {
    match piece.read {
        How::Lines => piece.bytes.saturating_sub(offset(piece.end)),
        How::CompressedLines | How::Whole => 0,
    }
}

/// The number in the file name of a segment (one of the numbered event files of a sink).
fn segment_number(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    let name = without_suffix(name).unwrap_or(name);
    SinkNames::of_segment(name)?.segment_index(name)
}
