//! Bytes of files, plain or compressed, in blocks of whole lines or as a whole.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::error::LoadError;
use crate::regular_file;

/// How many bytes are read and parsed at a time: small enough to stay in the cache.
const BLOCK: usize = 1 << 20;

/// A longer line is no telemetry record; it is skipped as damage.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// A compressed file may grow to this size, or to [`LARGEST_RATIO`] times its own, several
/// times what telemetry is compressed by.
const SMALL_FILE: u64 = 16 << 20;
const LARGEST_RATIO: u64 = 256;

/// How a file is compressed, judged by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// A file opened for reading, decompressed on the way.
pub(crate) struct Source {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) compression: Compression,
    pub(crate) file_size: u64,
}

/// Opens a file that the user named, or that was found in an artifact, and finds out how it is
/// compressed.
pub(crate) fn open(path: &Path) -> Result<Source, LoadError> {
    if path.is_dir() {
        return Err(LoadError::NotAnArtifact(path.into()));
    }
    let file = regular_file::open(path);
    source_of(file.map_err(|source| read_error(path, source))?, path)
}

fn source_of(mut file: File, path: &Path) -> Result<Source, LoadError> {
    let failed = |source| read_error(path, source);
    let metadata = file.metadata().map_err(failed)?;
    let mut magic = Vec::with_capacity(4);
    Read::by_ref(&mut file)
        .take(4)
        .read_to_end(&mut magic)
        .map_err(failed)?;
    let compression = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Compression::Zstd,
        _ => Compression::None,
    };
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let limit = metadata.len().saturating_mul(LARGEST_RATIO).max(SMALL_FILE);
    let reader: Box<dyn Read + Send> = match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => {
            let decoder = flate2::bufread::MultiGzDecoder::new(BufReader::new(file));
            Box::new(Bounded::new(decoder, limit))
        }
        Compression::Zstd => {
            let decoder = zstd::Decoder::new(file).map_err(failed)?;
            Box::new(Bounded::new(decoder, limit))
        }
    };
    Ok(Source {
        reader,
        compression,
        file_size: metadata.len(),
    })
}

/// What decompresses to more bytes than its limit fails there.
struct Bounded<R> {
    reader: R,
    limit: u64,
    left: u64,
}

/// More was decompressed than the file's size allows.
#[derive(Debug, thiserror::Error)]
#[error("it expands to more than {limit} bytes, out of proportion to its size")]
struct TooFar {
    limit: u64,
}

impl<R> Bounded<R> {
    fn new(reader: R, limit: u64) -> Self {
        Self {
            reader,
            limit,
            left: limit,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(TooFar { limit: self.limit })),
        }
        Ok(read)
    }
}

/// Why a file cannot be read (any further).
pub(crate) fn read_error(file: &Path, source: io::Error) -> LoadError {
    let too_far = too_far(&source);
    match too_far {
        Some(TooFar { limit }) => LoadError::ExpandsTooFar {
            file: file.into(),
            limit: *limit,
        },
        None if source.kind() == io::ErrorKind::NotFound => LoadError::NotFound(file.into()),
        None => LoadError::Io {
            file: file.into(),
            source,
        },
    }
}

/// Whether a compressed stream ended where it should not have: what a crash, or a copy
/// that was cut off, leaves.
pub(crate) fn is_cut_off(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && too_far(error).is_none()
}

fn too_far(error: &io::Error) -> Option<&TooFar> {
    error.get_ref()?.downcast_ref()
}

/// Reads a whole document, which must be UTF-8.
pub fn read_document(path: &Path) -> Result<Vec<u8>, LoadError> {
    read_text(open(path)?, path, u64::MAX)
}

/// No manifest or other file beside the events is longer; whatever is would only fill the memory.
const LONGEST_BESIDE: u64 = 256 << 20;

/// Reads a document of an artifact that describes it, such as a manifest.
pub(crate) fn read_beside(artifact: &Path, path: &Path) -> Result<Vec<u8>, LoadError> {
    let file = regular_file::open_inside(artifact, path);
    let source = source_of(file.map_err(|source| read_error(path, source))?, path)?;
    read_text(source, path, LONGEST_BESIDE)
}

/// Reads a document that describes an artifact and was found in one of the given paths.
pub(crate) fn read_described(path: &Path) -> Result<Vec<u8>, LoadError> {
    read_text(open(path)?, path, LONGEST_BESIDE)
}

fn read_text(source: Source, path: &Path, most_bytes: u64) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    let mut reader = source.reader.take(most_bytes.saturating_add(1));
    let outcome = reader.read_to_end(&mut bytes);
    outcome.map_err(|source| read_error(path, source))?;
    if bytes.len() as u64 > most_bytes {
        let too_large = regular_file::Refused::TooLarge(most_bytes);
        return Err(read_error(path, too_large.into()));
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

/// Cuts a stream of bytes into blocks that end where lines end.
pub(crate) struct LineBlocks<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where in the buffer the unread part of the last block begins.
    used: usize,
    /// Offset of the buffer's first byte.
    offset: u64,
    /// Lines that start at or after this offset belong to the next part.
    end: u64,
    finished: bool,
    /// Why the stream ended early, if it did.
    pub(crate) broken: Option<io::Error>,
}

/// Whole lines, and where they begin.
pub(crate) struct Block<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) offset: u64,
    /// Whether the last line has no newline because the file ends there.
    pub(crate) torn: bool,
}

/// What comes next in a file of lines.
pub(crate) enum Piece<'a> {
    Lines(Block<'a>),
    /// A line longer than [`LONGEST_LINE`], of which only the place is known.
    TooLong(Range<u64>),
}

impl<R: Read> LineBlocks<R> {
    /// Reads from `reader`, whose first byte stands at `offset`, all lines that start
    /// before `end`. The buffer is reused.
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

    /// Passes over everything up to and with the first newline.
    pub(crate) fn skip_first_line(&mut self) {
        self.buffer.clear();
        loop {
            if let Some(place) = memchr::memchr(b'\n', &self.buffer) {
                self.used = place + 1;
                return;
            }
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
            if self.fill(BLOCK) == 0 {
                return;
            }
        }
    }

    /// The next lines, or nothing at the end.
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
            if let Some(place) = self.last_line_end(ours, searched) {
                self.used = place;
                return Some(Piece::Lines(self.block()));
            }
            searched = self.buffer.len();
            if searched > LONGEST_LINE {
                // Lines before the long one may wait where another part of the file ended.
                if let Some(place) = memchr::memrchr(b'\n', &self.buffer) {
                    self.used = place + 1;
                    return Some(Piece::Lines(self.block()));
                }
                return Some(Piece::TooLong(self.pass_over_line()));
            }
            // What lies before the end comes in large steps; after it, only the rest of a line.
            let step = ours.saturating_sub(searched).clamp(1 << 12, BLOCK);
            if self.fill(step) == 0 {
                self.finished = true;
                self.used = self.buffer.len();
                let block = Some(self.block()).filter(|block| !block.text.is_empty());
                return block.map(Piece::Lines);
            }
        }
    }

    /// Drops the line that the buffer begins with and gives its place.
    fn pass_over_line(&mut self) -> Range<u64> {
        let start = self.offset;
        loop {
            if let Some(place) = memchr::memchr(b'\n', &self.buffer) {
                self.used = place + 1;
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

    /// Where the last whole line of ours ends, in the part not yet searched.
    fn last_line_end(&self, ours: usize, searched: usize) -> Option<usize> {
        if self.buffer.len() < ours {
            let place = memchr::memrchr(b'\n', &self.buffer[searched..])?;
            return Some(searched + place + 1);
        }
        // The line that holds the byte before the end is the last one that is ours.
        let from = searched.max(ours - 1);
        memchr::memchr(b'\n', &self.buffer[from..]).map(|place| from + place + 1)
    }

    fn block(&self) -> Block<'_> {
        let text = &self.buffer[..self.used];
        Block {
            text,
            offset: self.offset,
            torn: text.last() != Some(&b'\n'),
        }
    }

    /// Reads at most `bytes` more bytes; 0 at the end or when the stream breaks off.
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

    /// Gives the buffer back for the next file.
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
