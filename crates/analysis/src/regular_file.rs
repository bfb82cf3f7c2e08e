//! Opens the files of artifacts: regular files only, and none outside the artifact.
//!
//! An artifact is hostile input. Opening a FIFO waits for a writer, a device may never end, and a
//! link may lead to any file that its reader may read. Every reader opens files here.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Why a path is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is a FIFO, a device, a socket or a directory.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// It leads to a file elsewhere.
    #[error("it is a link that leads outside the artifact")]
    Outside,
    /// It has more bytes than are read of such a file.
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
}

impl Refused {
    /// Why a path was not read, if an error is about that.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// What a file is, unless it is a regular one.
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

/// Opens a regular file that the user named; links are followed.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device can have an effect, so its kind is looked at before.
    check_kind(path.metadata()?.file_type())?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    // Another file may have taken the path's place meanwhile; without NONBLOCK a FIFO would wait.
    check_kind(file.metadata()?.file_type())?;
    Ok(file)
}

/// A file that is replaced while it is opened is tried again, at most so often.
const TRIES: usize = 4;

/// Opens a regular file of an artifact; a link is followed where it stays in the artifact.
pub fn open_inside(artifact: &Path, path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        let file = open(path)?;
        check_inside(artifact, path)?;
        // What was opened is what the path leads to, also where the path is changed meanwhile.
        let (opened, named) = (file.metadata()?, path.metadata()?);
        if (opened.dev(), opened.ino()) == (named.dev(), named.ino()) {
            return Ok(file);
        }
    }
    Err(io::Error::other(
        "it is replaced faster than it can be read",
    ))
}

/// Whether a path is a regular file inside an artifact, without opening it.
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

/// Why a path is not read, where something is there that never can be.
pub(crate) fn refusal(artifact: &Path, path: &Path) -> Option<Refused> {
    match check_inside(artifact, path) {
        Ok(()) => None,
        Err(error) => Refused::of(&error),
    }
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The bytes of a regular file that the user named, unless there are too many.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, most_bytes)
}

/// The bytes of a regular file of an artifact, unless there are too many.
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
        // The artifact itself may be named by a link.
        let alias = folder.path().join("alias");
        assert_eq!(
            read_inside(&alias, &alias.join("file"), 10).unwrap(),
            b"inside"
        );
        for name in ["out", "up/secret"] {
            let expected = "it is a link that leads outside the artifact";
            assert_eq!(refused(read(name)), expected);
        }
        // What the user names may lie anywhere.
        assert_eq!(super::read(&artifact.join("out"), 10).unwrap(), b"outside");
        let too_large = super::read(&artifact.join("file"), 3).unwrap_err();
        assert_eq!(Refused::of(&too_large), Some(Refused::TooLarge(3)));
    }
}
