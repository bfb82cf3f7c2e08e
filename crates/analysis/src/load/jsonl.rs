//! Lines of JSON to columns: files and parts of files, in parallel.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use stormlog_format::json::parse;
use stormlog_format::scan::Scanner;
use stormlog_format::{RecordDefaults, RecordError, Value, event_from_record};

use super::bytes::{Block, Compression, LONGEST_LINE, LineBlocks, open};
use super::error::LoadError;
use super::{LoadOptions, OnError};
use crate::columns::{Chunk, ChunkBuilder};

/// Larger files are read in parts of about this size, one task each.
const PART: u64 = 8 << 20;

/// A part of a file of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Which of the caller's files.
    pub(crate) file: usize,
    start: u64,
    end: u64,
    /// Its size, 0 where only reading tells.
    bytes: u64,
}

/// What a part held besides events.
#[derive(Debug, Default)]
pub(crate) struct PartOutcome {
    /// Number of lines, blank ones included.
    pub(crate) lines: u64,
    pub(crate) problems: Vec<Problem>,
}

/// A line that gave no event.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Counted from 0 inside the part.
    pub(crate) line: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: ProblemKind,
    /// Whether it is the last line of the file and has no newline.
    pub(crate) torn: bool,
}

/// Why a line gave no event.
#[derive(Debug)]
pub(crate) enum ProblemKind {
    NotUtf8 {
        offset: u64,
        byte: u8,
    },
    Malformed(String),
    NotAnObject,
    BadRecord(RecordError),
    /// The stream broke off here (a compressed file that was cut, say).
    Broken(std::io::Error),
}

/// The parts of a file; compressed files are one part.
pub(crate) fn parts(file: usize, path: &Path) -> Result<Vec<Part>, LoadError> {
    let source = open(path)?;
    if source.compression != Compression::None || source.file_size <= PART {
        let bytes = if source.compression == Compression::None {
            source.file_size
        } else {
            0
        };
        return Ok(vec![Part {
            file,
            start: 0,
            end: u64::MAX,
            bytes,
        }]);
    }
    let count = source.file_size.div_ceil(PART);
    let size = source.file_size.div_ceil(count);
    Ok((0..count)
        .map(|place| Part {
            file,
            start: place * size,
            bytes: size,
            end: if place + 1 == count {
                u64::MAX
            } else {
                (place + 1) * size
            },
        })
        .collect())
}

thread_local! {
    /// One buffer per worker, so that reading does not ask the system for fresh pages.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads a part and hands over its events, a chunk at a time. Stops after the first
/// problem unless told to go on.
pub(crate) fn read_part(
    path: &Path,
    part: Part,
    defaults: &RecordDefaults,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<PartOutcome, LoadError> {
    let reader: Box<dyn Read + Send> = if part.start == 0 {
        open(path)?.reader
    } else {
        let failed = |source| LoadError::Io {
            file: path.into(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(part.start - 1)).map_err(failed)?;
        Box::new(file)
    };
    let buffer = BUFFER.take();
    let mut blocks = LineBlocks::new(reader, part.start.saturating_sub(1), part.end, buffer);
    if part.start > 0 {
        blocks.skip_first_line();
    }
    let mut lines = Lines {
        defaults,
        take,
        go_on: options.on_error == OnError::Skip,
        outcome: PartOutcome::default(),
        builder: None,
        expected_bytes: part.bytes,
    };
    while let Some(block) = blocks.next() {
        (options.progress)(block.text.len() as u64);
        if !lines.read(&block) {
            break;
        }
    }
    if let Some(error) = blocks.broken.take() {
        lines.problem(0..0, u64::MAX, ProblemKind::Broken(error), true);
    }
    BUFFER.set(blocks.into_buffer());
    Ok(lines.finish())
}

/// Reads lines into columns.
struct Lines<'d> {
    defaults: &'d RecordDefaults,
    take: &'d mut dyn FnMut(Chunk),
    go_on: bool,
    outcome: PartOutcome,
    builder: Option<ChunkBuilder>,
    /// Bytes that the part holds, as far as is known before reading.
    expected_bytes: u64,
}

impl Lines<'_> {
    /// Reads one block; false when a problem ends the reading.
    fn read(&mut self, block: &Block<'_>) -> bool {
        let text = block.text;
        let is_text = std::str::from_utf8(text).is_ok();
        let mut scanner = Scanner::default();
        if let Some(chunk) = self.builder.as_mut().and_then(ChunkBuilder::take_if_full) {
            (self.take)(chunk);
        }
        let mut place = 0;
        while place < text.len() {
            let expected = self.expected_bytes.max(text.len() as u64);
            let builder = self
                .builder
                .get_or_insert_with(|| ChunkBuilder::with_capacity(rows_in(expected, text)));
            if is_text && let Some((record, end)) = scanner.scan(text, place) {
                if let Some(after) = after_newline(text, end) {
                    builder.push_record(&record);
                    self.outcome.lines += 1;
                    place = after;
                    continue;
                }
                // A record that is not taken must not be remembered as the last one.
                scanner = Scanner::default();
            }
            let end = memchr::memchr(b'\n', &text[place..]).map_or(text.len(), |step| place + step);
            let next = (end + 1).min(text.len());
            let torn = block.torn && next == text.len();
            if let Err(kind) = self.general(&text[place..end], block.offset + place as u64, is_text)
            {
                self.problem(place..next, block.offset, kind, torn);
                if !self.go_on && !torn {
                    return false;
                }
            }
            self.outcome.lines += 1;
            place = next;
        }
        true
    }

    /// Reads what stands before a newline the general way. A carriage return ends a line
    /// too, as in Python's universal newlines; inside a record it can be no part of a string.
    fn general(&mut self, text: &[u8], offset: u64, is_text: bool) -> Result<(), ProblemKind> {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let mut place = 0;
        for (count, line) in text.split(|byte| *byte == b'\r').enumerate() {
            self.outcome.lines += u64::from(count > 0);
            self.line(line, offset + place as u64, is_text)?;
            place += line.len() + 1;
        }
        Ok(())
    }

    /// Reads one line the general way.
    fn line(&mut self, line: &[u8], offset: u64, is_text: bool) -> Result<(), ProblemKind> {
        if !is_text && let Err(error) = std::str::from_utf8(line) {
            let place = error.valid_up_to();
            return Err(ProblemKind::NotUtf8 {
                offset: offset + place as u64,
                byte: line[place],
            });
        }
        if line.len() > LONGEST_LINE {
            return Err(ProblemKind::Malformed(format!(
                "line longer than {LONGEST_LINE} bytes"
            )));
        }
        if is_blank(line) {
            return Ok(());
        }
        match parse(line) {
            Err(error) => Err(ProblemKind::Malformed(error.to_string())),
            Ok(Value::Map(record)) => {
                let event =
                    event_from_record(&record, self.defaults).map_err(ProblemKind::BadRecord)?;
                let builder = self
                    .builder
                    .get_or_insert_with(|| ChunkBuilder::with_capacity(16));
                builder.push_event(&event);
                Ok(())
            }
            Ok(_) => Err(ProblemKind::NotAnObject),
        }
    }

    fn problem(
        &mut self,
        bytes: std::ops::Range<usize>,
        offset: u64,
        kind: ProblemKind,
        torn: bool,
    ) {
        let start = offset.saturating_add(bytes.start as u64);
        let end = offset.saturating_add(bytes.end as u64);
        let line = self.outcome.lines;
        self.outcome.problems.push(Problem {
            line,
            start,
            end,
            kind,
            torn,
        });
    }

    fn finish(self) -> PartOutcome {
        if let Some(builder) = self.builder.filter(|builder| builder.len() > 0) {
            (self.take)(builder.finish());
        }
        self.outcome
    }
}

/// About how many rows so many bytes hold, judged by the first line.
fn rows_in(bytes: u64, text: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    let bytes = usize::try_from(bytes.min(4 * PART)).unwrap_or(0);
    // Short first lines tell little of the rest.
    bytes / line.max(256) + 1
}

/// The place after the newline, when nothing else stands before it.
fn after_newline(text: &[u8], end: usize) -> Option<usize> {
    match &text[end..] {
        [] => Some(end),
        [b'\n', ..] => Some(end + 1),
        [b'\r', b'\n', ..] => Some(end + 2),
        _ => None,
    }
}

/// Whether Python's `str.strip` leaves nothing of the line.
fn is_blank(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(|text| stormlog_format::strip(text).is_empty())
}
