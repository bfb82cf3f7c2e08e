//! Opens the files of artifacts: only regular files, and only inside the artifact.
//!
//! An artifact is hostile input: opening a FIFO blocks until there is a writer, a device may never
//! end, and a link may lead to any file that the user can read. Therefore all readers of artifacts
//! open files through this module.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;

use crate::expansion::RATIO;

/// Why a file of an artifact (a recording, bundle or other input given by the user) is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The path is a FIFO, a device, a socket or a directory.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// The path is a link to a file outside of the artifact.
    #[error("it is a link that leads outside the artifact")]
    Outside,
    /// The file is larger than the given limit in bytes.
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// Nearly all of the file, whose size in bytes is given, is not stored but reads as zeros.
    #[error("it is a sparse file: of its {} MiB nearly nothing is stored", .0 >> 20)]
    Sparse(u64),
}

impl Refused {
    /// The reason for which a file was refused, if the I/O error comes from such a refusal.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// The name of a file type for a message, such as "a FIFO"; `None` for a regular file.
pub(crate) fn special_kind(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_char_device() => Some("a character device"),
        kind if kind.is_block_device() => Some("a block device"),
        kind if kind.is_symlink() => Some("a link"),
        _ => Some("something else"),
    }
}

fn check_kind(kind: FileType) -> io::Result<()> {
    match special_kind(kind) {
        None => Ok(()),
        Some(kind) => Err(Refused::NotRegular(kind).into()),
    }
}

/// Opens a regular file whose path the user gave. Links in the path are followed.
pub fn open(path: &Path) -> io::Result<File> {
    // The type is checked before opening, because opening a device can have side effects.
    check_kind(path.metadata()?.file_type())?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    // The type is checked again, because the path may have been replaced since the first check.
    // NONBLOCK keeps the opening of a FIFO from blocking.
    let facts = file.metadata()?;
    check_kind(facts.file_type())?;
    check_stored(&file, &facts)?;
    Ok(file)
}

/// The size in bytes up to which a file may be sparse.
const SMALL: u64 = 16 << 20;
/// Number of stored pieces of a file that are counted.
const MOST_PIECES: usize = 1 << 12;

/// Checks that a file is not sparse to a degree that makes it a bomb: it takes no room on the disk,
/// but would fill the memory of its reader, or keep the reader busy for a long time.
fn check_stored(file: &File, facts: &Metadata) -> io::Result<()> {
    let size = facts.len();
    let least = size / RATIO;
    if size <= SMALL || facts.blocks().saturating_mul(512) >= least {
        return Ok(());
    }
    // Some file systems report no blocks for any file, but those that cannot tell where the data is
    // report the whole file as data.
    let (mut stored, mut position) = (0, 0);
    for _ in 0..MOST_PIECES {
        let start = match seek(file, SeekFrom::Data(position)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => return Ok(()),
        };
        position = seek(file, SeekFrom::Hole(start)).unwrap_or(size);
        stored += position.saturating_sub(start);
        if stored >= least {
            break;
        }
    }
    seek(file, SeekFrom::Start(0))?;
    if stored >= least {
        Ok(())
    } else {
        Err(Refused::Sparse(size).into())
    }
}

/// Maximum number of attempts at opening a file that another process keeps replacing.
const TRIES: usize = 4;

/// Opens a regular file inside an artifact. Links are followed if they stay within the artifact.
pub fn open_inside(artifact: &Path, path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        let file = open(path)?;
        check_inside(artifact, path)?;
        // The opened file must be the one that was checked to be inside the artifact, even if
        // another process replaces the path meanwhile.
        let (opened, named) = (file.metadata()?, path.metadata()?);
        if (opened.dev(), opened.ino()) == (named.dev(), named.ino()) {
            return Ok(file);
        }
    }
    Err(io::Error::other(
        "it is replaced faster than it can be read",
    ))
}

/// Checks that a path is a regular file inside an artifact, without opening it.
pub fn check_inside(artifact: &Path, path: &Path) -> io::Result<()> {
    check_kind(path.metadata()?.file_type())?;
    let artifact = if artifact.as_os_str().is_empty() {
        Path::new(".")
    } else {
        artifact
    };
    if path.canonicalize()?.starts_with(artifact.canonicalize()?) {
        Ok(())
    } else {
        Err(Refused::Outside.into())
    }
}

/// Why a path must not be read; `None` when the path may be read or does not exist.
pub(crate) fn refusal(artifact: &Path, path: &Path) -> Option<Refused> {
    match check_inside(artifact, path) {
        Ok(()) => None,
        Err(error) => Refused::of(&error),
    }
}

/// The folder of a file; `.` for a bare file name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Reads a regular file whose path the user gave. Fails if the file is larger than `most_bytes`.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, most_bytes)
}

/// Reads a regular file inside an artifact. Fails if the file is larger than `most_bytes`.
pub fn read_inside(artifact: &Path, path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open_inside(artifact, path)?, most_bytes)
}

fn read_all(file: File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(Refused::TooLarge(most_bytes).into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    fn refused<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.expect_err("it is refused").to_string()
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = Command::new("mkfifo").arg(at("fifo")).status();
        assert!(made.unwrap().success());
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("fifo", at("to_fifo")).unwrap();
        for (name, kind) in [
            ("fifo", "a FIFO"),
            ("to_fifo", "a FIFO"),
            ("socket", "a socket"),
            ("zero", "a character device"),
            (".", "a directory"),
        ] {
            let expected = format!("it is {kind}, not a regular file");
            assert_eq!(refused(open(&at(name))), expected);
            assert_eq!(refused(open_inside(folder.path(), &at(name))), expected);
            assert_eq!(refused(read(&at(name), 10)), expected);
        }
    }

    #[test]
    fn sparse_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let file = File::create(&path).unwrap();
        let sized = |size: u64| {
            file.set_len(size).unwrap();
            open(&path).map(|mut opened| opened.stream_position().unwrap())
        };
        assert_eq!(sized(SMALL).unwrap(), 0);
        assert_eq!(
            refused(sized(10 << 30)),
            "it is a sparse file: of its 10240 MiB nearly nothing is stored"
        );
        // Enough of the file is stored.
        std::io::Write::write_all(&mut &file, &vec![b'x'; 2 << 20]).unwrap();
        assert_eq!(sized(256 << 20).unwrap(), 0);
        let kind = Refused::of(&sized(1 << 30).unwrap_err());
        assert_eq!(kind, Some(Refused::Sparse(1 << 30)));
    }

    #[test]
    fn links_stay_inside() {
        let folder = tempfile::tempdir().unwrap();
        let artifact = folder.path().join("artifact");
        std::fs::create_dir_all(artifact.join("sub")).unwrap();
        std::fs::write(artifact.join("file"), "inside").unwrap();
        std::fs::write(folder.path().join("secret"), "outside").unwrap();
        symlink("../file", artifact.join("sub/relative")).unwrap();
        symlink(artifact.join("file"), artifact.join("absolute")).unwrap();
        symlink("../secret", artifact.join("out")).unwrap();
        symlink("..", artifact.join("up")).unwrap();
        symlink("artifact", folder.path().join("alias")).unwrap();
        let read = |name: &str| read_inside(&artifact, &artifact.join(name), 10);
        assert_eq!(read("sub/relative").unwrap(), b"inside");
        assert_eq!(read("absolute").unwrap(), b"inside");
        // The path of the artifact itself may be a link.
        let alias = folder.path().join("alias");
        assert_eq!(
            read_inside(&alias, &alias.join("file"), 10).unwrap(),
            b"inside"
        );
        for name in ["out", "up/secret"] {
            let expected = "it is a link that leads outside the artifact";
            assert_eq!(refused(read(name)), expected);
        }
        // A file whose path the user gives may be anywhere, even behind a link out of the artifact.
        assert_eq!(super::read(&artifact.join("out"), 10).unwrap(), b"outside");
        let too_large = super::read(&artifact.join("file"), 3).unwrap_err();
        assert_eq!(Refused::of(&too_large), Some(Refused::TooLarge(3)));
    }
}
