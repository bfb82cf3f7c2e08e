//! On a file system without locks, such as NFS or Lustre mounted without them, an owner file names
//! the process that owns a directory. Only one process can create the owner file.
//!
//! When the owner of a directory is killed, its owner file stays. On the same machine, the next
//! sink detects that the owner has ended and takes over the directory. A sink on another machine
//! cannot check whether the owner has ended, so it uses a sibling directory instead.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::session::host_name;
use crate::files::read_regular;
use crate::process::{Looked, look};

/// The name of the owner file. Code that looks for artifacts ignores owner files.
const NAME: &str = ".stormlog-owner";

/// The owner file of a directory that belongs to this process. Dropping the `OwnerFile` deletes the
/// file.
#[derive(Debug)]
pub(super) struct OwnerFile {
    path: PathBuf,
    pid: u32,
}

impl OwnerFile {
    /// Makes this process the owner of a directory; `None` when another process is the owner.
    pub(super) fn create(directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(NAME);
        let pid = std::process::id();
        let ours = identity(pid).unwrap_or_default();
        // The second attempt follows when the owner file of an ended process was moved away. If it
        // fails too, another process has created the owner file first.
        for _ in 0..2 {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(ours.as_bytes())?;
                    return Ok(Some(Self { path, pid }));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !put_stale_aside(&path, &ours) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Drop for OwnerFile {
    fn drop(&mut self) {
        // A forked child has a copy of the `OwnerFile`, but the directory belongs to its parent.
        if self.pid == std::process::id() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Moves away the owner file of a process that has ended; returns false when the directory may have
/// an owner.
fn put_stale_aside(path: &Path, ours: &str) -> bool {
    let Some(theirs) = read(path) else {
        return false;
    };
    if !is_gone(&theirs, ours) {
        return false;
    }
    let aside = path.with_file_name(format!("{NAME}-{}.tmp", std::process::id()));
    if std::fs::rename(path, &aside).is_err() {
        return false;
    }
    // After the owner file was read, another process may have moved it away and created its own
    // owner file. The file that was renamed here is then that of the other process and is put back.
    let is_same = read(&aside).is_some_and(|moved| moved == theirs);
    if is_same {
        let _ = std::fs::remove_file(&aside);
    } else {
        let _ = std::fs::rename(&aside, path);
    }
    is_same
}

/// The text of an owner file; `None` when it cannot be read.
fn read(path: &Path) -> Option<String> {
    String::from_utf8(read_regular(path, 4096).ok()?).ok()
}

/// Whether the process that the owner file `theirs` names has certainly ended. The text `ours`
/// identifies this process. For a process on another machine the answer is false, because this
/// machine cannot check it.
fn is_gone(theirs: &str, ours: &str) -> bool {
    let mut lines = theirs.lines();
    let (machine, pid) = (lines.next(), lines.next());
    if machine.is_none() || machine != ours.lines().next() {
        return false;
    }
    let pid = pid.and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid: u32| identity(pid).is_none_or(|now| now != theirs))
}

/// Identifies a process uniquely: the machine and its boot, the pid, and the start time of the
/// process. The identity is `None` when no process has this pid.
fn identity(pid: u32) -> Option<String> {
    let Looked::Found(found) = look(i64::from(pid)) else {
        return None;
    };
    let (host, boot, ids) = (host_name(), &found.boot_id, found.pid_namespace);
    Some(format!(
        "{host} {boot} {ids}\n{pid}\n{}\n",
        found.start_ticks
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = OwnerFile::create(folder.path()).unwrap().unwrap();
        assert!(OwnerFile::create(folder.path()).unwrap().is_none());
        drop(first);
        assert!(OwnerFile::create(folder.path()).unwrap().is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_a_dead_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let ours = identity(std::process::id()).unwrap();
        let mut lines = ours.lines();
        let (machine, pid) = (lines.next().unwrap(), lines.next().unwrap());
        let is_taken = |text: &str| {
            std::fs::write(folder.path().join(NAME), text).unwrap();
            OwnerFile::create(folder.path()).unwrap().is_none()
        };
        // These owner files name no running process, or a process that started at another time.
        assert!(!is_taken(&format!("{machine}\n4194999\n1\n")));
        assert!(!is_taken(&format!("{machine}\n{pid}\n1\n")));
        // These owner files name another machine, cannot be parsed, or name this process.
        assert!(is_taken(&format!("elsewhere\n{pid}\n1\n")));
        assert!(is_taken(""));
        assert!(is_taken(&ours));
    }
}
