//! Parses `.jsonl` files into columns: whole files or parts of files, in parallel.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use stormlog_format::json::parse_record;
use stormlog_format::scan::Scanner;
use stormlog_format::skeleton::Matcher;
use stormlog_format::{RecordDefaults, RecordError, Value, event_from_record};

use super::{LoadOptions, OnError};
use crate::bytes::{Block, LineBlocks, Piece, open, read_error};
use crate::columns::{Chunk, ChunkBuilder};
use crate::damage::MOST_LISTED;
use crate::load_error::LONGEST_LINE;
use crate::load_error::LoadError;
use crate::regular_file;

/// Files larger than this are split into parts of about this many bytes, each read by one task.
const PART: u64 = 8 << 20;

/// A part of a `.jsonl` file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Index of the file in the caller's list of files.
    pub(crate) file: usize,
    start: u64,
    end: u64,
    /// Size of the part in bytes; 0 when unknown before reading.
    bytes: u64,
    /// Maximum number of invalid lines that are listed in [`PartOutcome::problems`]; further ones
    /// are only counted.
    pub(crate) most_problems: usize,
}

impl Part {
    /// A part that consists of the lines between two offsets of a file. Both offsets must be at the
    /// beginning of a line.
    pub(crate) fn between(start: u64, end: u64) -> Self {
        Self {
            file: 0,
            start,
            end,
            bytes: end.saturating_sub(start),
            most_problems: MOST_LISTED,
        }
    }

    /// Whether the part begins at the beginning of its file.
    pub(crate) fn is_first(&self) -> bool {
        self.start == 0
    }
}

/// When a chunk of columns is passed to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// A chunk is passed on when it is full. This results in few chunks, and is used for events
    /// that stay in memory.
    Full,
    /// A chunk is passed on after each block, which takes little memory and delivers the first
    /// events early.
    PerBlock,
}

/// The result of reading a part of a file, without its events.
#[derive(Debug, Default)]
pub(crate) struct PartOutcome {
    /// Number of lines in the part, including blank ones.
    pub(crate) lines: u64,
    pub(crate) problems: Vec<Problem>,
    /// Number of problems beyond the listed ones.
    pub(crate) more: u64,
    /// Number of lines that the fast scanner did not accept and the general JSON parser read.
    unscanned: u64,
}

impl PartOutcome {
    /// Whether every line is a complete record of the current format.
    pub(crate) fn is_complete(&self) -> bool {
        self.unscanned == 0 && self.problems.is_empty()
    }
}

/// A line without a valid event.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Line number, counted from 0 within the part.
    pub(crate) line: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: ProblemKind,
    /// Whether the line is the last of the file and has no newline.
    pub(crate) torn: bool,
}

/// Why a line has no valid event.
#[derive(Debug)]
pub(crate) enum ProblemKind {
    NotUtf8 {
        offset: u64,
        byte: u8,
    },
    Malformed(String),
    TooLong,
    NotAnObject,
    BadRecord(RecordError),
    /// Reading the file failed at this line, for example in a truncated compressed file.
    Broken(std::io::Error),
}

/// Splits a file into parts that can be read in parallel; a compressed file is a single part.
pub(crate) fn parts(file: usize, path: &Path) -> Result<Vec<Part>, LoadError> {
    let source = open(path)?;
    let is_plain = source.compression.is_none();
    if !is_plain || source.file_size <= PART {
        let bytes = if is_plain { source.file_size } else { 0 };
        return Ok(vec![Part {
            file,
            start: 0,
            end: u64::MAX,
            bytes,
            most_problems: MOST_LISTED,
        }]);
    }
    let count = source.file_size.div_ceil(PART);
    let size = source.file_size.div_ceil(count);
    Ok((0..count)
        .map(|index| Part {
            file,
            start: index * size,
            bytes: size,
            most_problems: MOST_LISTED,
            end: if index + 1 == count {
                u64::MAX
            } else {
                (index + 1) * size
            },
        })
        .collect())
}

thread_local! {
    /// One buffer per worker thread is reused, so that reading does not request new memory pages
    /// from the system.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Recognizes metadata that differs from recent metadata only in its integers. Each worker
    /// thread keeps its matcher from file to file, because files of one run have similar metadata.
    static MATCHER: RefCell<Matcher> = RefCell::default();
}

/// Reads a part of a file and passes on its events, a chunk at a time. Reading stops after the
/// first problem unless the options allow skipping it.
pub(crate) fn read_part(
    path: &Path,
    part: Part,
    defaults: &RecordDefaults,
    options: &LoadOptions<'_>,
    chunks: Chunks,
    take: &mut dyn FnMut(Chunk),
) -> Result<PartOutcome, LoadError> {
    let failed = |source| read_error(path, source);
    let mut source = open(path)?;
    let reader: Box<dyn Read + Send> = if part.start == 0 {
        source.reader
    } else if source.compression.is_none() {
        let mut file = regular_file::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(part.start - 1)).map_err(failed)?;
        Box::new(file)
    } else {
        let mut before = source.reader.by_ref().take(part.start - 1);
        std::io::copy(&mut before, &mut std::io::sink()).map_err(failed)?;
        source.reader
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
        most_problems: part.most_problems,
        outcome: PartOutcome::default(),
        builder: None,
        matcher: MATCHER.take(),
        expected_bytes: match chunks {
            Chunks::Full => part.bytes,
            Chunks::PerBlock => 0,
        },
    };
    while let Some(piece) = blocks.next() {
        let go_on = match piece {
            Piece::Lines(block) => {
                (options.progress)(block.text.len() as u64);
                lines.read(&block)
            }
            Piece::TooLong(bytes) => {
                (options.progress)(bytes.end - bytes.start);
                lines.too_long(bytes)
            }
        };
        if !go_on {
            break;
        }
        if chunks == Chunks::PerBlock {
            lines.finish_chunk();
        }
    }
    if let Some(error) = blocks.broken.take() {
        lines.problem(0..0, ProblemKind::Broken(error), true);
    }
    BUFFER.set(blocks.into_buffer());
    MATCHER.set(std::mem::take(&mut lines.matcher));
    Ok(lines.finish())
}

/// Finds the first byte of a file that is not UTF-8. Invalid UTF-8 takes precedence over other
/// errors, because a file with invalid UTF-8 cannot be read as text at all.
pub(crate) fn first_that_is_no_text(path: &Path) -> Result<Option<ProblemKind>, LoadError> {
    let mut blocks = LineBlocks::new(open(path)?.reader, 0, u64::MAX, Vec::new());
    while let Some(piece) = blocks.next() {
        if let Piece::Lines(block) = piece
            && let Err(error) = std::str::from_utf8(block.text)
        {
            let index = error.valid_up_to();
            return Ok(Some(ProblemKind::NotUtf8 {
                offset: block.offset + index as u64,
                byte: block.text[index],
            }));
        }
    }
    Ok(None)
}

/// Parses lines into columns.
struct Lines<'d> {
    defaults: &'d RecordDefaults,
    take: &'d mut dyn FnMut(Chunk),
    go_on: bool,
    most_problems: usize,
    outcome: PartOutcome,
    builder: Option<ChunkBuilder>,
    /// Recognizes metadata that is similar to recent metadata; the scanner of one block passes the
    /// matcher to the scanner of the next block.
    matcher: Matcher,
    /// Number of bytes in the part; 0 when unknown.
    expected_bytes: u64,
}

impl Lines<'_> {
    /// Reads one block of lines. Returns false when a problem with a line ends the reading.
    fn read(&mut self, block: &Block<'_>) -> bool {
        let text = block.text;
        let is_text = std::str::from_utf8(text).is_ok();
        let mut scanner = Scanner::of_lines_with(std::mem::take(&mut self.matcher));
        if let Some(chunk) = self.builder.as_mut().and_then(ChunkBuilder::take_if_full) {
            (self.take)(chunk);
        }
        let mut place = 0;
        while place < text.len() {
            let expected = self.expected_bytes.max(text.len() as u64);
            let builder = self
                .builder
                .get_or_insert_with(|| ChunkBuilder::with_capacity(rows_in(expected, text)));
            if is_text
                && let Some((record, end)) = scanner.scan(text, place)
                && let Some(after) = after_newline(text, end)
            {
                builder.push_record(&record, scanner.metadata_numbers());
                scanner.took(&record);
                self.outcome.lines += 1;
                place = after;
                continue;
            }
            let end = memchr::memchr(b'\n', &text[place..]).map_or(text.len(), |step| place + step);
            let next = (end + 1).min(text.len());
            if !self.general(block, place..end, next, is_text) {
                return false;
            }
            place = next;
        }
        self.matcher = scanner.into_matcher();
        true
    }

    /// Reads the text between two newlines with the general JSON parser, which is slower than the
    /// scanner. Returns false when a problem with a line ends the reading. A carriage return ends a
    /// line too, as in Python's universal newlines; JSON strings cannot contain a raw carriage
    /// return.
    fn general(
        &mut self,
        block: &Block<'_>,
        range: std::ops::Range<usize>,
        next: usize,
        is_text: bool,
    ) -> bool {
        let mut start = range.start;
        while start < next {
            let rest = &block.text[start..range.end];
            let returned = memchr::memchr(b'\r', rest).map(|step| start + step);
            let end = returned.unwrap_or(range.end);
            let after = match returned {
                Some(index) if index + 1 < range.end => index + 1,
                // A carriage return directly before the newline is part of one line end (CRLF).
                _ => next,
            };
            let torn = block.torn && after == block.text.len() && after == end;
            let line = &block.text[start..end];
            if let Err(kind) = self.line(line, block.offset + start as u64, is_text) {
                let offset = |index| block.offset + index as u64;
                self.problem(offset(start)..offset(after), kind, torn);
                if !self.go_on && !torn {
                    return false;
                }
            }
            self.outcome.lines += 1;
            self.outcome.unscanned += 1;
            start = after;
        }
        true
    }

    /// Records that a line is too long. Returns false when the long line ends the reading.
    fn too_long(&mut self, bytes: std::ops::Range<u64>) -> bool {
        self.problem(bytes, ProblemKind::TooLong, false);
        self.outcome.lines += 1;
        self.go_on
    }

    /// Reads one line with the general JSON parser.
    fn line(&mut self, line: &[u8], offset: u64, is_text: bool) -> Result<(), ProblemKind> {
        if !is_text && let Err(error) = std::str::from_utf8(line) {
            let index = error.valid_up_to();
            return Err(ProblemKind::NotUtf8 {
                offset: offset + index as u64,
                byte: line[index],
            });
        }
        if line.len() > LONGEST_LINE {
            return Err(ProblemKind::TooLong);
        }
        if is_blank(line) {
            return Ok(());
        }
        match parse_record(line) {
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

    fn problem(&mut self, bytes: std::ops::Range<u64>, kind: ProblemKind, torn: bool) {
        if self.outcome.problems.len() >= self.most_problems {
            self.outcome.more += 1;
            return;
        }
        self.outcome.problems.push(Problem {
            line: self.outcome.lines,
            start: bytes.start,
            end: bytes.end,
            kind,
            torn,
        });
    }

    fn finish_chunk(&mut self) {
        if let Some(builder) = self.builder.take().filter(|builder| builder.len() > 0) {
            (self.take)(builder.finish());
        }
    }

    fn finish(mut self) -> PartOutcome {
        self.finish_chunk();
        self.outcome
    }
}

/// Estimates the number of rows in `bytes` bytes from the length of the first line.
fn rows_in(bytes: u64, text: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    let bytes = usize::try_from(bytes.min(4 * PART)).unwrap_or(0);
    // A line length below 256 bytes is not used, because a short first line is a poor estimate for
    // the others.
    bytes / line.max(256) + 1
}

/// The offset after the next newline; `None` when other text comes before the newline.
fn after_newline(text: &[u8], end: usize) -> Option<usize> {
    match &text[end..] {
        [] => Some(end),
        [b'\n', ..] => Some(end + 1),
        [b'\r', b'\n', ..] => Some(end + 2),
        _ => None,
    }
}

/// Whether the line contains only white space, in the sense of Python's `str.strip`.
fn is_blank(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(|text| stormlog_format::strip(text).is_empty())
}
