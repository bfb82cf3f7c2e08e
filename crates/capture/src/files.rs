//! Opens files in a directory that other users may write to. If a link, a pipe or a device has the
//! name of one of Stormlog's files, opening the file fails at once: a link is not followed, and a
//! pipe is not waited for.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, Mode, OFlags, access};

use crate::kept_file::KeptFile;
use crate::process::{Looked, look};

/// The suffix of a file's temporary name, which the file has until it is complete.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// How often writing a file is retried when another process deletes its temporary file.
const REPLACE_TRIES: u32 = 3;

/// Opens a regular file for reading; fails for links, pipes and devices.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY)
}

/// Opens an existing regular file for reading and appending; fails for links, pipes and devices.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::APPEND)
}

/// Creates a file for reading and appending; fails when a file with the same name exists.
pub(crate) fn create_to_append(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::APPEND | CREATE_NEW)
}

/// Creates a file for writing; fails when a file with the same name exists.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    open(path, OFlags::WRONLY | CREATE_NEW)
}

const CREATE_NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL);

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // Without `NONBLOCK`, opening a pipe waits until another process opens its other end.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from(0o666))?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

/// Whether a name belongs to a regular file, not to a link to one.
pub(crate) fn is_regular(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|facts| facts.is_file())
}

/// Reads a whole regular file; fails when the file is longer than `most_bytes` bytes.
pub(crate) fn read_regular(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut content = Vec::new();
    file.take(most_bytes.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > most_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

/// Deletes a file; a file that does not exist is no error.
pub(crate) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a temporary file in `directory` that no other process uses. The caller later renames the
/// temporary file to `name`.
pub(crate) fn create_temporary(directory: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(
            "{name}-{}-{count}{TEMPORARY_SUFFIX}",
            std::process::id()
        ));
        match create_new(&path) {
            // A temporary file with this name exists: a killed process with the pid of this process
            // left it, or a process of another machine uses it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (path, file)),
        }
    }
}

/// Deletes the temporary files of `name` that killed processes of this user left behind. A running
/// process of another machine looks killed from this machine; when its temporary file is deleted,
/// that process writes the file again.
pub fn remove_leftovers(directory: &Path, name: &str) {
    let own_uid = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let pid = file_name.to_str().and_then(|found| owner_of(found, name));
        let is_left = pid.is_some_and(|pid| look(pid) == Looked::Gone)
            && entry
                .metadata()
                .is_ok_and(|facts| facts.is_file() && facts.uid() == own_uid);
        if is_left {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The pid of the process that made a temporary file for `name`, from the name of the temporary
/// file.
fn owner_of(temporary: &str, name: &str) -> Option<i64> {
    let before = temporary.strip_suffix(TEMPORARY_SUFFIX)?;
    let (pid, count) = before
        .strip_prefix(name)?
        .strip_prefix('-')?
        .split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(pid) && is_number(count)).then(|| pid.parse().ok())?
}

/// Whether `temporary` is the name of a temporary file for `name`: a name that [`create_temporary`]
/// makes, or the name that version 0.4.0 and stormlog 0.3.9 use (`manifest.tmp` for
/// `manifest.json`).
pub(crate) fn is_temporary_of(temporary: &str, name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    owner_of(temporary, name).is_some() || temporary.strip_suffix(TEMPORARY_SUFFIX) == Some(stem)
}

/// Whether a written file must survive a crash of the machine, or only the end of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file is on disk when the call returns.
    Disk,
    /// The operating system has the content of the file and writes it to disk later.
    System,
}

/// Writes a file under a temporary name and then renames it, so that readers find either the old
/// file or the new one.
pub fn replace_file(
    directory: &Path,
    name: &str,
    content: &[u8],
    durability: Durability,
) -> io::Result<()> {
    replace(directory, name, content, durability, None)
}

/// Writes an output file that the user named atomically, so that it never contains only a part of
/// its content. Missing folders are created. The file keeps the permissions of the file that it
/// replaces, unlike with [`replace_file`], which writes the files of a sink: in a shared directory,
/// another user may have created a file of that name with permissions that let everyone read it.
pub fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory_of(file))?;
    let Some((directory, name)) = replaceable(file) else {
        return std::fs::write(file, content);
    };
    remove_leftovers(directory, name);
    replace(directory, name, content, Durability::System, mode_of(file))
}

/// The directory in which an output file is, which is `.` for a plain name.
pub fn directory_of(file: &Path) -> &Path {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The directory and the name of an output file that another file can replace. `None` for what must
/// be written directly: devices and pipes (such as `--output /dev/stdout`), and files in a directory
/// in which this process may not create files.
pub fn replaceable(file: &Path) -> Option<(&Path, &str)> {
    let directory = directory_of(file);
    let name = file.file_name()?.to_str()?;
    let may_create = || access(directory, Access::WRITE_OK).is_ok();
    let replaces = !file.exists() || (file.is_file() && may_create());
    replaces.then_some((directory, name))
}

/// The permissions of a file that exists.
pub fn mode_of(file: &Path) -> Option<u32> {
    Some(file.metadata().ok()?.mode() & 0o777)
}

fn replace(
    directory: &Path,
    name: &str,
    content: &[u8],
    durability: Durability,
    mode: Option<u32>,
) -> io::Result<()> {
    let mut tries = 1;
    loop {
        match replace_once(directory, name, content, durability, mode) {
            // Another process may mistake the temporary file for a leftover of a killed process and
            // delete it (`remove_leftovers`); then the file is written again.
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < REPLACE_TRIES => {
                tries += 1;
            }
            result => return result,
        }
    }
}

fn replace_once(
    directory: &Path,
    name: &str,
    content: &[u8],
    durability: Durability,
    mode: Option<u32>,
) -> io::Result<()> {
    let (temporary, file) = create_temporary(directory, name)?;
    let write = || {
        // The permissions are set before the file has content that other users could read.
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        // Writing may take long, and the watched program may close the descriptor meanwhile, so the
        // descriptor is checked at every use.
        let file = KeptFile::new(file)?;
        file.get()?.write_all(content)?;
        if durability == Durability::Disk {
            file.get()?.sync_data()?;
        }
        file.get()?;
        std::fs::rename(&temporary, directory.join(name))
    };
    if let Err(error) = write() {
        // After a failure the partial file is deleted, because it would only take space on a full
        // disk.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    if durability == Durability::Disk {
        let directory = KeptFile::new(File::open(directory)?)?;
        directory.get()?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_pipes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("target"), "keep").unwrap();
        symlink(path("target"), path("link")).unwrap();
        symlink(path("nowhere"), path("dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::from(0o600)).unwrap();
        for name in ["link", "dangling", "pipe", "target"] {
            assert!(create_new(&path(name)).is_err(), "{name}");
        }
        for name in ["link", "dangling", "pipe"] {
            assert!(open_to_append(&path(name)).is_err(), "{name}");
            assert!(read_regular(&path(name), 9).is_err(), "{name}");
        }
        assert!(read_regular(&path("target"), 3).is_err());
        assert_eq!(read_regular(&path("target"), 4).unwrap(), b"keep");
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn a_file_is_replaced_without_following_what_has_a_temporary_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("target"), "keep").unwrap();
        symlink(path("target"), path("manifest.tmp")).unwrap();
        symlink(path("target"), path("manifest.json")).unwrap();
        replace_file(folder.path(), "manifest.json", b"new", Durability::Disk).unwrap();
        assert_eq!(std::fs::read_to_string(path("target")).unwrap(), "keep");
        assert_eq!(
            std::fs::read_to_string(path("manifest.json")).unwrap(),
            "new"
        );
        assert!(path("manifest.json").symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn only_what_dead_processes_left_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, _) = create_temporary(folder.path(), "a.html").unwrap();
        for name in [
            "a.html-4194999-1.tmp",
            "b.html-4194999-1.tmp",
            "a.html-x-1.tmp",
        ] {
            std::fs::write(folder.path().join(name), "half").unwrap();
        }
        remove_leftovers(folder.path(), "a.html");
        let is_there = |name: &str| folder.path().join(name).exists();
        assert!(ours.exists() && !is_there("a.html-4194999-1.tmp"));
        assert!(is_there("b.html-4194999-1.tmp") && is_there("a.html-x-1.tmp"));
    }

    #[test]
    fn temporary_names_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = create_temporary(folder.path(), "manifest.json").unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(is_temporary_of(name, "manifest.json"));
        assert!(is_temporary_of("manifest.tmp", "manifest.json"));
        for other in [
            "manifest.json",
            "manifest.json-.tmp",
            "manifest.json-notes.tmp",
            "x.tmp",
        ] {
            assert!(!is_temporary_of(other, "manifest.json"), "{other}");
        }
    }
}
