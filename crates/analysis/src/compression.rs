//! Recognizes compressed files by their first bytes, and decompresses them.
//!
//! The name of a file says nothing about its content: a segment that was compressed afterwards may
//! have kept its name. Names count only where a compressed file is looked for or written.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::Path;

/// A compressed file may expand to `SMALL_FILE` bytes or to [`LARGEST_RATIO`] times its size,
/// whichever is larger. Telemetry compresses by much less than that ratio, so only a decompression
/// bomb exceeds it.
const SMALL_FILE: u64 = 16 << 20;
const LARGEST_RATIO: u64 = 256;

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
        Ok(match first.as_slice() {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A frame of data, or a skippable frame, with which `pzstd` begins every file.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
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
    let limit = file.metadata()?.len().saturating_mul(LARGEST_RATIO);
    let limit = limit.max(SMALL_FILE);
    let reader: Box<dyn Read + Send> = match compression {
        None => Box::new(file),
        Some(Compression::Gzip) => {
            let decoder = flate2::bufread::MultiGzDecoder::new(BufReader::new(file));
            Box::new(Bounded::new(decoder, limit))
        }
        Some(Compression::Zstd) => Box::new(Bounded::new(zstd::Decoder::new(file)?, limit)),
    };
    Ok((reader, compression))
}

/// The number of bytes that a compressed file may expand to, if the error says that it expands to
/// more.
pub fn expands_too_far(error: &io::Error) -> Option<u64> {
    let TooFar { limit } = error.get_ref()?.downcast_ref()?;
    Some(*limit)
}

/// A reader that fails after `limit` decompressed bytes.
struct Bounded<R> {
    reader: R,
    limit: u64,
    left: u64,
}

/// The error for a compressed file that expands to more bytes than its size allows.
#[derive(Debug, thiserror::Error)]
#[error("the file expands to more than {limit} bytes, out of proportion to its size")]
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
