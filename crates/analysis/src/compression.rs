//! Recognizes compressed files by their first bytes, and decompresses them.
//!
//! The name of a file says nothing about its content: a segment that was compressed afterwards may
//! have kept its name. Names count only where a compressed file is looked for or written.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::expansion::Expansion;

/// A compressed file may expand to this many bytes, or to 256 times its size, whichever is larger.
/// Telemetry compresses by much less than that ratio, so only a decompression bomb exceeds it.
const SMALL_FILE: u64 = 16 << 20;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// The format of the program `gzip`.
    Gzip,
    /// The format of the program `zstd`.
    Zstd,
}

impl Compression {
    const ALL: [Self; 2] = [Self::Gzip, Self::Zstd];

    /// The compression of an open file, detected by its first bytes; `None` if the file is not
    /// compressed. The next read begins at the start of the file.
    pub fn of(file: &mut File) -> io::Result<Option<Self>> {
        file.rewind()?;
        let mut first = Vec::with_capacity(4);
        Read::by_ref(file).take(4).read_to_end(&mut first)?;
        file.rewind()?;
        Ok(Self::of_start(&first))
    }

    /// The compression of a file that begins with some bytes; `None` if the file is not compressed.
    pub(crate) fn of_start(first: &[u8]) -> Option<Self> {
        match first {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A frame of data, or a skippable frame, with which `pzstd` begins every file.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Decompresses a stream, whatever it expands to.
    pub(crate) fn decoder<R: Read>(self, reader: R) -> io::Result<Decoder<R>> {
        Ok(match self {
            Self::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(reader)))),
            Self::Zstd => Decoder::Zstd(zstd::Decoder::new(reader)?),
        })
    }

    /// The compression that the name of a file suggests, in which a file of that name is to be
    /// written.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.to_string_lossy().to_lowercase();
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| name.ends_with(kind.suffix()))
    }

    /// The suffix of the names of files with this compression, such as `.gz`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }
}

/// Decompresses a stream.
pub(crate) enum Decoder<R: Read> {
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
    Zstd(zstd::Decoder<'static, BufReader<R>>),
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// The name without `.gz` or `.zst`; `None` if the name has no such suffix.
pub fn without_suffix(name: &str) -> Option<&str> {
    let mut kinds = Compression::ALL.into_iter();
    kinds.find_map(|kind| name.strip_suffix(kind.suffix()))
}

/// The names under which a file may be stored: its plain name, then the names with the suffixes of
/// compressed files.
pub(crate) fn with_suffixes(name: &str) -> impl Iterator<Item = String> + '_ {
    let suffixes = Compression::ALL.map(Compression::suffix);
    let suffixes = std::iter::once("").chain(suffixes);
    suffixes.map(move |suffix| format!("{name}{suffix}"))
}

/// Reads a file from its start, decompressed if the file is compressed. Reading fails when a
/// compressed file expands too far ([`expands_too_far`]).
pub fn decompressed(mut file: File) -> io::Result<(Box<dyn Read + Send>, Option<Compression>)> {
    let compression = Compression::of(&mut file)?;
    let expansion = Expansion::of(&file.metadata()?, SMALL_FILE);
    let reader: Box<dyn Read + Send> = match compression {
        None => Box::new(file),
        Some(compression) => Box::new(Bounded {
            reader: compression.decoder(file)?,
            expansion,
        }),
    };
    Ok((reader, compression))
}

/// The number of bytes that a compressed file may expand to, if the error says that it expands to
/// more.
pub fn expands_too_far(error: &io::Error) -> Option<u64> {
    let TooFar { limit } = error.get_ref()?.downcast_ref()?;
    Some(*limit)
}

/// A reader that fails when the decompressed bytes are too many.
struct Bounded<R> {
    reader: R,
    expansion: Expansion,
}

/// The error for a compressed file that expands to more bytes than its size allows.
#[derive(Debug, thiserror::Error)]
#[error("the file expands to more than {limit} bytes, out of proportion to its size")]
struct TooFar {
    limit: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if self.expansion.add(read as u64) {
            return Ok(read);
        }
        let limit = self.expansion.limit();
        Err(io::Error::other(TooFar { limit }))
    }
}
