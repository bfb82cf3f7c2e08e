//! Reads plain or compressed files, in blocks of whole lines or all at once.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use stormlog_format::Map;
use stormlog_format::json::parse_object;

use crate::compression::{Compression, decompressed, expands_too_far};
use crate::load_error::{LONGEST_LINE, LoadError};
use crate::regular_file;

/// Number of bytes read and parsed at a time, small enough to stay in the processor's cache.
const BLOCK: usize = 1 << 20;

/// A file opened for reading, with transparent decompression.
pub(crate) struct Source {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) compression: Option<Compression>,
    pub(crate) file_size: u64,
}

/// Opens a file that the user named or that was found in an artifact, and detects its compression.
pub(crate) fn open(path: &Path) -> Result<Source, LoadError> {
    if path.is_dir() {
        return Err(LoadError::NotAnArtifact(path.into()));
    }
    let file = regular_file::open(path);
    source_of(file.map_err(|source| read_error(path, source))?, path)
}

/// Opens a file inside an artifact, and detects its compression.
pub(crate) fn open_beside(artifact: &Path, path: &Path) -> Result<Source, LoadError> {
    let file = regular_file::open_inside(artifact, path);
    source_of(file.map_err(|source| read_error(path, source))?, path)
}

fn source_of(file: File, path: &Path) -> Result<Source, LoadError> {
    let failed = |source| read_error(path, source);
    let file_size = file.metadata().map_err(failed)?.len();
    let (reader, compression) = decompressed(file).map_err(failed)?;
    Ok(Source {
        reader,
        compression,
        file_size,
    })
}

/// Converts an I/O error of a file to a [`LoadError`].
pub(crate) fn read_error(file: &Path, source: io::Error) -> LoadError {
    match expands_too_far(&source) {
        Some(limit) => LoadError::ExpandsTooFar {
            file: file.into(),
            limit,
        },
        None if source.kind() == io::ErrorKind::NotFound => LoadError::NotFound(file.into()),
        None => LoadError::Io {
            file: file.into(),
            source,
        },
    }
}

/// Whether a compressed stream ended too early, as after a crash or an incomplete copy.
pub(crate) fn is_cut_off(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && expands_too_far(error).is_none()
}

/// A document that is not read record by record is rejected if it has more bytes than this, so that
/// a huge file cannot fill the memory.
pub(crate) const LONGEST_DOCUMENT: u64 = 256 << 20;

/// Reads a whole document, which must be UTF-8.
pub fn read_document(path: &Path) -> Result<Vec<u8>, LoadError> {
    read_text(open(path)?, path, LONGEST_DOCUMENT)
}

/// Reads a file inside an artifact that describes the artifact, such as a manifest.
pub(crate) fn read_beside(artifact: &Path, path: &Path) -> Result<Vec<u8>, LoadError> {
    read_text(open_beside(artifact, path)?, path, LONGEST_DOCUMENT)
}

/// Reads a file that describes an artifact, such as a manifest; `None` unless it contains a JSON
/// object. The user gave its path, or it was found below a path that the user gave.
pub(crate) fn read_object(path: &Path) -> Option<Map> {
    parse_object(&read_text(open(path).ok()?, path, LONGEST_DOCUMENT).ok()?)
}

/// Reads a file inside an artifact, like [`read_beside`]; `None` unless it contains a JSON object.
pub(crate) fn read_object_beside(artifact: &Path, path: &Path) -> Option<Map> {
    parse_object(&read_beside(artifact, path).ok()?)
}

fn read_text(source: Source, path: &Path, most_bytes: u64) -> Result<Vec<u8>, LoadError> {
    let too_large = || read_error(path, regular_file::Refused::TooLarge(most_bytes).into());
    if source.file_size > most_bytes {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut reader = source.reader.take(most_bytes.saturating_add(1));
    let outcome = reader.read_to_end(&mut bytes);
    outcome.map_err(|source| read_error(path, source))?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_large());
    }
    if let Err(error) = std::str::from_utf8(&bytes) {
        let offset = error.valid_up_to();
        return Err(LoadError::NotUtf8 {
            file: path.into(),
            offset: offset as u64,
            byte: bytes[offset],
        });
    }
    Ok(bytes)
}

/// Splits a stream of bytes into blocks of whole lines.
pub(crate) struct LineBlocks<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Start of the bytes in the buffer that were not returned yet.
    used: usize,
    /// File offset of the buffer's first byte.
    offset: u64,
    /// The file offset at which this part of the file ends (a large file is read in several parts).
    /// Lines that start at or after this offset belong to the next part.
    end: u64,
    finished: bool,
    /// The read error that ended the stream early, if any.
    pub(crate) broken: Option<io::Error>,
}

/// A block of whole lines, with the file offset of the first line.
pub(crate) struct Block<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) offset: u64,
    /// Whether the last line of the block has no newline because the file ends there.
    pub(crate) torn: bool,
}

/// The next piece of a `.jsonl` file.
pub(crate) enum Piece<'a> {
    Lines(Block<'a>),
    /// A line longer than [`LONGEST_LINE`], of which only the byte range is known.
    TooLong(Range<u64>),
}

impl<R: Read> LineBlocks<R> {
    /// Reads all lines that start before `end` from `reader`, whose first byte is at file offset
    /// `offset`. The given buffer is reused to avoid an allocation.
    pub(crate) fn new(reader: R, offset: u64, end: u64, buffer: Vec<u8>) -> Self {
        Self {
            reader,
            buffer,
            used: 0,
            offset,
            end,
            finished: false,
            broken: None,
        }
    }

    /// Skips all bytes up to and including the first newline.
    pub(crate) fn skip_first_line(&mut self) {
        self.buffer.clear();
        loop {
            if let Some(index) = memchr::memchr(b'\n', &self.buffer) {
                self.used = index + 1;
                return;
            }
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
            if self.fill(BLOCK) == 0 {
                return;
            }
        }
    }

    /// The next block of lines; `None` at the end of this part of the file.
    pub(crate) fn next(&mut self) -> Option<Piece<'_>> {
        self.buffer.drain(..self.used);
        self.offset += self.used as u64;
        self.used = 0;
        if self.finished || self.offset >= self.end {
            return None;
        }
        let ours = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let mut searched = 0;
        loop {
            if let Some(index) = self.last_line_end(ours, searched) {
                self.used = index;
                return Some(Piece::Lines(self.block()));
            }
            searched = self.buffer.len();
            if searched > LONGEST_LINE {
                // The buffer may still contain lines before the long one.
                if let Some(index) = memchr::memrchr(b'\n', &self.buffer) {
                    self.used = index + 1;
                    return Some(Piece::Lines(self.block()));
                }
                return Some(Piece::TooLong(self.skip_long_line()));
            }
            // Up to the offset `end`, large blocks are read; after `end`, only the rest of the last
            // line is needed.
            let step = ours.saturating_sub(searched).clamp(1 << 12, BLOCK);
            if self.fill(step) == 0 {
                self.finished = true;
                self.used = self.buffer.len();
                let block = Some(self.block()).filter(|block| !block.text.is_empty());
                return block.map(Piece::Lines);
            }
        }
    }

    /// Skips the line at the start of the buffer and returns its byte range.
    fn skip_long_line(&mut self) -> Range<u64> {
        let start = self.offset;
        loop {
            if let Some(index) = memchr::memchr(b'\n', &self.buffer) {
                self.used = index + 1;
                return start..self.offset + self.used as u64;
            }
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
            if self.fill(BLOCK) == 0 {
                self.finished = true;
                return start..self.offset;
            }
        }
    }

    /// The end of the last whole line that belongs to this part of the file, in the bytes not yet
    /// searched.
    fn last_line_end(&self, ours: usize, searched: usize) -> Option<usize> {
        if self.buffer.len() < ours {
            let index = memchr::memrchr(b'\n', &self.buffer[searched..])?;
            return Some(searched + index + 1);
        }
        // The line that contains the byte before the offset `end` is the last line of this part.
        let from = searched.max(ours - 1);
        memchr::memchr(b'\n', &self.buffer[from..]).map(|index| from + index + 1)
    }

    fn block(&self) -> Block<'_> {
        let text = &self.buffer[..self.used];
        Block {
            text,
            offset: self.offset,
            torn: text.last() != Some(&b'\n'),
        }
    }

    /// Reads up to `bytes` more bytes into the buffer. Returns 0 at the end of the file or after a
    /// read error.
    fn fill(&mut self, bytes: usize) -> usize {
        let before = self.buffer.len();
        let outcome = Read::by_ref(&mut self.reader)
            .take(bytes as u64)
            .read_to_end(&mut self.buffer);
        if let Err(error) = outcome {
            self.broken = Some(error);
        }
        self.buffer.len() - before
    }

    /// Returns the buffer, so that it can be reused for the next file.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        let mut buffer = self.buffer;
        buffer.clear();
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &[u8], cuts: &[u64]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for pair in cuts.windows(2) {
            let start = pair[0].saturating_sub(1);
            let reader = &text[usize::try_from(start).expect("small")..];
            let mut blocks = LineBlocks::new(reader, start, pair[1], Vec::new());
            if pair[0] > 0 {
                blocks.skip_first_line();
            }
            while let Some(piece) = blocks.next() {
                let Piece::Lines(block) = piece else {
                    panic!("no line is too long");
                };
                lines.extend(
                    block
                        .text
                        .split_inclusive(|byte| *byte == b'\n')
                        .map(<[u8]>::to_vec),
                );
            }
        }
        lines
    }

    #[test]
    fn every_line_belongs_to_one_part() {
        let text = b"alpha\nb\n\nlonger line here\nlast";
        let whole: Vec<Vec<u8>> = text
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        let size = text.len() as u64;
        for cut in 0..=size {
            for second in cut..=size {
                assert_eq!(
                    lines_of(text, &[0, cut, second, size]),
                    whole,
                    "{cut} {second}"
                );
            }
        }
    }

    #[test]
    fn lines_longer_than_a_block() {
        let mut text = vec![b'x'; 3 * BLOCK];
        text.push(b'\n');
        text.extend(b"tail");
        let size = text.len() as u64;
        let lines = lines_of(&text, &[0, size]);
        assert_eq!(
            lines.iter().map(Vec::len).collect::<Vec<_>>(),
            [3 * BLOCK + 1, 4]
        );
    }
}
