//! A private temporary folder that is deleted when its process ends. If the process is killed, the
//! next process that creates a temporary folder deletes the one left behind.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

const PREFIX: &str = "stormlog-pack-";

/// Maximum number of attempts at creating the folder, because another process may delete it before
/// it is locked.
const TRIES: usize = 8;

/// A private folder for temporary files, which is deleted when the value is dropped. A forked child
/// leaves the folder to its parent.
pub struct TemporaryFolder {
    path: PathBuf,
    /// The lock on the folder, held while the process lives, which shows other processes that the
    /// folder is in use.
    _lock: File,
    owner: u32,
}

impl TemporaryFolder {
    /// Creates a temporary folder, and deletes folders that killed processes of the same user left
    /// behind.
    pub fn create() -> io::Result<Self> {
        // Links in the path are resolved, because paths below the folder are compared and shown
        // with links resolved.
        let parent = std::env::temp_dir().canonicalize()?;
        delete_leftovers(&parent);
        for _ in 0..TRIES {
            let mut builder = tempfile::Builder::new();
            // The pack may be readable only by its owner, so its content must be too.
            builder.permissions(fs::Permissions::from_mode(0o700));
            let path = builder.prefix(PREFIX).tempdir_in(&parent)?.keep();
            if let Some(lock) = locked(&path) {
                return Ok(Self {
                    path,
                    _lock: lock,
                    owner: std::process::id(),
                });
            }
        }
        let parent = parent.display();
        Err(io::Error::other(format!(
            "folders in '{parent}' cannot be locked; set TMPDIR to a directory on a local disk"
        )))
    }

    /// The path of the folder, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Locks the folder; `None` when another process holds the lock or the folder is gone.
fn locked(folder: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = File::from(open(folder, flags, Mode::empty()).ok()?);
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (opened, named) = (lock.metadata().ok()?, folder.symlink_metadata().ok()?);
    ((opened.dev(), opened.ino()) == (named.dev(), named.ino())).then_some(lock)
}

/// Deletes the folders of killed processes of the same user.
fn delete_leftovers(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry
                .metadata()
                .is_ok_and(|facts| facts.is_dir() && facts.uid() == user);
        if is_ours && let Some(_lock) = locked(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_leaves_nothing_for_long() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("stormlog-pack-left");
        let used = parent.path().join("stormlog-pack-used");
        let other = parent.path().join("other");
        for folder in [&left, &used, &other] {
            fs::create_dir(folder).unwrap();
        }
        let lock = locked(&used).unwrap();
        delete_leftovers(parent.path());
        assert!(!left.exists() && used.exists() && other.exists());
        drop(lock);
        delete_leftovers(parent.path());
        assert!(!used.exists() && other.exists());
    }
}
