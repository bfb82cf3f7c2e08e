//! Reads a pack: a tar archive of regular files, compressed with zstd. A pack is hostile input:
//! tar's extensions for long names and links are not interpreted. The path of an entry is therefore
//! always the short one in its header, and no entry can make the reader allocate memory for a long
//! name.
//!
//! The number of bytes written is limited by the size of the pack, by the total that the pack's
//! header declares, and by the room on the disk. What the compressed files in a pack expand to counts
//! too, because every reader decompresses them.

use std::cell::RefCell;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use stormlog_format::Map;
use stormlog_format::json::{Layout, Writer, parse_object};

use super::{DEEPEST, PackError};
use crate::compression::Compression;
use crate::expansion::Expansion;
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
/// A pack may expand to this many bytes, or to 256 times its size, whichever is larger. Telemetry
/// compresses by a factor of 10 to 100, so only a decompression bomb exceeds the limit.
const SMALL: u64 = 32 << 20;
/// The room on the disk that the smallest file takes, in bytes.
const DISK_BLOCK: u64 = 4096;
/// This part of the free room in the folder for temporary files is left free.
const LEFT_FREE: u64 = 8;
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
    let facts = file.metadata().map_err(PackError::Read)?;
    let expansion = RefCell::new(Expansion::of(&facts, SMALL));
    let mut decoder = zstd::Decoder::new(file).map_err(PackError::Read)?;
    decoder
        .window_log_max(WINDOW_LOG)
        .map_err(PackError::Read)?;
    let mut bounded = Bounded {
        inner: BufReader::with_capacity(1 << 18, decoder),
        expansion: &expansion,
    };
    let outcome = read_entries(&mut bounded, into, &expansion);
    let expansion = expansion.borrow();
    if expansion.is_exceeded() {
        let limit = expansion.limit();
        return Err(PackError::ExpandsTooFar { limit });
    }
    outcome
}

fn read_entries(
    tar: &mut Bounded<'_, impl Read>,
    into: Option<&Path>,
    expansion: &RefCell<Expansion>,
) -> Result<Content, PackError> {
    let mut archive = tar::Archive::new(&mut *tar);
    let mut entries = archive.entries().map_err(damaged)?.raw(true);
    let first = entries.next().transpose().map_err(damaged)?;
    let declared = declared(first.ok_or(PackError::NotAPack)?)?;
    if let Some(folder) = into {
        check_room(folder, declared)?;
        let created = private_folders().create(folder);
        created.map_err(|cause| cannot_write(folder, cause))?;
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
        // On the disk, a file takes whole blocks.
        let block = entry.size().next_multiple_of(DISK_BLOCK).max(DISK_BLOCK);
        if !expansion.borrow_mut().add(block - entry.size()) {
            return Err(PackError::TooManyFiles);
        }
        match into {
            Some(folder) => write(entry, &folder.join(name), expansion)?,
            None => copy(entry, None, &name, expansion)?,
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

/// Checks that the content that a pack declares leaves room on the disk.
fn check_room(folder: &Path, declared: Content) -> Result<(), PackError> {
    let folder = regular_file::folder_of(folder);
    let Ok(disk) = rustix::fs::statvfs(folder) else {
        return Ok(());
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let free = free - free / LEFT_FREE;
    if declared.bytes <= free {
        return Ok(());
    }
    Err(PackError::NoRoom {
        folder: folder.to_path_buf(),
        bytes: declared.bytes,
        free,
    })
}

/// Makes folders that only the user can open.
fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn write(
    entry: tar::Entry<'_, impl Read>,
    path: &Path,
    expansion: &RefCell<Expansion>,
) -> Result<(), PackError> {
    let write = |cause| cannot_write(path, cause);
    if let Some(folder) = path.parent() {
        let created = private_folders().recursive(true).create(folder);
        created.map_err(write)?;
    }
    // Opening fails if the file exists already, or if a link was created at its path meanwhile.
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(write)?;
    let modified = entry.header().mtime().map_err(damaged)?;
    copy(entry, Some(&file), path, expansion)?;
    if let Some(modified) = UNIX_EPOCH.checked_add(Duration::from_secs(modified)) {
        // The error is ignored, because a timestamp that the file system cannot store does not
        // invalidate the file's contents.
        let _ = file.set_modified(modified);
    }
    Ok(())
}

/// Copies the data of an entry to a file, if there is one, and counts what the data expands to if it
/// is compressed.
fn copy(
    mut entry: impl Read,
    file: Option<&File>,
    path: &Path,
    expansion: &RefCell<Expansion>,
) -> Result<(), PackError> {
    let mut first = [0; 4];
    let mut known = 0;
    while known < first.len() {
        match entry.read(&mut first[known..]) {
            Ok(0) => break,
            Ok(count) => known += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(error)),
        }
    }
    let first = &first[..known];
    let mut copied = Copied {
        from: first.chain(entry),
        to: file,
        error: None,
    };
    if let Some(compression) = Compression::of_start(first) {
        // A damaged file is no reason to refuse the pack: its loader reports the damage.
        let _ = count_expanded(compression, &mut copied, expansion);
    }
    let outcome = io::copy(&mut copied, &mut io::sink());
    match copied.error {
        Some((is_write, cause)) if is_write => Err(cannot_write(path, cause)),
        Some((_, cause)) => Err(damaged(cause)),
        None => outcome.map(drop).map_err(damaged),
    }
}

/// Counts the bytes that compressed data expands to, until they are too many.
fn count_expanded(
    compression: Compression,
    data: &mut impl Read,
    expansion: &RefCell<Expansion>,
) -> io::Result<()> {
    let mut decoder = compression.decoder(data)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match decoder.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if !expansion.borrow_mut().add(count as u64) {
            return Err(io::Error::other("it expands too far"));
        }
    }
}

/// A reader that copies what it reads to a file, and remembers the first error of the reader or, with
/// `true`, of the file.
struct Copied<'f, R> {
    from: R,
    to: Option<&'f File>,
    error: Option<(bool, io::Error)>,
}

impl<R: Read> Read for Copied<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.error.is_some() {
            return Err(io::ErrorKind::Other.into());
        }
        let (is_write, error) = match self.from.read(buffer) {
            Ok(count) => match self.to.map(|mut file| file.write_all(&buffer[..count])) {
                None | Some(Ok(())) => return Ok(count),
                Some(Err(error)) => (true, error),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => (false, error),
        };
        self.error = Some((is_write, error));
        Err(io::ErrorKind::Other.into())
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
struct Bounded<'e, R> {
    inner: R,
    expansion: &'e RefCell<Expansion>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if self.expansion.borrow_mut().add(count as u64) {
            Ok(count)
        } else {
            Err(io::Error::other(
                "the pack expands to more than the allowed size",
            ))
        }
    }
}
