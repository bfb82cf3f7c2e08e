//! Reads a pack: a tar archive of regular files, compressed with zstd. A pack is hostile input:
//! tar's extensions for long names and links are not interpreted. The path of an entry is therefore
//! always the short one in its header, and no entry can make the reader allocate memory for a long
//! name.
//!
//! The number of bytes written is limited by the size of the pack and by the total that the pack's
//! header declares.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use stormlog_format::Map;
use stormlog_format::json::{Layout, Writer, parse_object};

use super::{DEEPEST, PackError};
use crate::regular_file;

/// The name of the first entry of a pack, which describes the other entries and is not unpacked.
pub const HEADER: &str = "stormlog-pack.json";
/// The version of the pack format.
pub const VERSION: i64 = 1;
/// Maximum number of files in a pack. For comparison, a run of 500 ranks has a few thousand files.
pub const MOST_FILES: u64 = 50_000;

/// The magic number at the start of every zstd file.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const FORMAT: &str = "stormlog-pack";
const LARGEST_HEADER: u64 = 64 << 10;
/// A pack may expand to `SMALL` bytes or to `LARGEST_RATIO` times its size, whichever is larger.
/// Telemetry compresses by a factor of 10 to 100, so only a decompression bomb exceeds the limit.
const SMALL: u64 = 256 << 20;
const LARGEST_RATIO: u64 = 1_000;
/// The largest window of the zstd decoder has 2 to the power of this many bytes (128 MiB). The
/// program `zstd` has the same default limit for the window.
const WINDOW_LOG: u32 = 27;

/// The number and size of the files that a pack declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Number of files in the pack.
    pub files: u64,
    /// Total size of the unpacked files in bytes.
    pub bytes: u64,
}

/// The text of the first entry of a pack, which declares the given contents.
pub fn header(content: Content, written_by: &str) -> String {
    let mut map = Map::new();
    map.insert("format", FORMAT);
    map.insert("version", VERSION);
    map.insert("stormlog", written_by);
    map.insert("files", i64::try_from(content.files).unwrap_or(i64::MAX));
    map.insert("bytes", i64::try_from(content.bytes).unwrap_or(i64::MAX));
    let mut text = Writer::new(Layout::Indented).map_to_string(&map);
    text.push('\n');
    text
}

/// Reads a whole pack to check it, without writing any file.
pub fn check(pack: &Path) -> Result<Content, PackError> {
    read(pack, None)
}

/// Unpacks a pack into a new folder.
pub(super) fn unpack(pack: &Path, into: &Path) -> Result<Content, PackError> {
    read(pack, Some(into))
}

fn read(pack: &Path, into: Option<&Path>) -> Result<Content, PackError> {
    let mut file = regular_file::open(pack).map_err(PackError::Read)?;
    let mut magic = [0; 4];
    let begins = file.read_exact(&mut magic).and_then(|()| file.rewind());
    if begins.is_err() || magic != MAGIC {
        return Err(PackError::NotAPack);
    }
    let size = file.metadata().map_err(PackError::Read)?.len();
    let limit = SMALL.max(size.saturating_mul(LARGEST_RATIO));
    let mut decoder = zstd::Decoder::new(file).map_err(PackError::Read)?;
    decoder
        .window_log_max(WINDOW_LOG)
        .map_err(PackError::Read)?;
    let mut bounded = Bounded {
        inner: BufReader::with_capacity(1 << 18, decoder),
        left: limit,
        is_exceeded: false,
    };
    let outcome = read_entries(&mut bounded, into);
    if bounded.is_exceeded {
        return Err(PackError::ExpandsTooFar { limit });
    }
    outcome
}

fn read_entries(tar: &mut Bounded<impl Read>, into: Option<&Path>) -> Result<Content, PackError> {
    let mut archive = tar::Archive::new(&mut *tar);
    let mut entries = archive.entries().map_err(damaged)?.raw(true);
    let first = entries.next().transpose().map_err(damaged)?;
    let declared = declared(first.ok_or(PackError::NotAPack)?)?;
    if let Some(folder) = into {
        fs::create_dir(folder).map_err(|cause| cannot_write(folder, cause))?;
    }
    let mut found = Content::default();
    for entry in entries {
        let entry = entry.map_err(damaged)?;
        let name = name_of(&entry)?;
        found.files += 1;
        found.bytes = found.bytes.saturating_add(entry.size());
        if found.files > MOST_FILES {
            return Err(PackError::TooManyFiles);
        }
        if found.files > declared.files || found.bytes > declared.bytes {
            let what = "the pack contains more files or bytes than its header declares";
            return Err(PackError::Damaged(what.to_owned()));
        }
        match into {
            Some(folder) => write(entry, &folder.join(name))?,
            None => drain(entry)?,
        }
    }
    // The rest of the stream is read too, because the checksum of the compressed data is at its
    // end.
    drain(tar)?;
    if found != declared {
        let what = format!("{} of {} files", found.files, declared.files);
        return Err(PackError::Damaged(what));
    }
    Ok(found)
}

/// The contents that the first entry of a pack declares.
fn declared(entry: tar::Entry<'_, impl Read>) -> Result<Content, PackError> {
    let is_header = entry.path_bytes() == HEADER.as_bytes() && entry.size() <= LARGEST_HEADER;
    if !is_header {
        return Err(PackError::NotAPack);
    }
    let mut text = Vec::new();
    entry
        .take(LARGEST_HEADER)
        .read_to_end(&mut text)
        .map_err(damaged)?;
    let map = parse_object(&text).ok_or(PackError::NotAPack)?;
    let format = map.text("format");
    let number = |key: &str| map.int(key);
    match (
        format.is_some_and(|format| *format == FORMAT),
        number("version"),
    ) {
        (true, Some(VERSION)) => {}
        (true, Some(version)) if version > VERSION => return Err(PackError::Newer(version)),
        _ => return Err(PackError::NotAPack),
    }
    let count = |key: &str| {
        let count = number(key).and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| {
            PackError::Damaged(format!(
                "the header of the pack does not declare its number of {key}"
            ))
        })
    };
    Ok(Content {
        files: count("files")?,
        bytes: count("bytes")?,
    })
}

/// The path of an entry, which must be a regular file inside the folder that the pack is unpacked
/// into.
fn name_of(entry: &tar::Entry<'_, impl Read>) -> Result<PathBuf, PackError> {
    let bytes = entry.path_bytes();
    let shown = || String::from_utf8_lossy(&bytes).into_owned();
    if !entry.header().entry_type().is_file() {
        return Err(PackError::NotRegular { name: shown() });
    }
    let bad = || PackError::BadName { name: shown() };
    let name = std::str::from_utf8(&bytes).map_err(|_| bad())?;
    let parts = Path::new(name).components();
    let is_plain = name.split('/').count() <= DEEPEST + 1
        && name.split('/').count() == parts.clone().count()
        && parts
            .clone()
            .all(|part| matches!(part, Component::Normal(_)))
        && !name.contains(char::is_control);
    if is_plain {
        Ok(name.into())
    } else {
        Err(bad())
    }
}

fn write(mut entry: tar::Entry<'_, impl Read>, path: &Path) -> Result<(), PackError> {
    let write = |cause| cannot_write(path, cause);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(write)?;
    }
    // Opening fails if the file exists already, or if a link was created at its path meanwhile.
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(write)?;
    copy(&mut entry, &mut file, path)?;
    let modified = entry.header().mtime().map_err(damaged)?;
    if let Some(modified) = UNIX_EPOCH.checked_add(Duration::from_secs(modified)) {
        // The error is ignored, because a timestamp that the file system cannot store does not
        // invalidate the file's contents.
        let _ = file.set_modified(modified);
    }
    Ok(())
}

/// Copies the data of an entry to a file, and distinguishes read errors from write errors.
fn copy(from: &mut impl Read, to: &mut File, path: &Path) -> Result<(), PackError> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged(error)),
        };
        io::Write::write_all(to, &buffer[..count]).map_err(|cause| cannot_write(path, cause))?;
    }
}

fn drain(mut from: impl Read) -> Result<(), PackError> {
    io::copy(&mut from, &mut io::sink())
        .map(drop)
        .map_err(damaged)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`map_err` passes the error by value"
)]
fn damaged(error: io::Error) -> PackError {
    PackError::Damaged(if error.kind() == io::ErrorKind::UnexpectedEof {
        "the pack ends too early".to_owned()
    } else {
        error.to_string()
    })
}

fn cannot_write(path: &Path, cause: io::Error) -> PackError {
    PackError::Write {
        folder: regular_file::folder_of(path).to_path_buf(),
        cause,
    }
}

/// A reader that fails when a pack expands to more bytes than allowed.
struct Bounded<R> {
    inner: R,
    left: u64,
    is_exceeded: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            // A pack that ends exactly at the limit is accepted.
            let more = self.inner.read(&mut [0])?;
            self.is_exceeded = more > 0;
            return if more > 0 {
                Err(io::Error::other(
                    "the pack expands to more than the allowed size",
                ))
            } else {
                Ok(0)
            };
        }
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}
