//! Reads and writes `issues.json`, the file with the states of issues beside an artifact set (the
//! sidecar). The sidecar is replaced as a whole under a lock: a reader sees the old file or the new
//! one, and no change is lost.

use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use stormlog_format::json::{JsonError, Layout, Writer, parse};

use super::object::Issue;
use super::state::{Decision, StateError, States};
use crate::pack;
use crate::regular_file;

/// The file name of the sidecar.
pub const SIDECAR_NAME: &str = "issues.json";

/// Why a sidecar cannot be read or changed; every error message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum SidecarError {
    #[error("cannot read '{}': {cause}", .file.display())]
    Read { file: PathBuf, cause: io::Error },
    #[error("cannot write '{}': {cause}", .file.display())]
    Write { file: PathBuf, cause: io::Error },
    #[error("'{}' is damaged: {cause}", .file.display())]
    NotJson { file: PathBuf, cause: JsonError },
    #[error("'{}' is damaged: {cause}", .file.display())]
    NotStates { file: PathBuf, cause: StateError },
    #[error("'{}' is in a pack, which cannot be changed", .file.display())]
    InPack { file: PathBuf },
}

/// The path of the sidecar of an artifact set. If the set is a directory or a pack, the sidecar is
/// inside it; if the set is a single file, the sidecar is in the directory of that file.
pub fn sidecar_of(artifacts: &Path) -> PathBuf {
    // A pack that cannot be opened is not reported here, because reading its events reports the
    // error.
    let opened = pack::unpacked(artifacts);
    let artifacts = opened.as_deref().unwrap_or(artifacts);
    if artifacts.is_dir() {
        return artifacts.join(SIDECAR_NAME);
    }
    match artifacts.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.join(SIDECAR_NAME),
        _ => SIDECAR_NAME.into(),
    }
}

/// The states in the sidecar of an artifact set; `None` when the sidecar does not exist. A link
/// that leads out of the artifact set is not followed.
pub fn read_states_of(artifacts: &Path) -> Result<Option<States>, SidecarError> {
    let file = sidecar_of(artifacts);
    match regular_file::check_inside(regular_file::folder_of(&file), &file) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(SidecarError::Read { file, cause })
        }
        _ => read_states(&file),
    }
}

/// The states in a sidecar whose path the user gave; `None` when the file does not exist.
pub fn read_states(file: &Path) -> Result<Option<States>, SidecarError> {
    let bytes = match regular_file::read(file, LONGEST) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => {
            return Err(SidecarError::Read {
                file: file.into(),
                cause,
            });
        }
    };
    let document = parse(&bytes).map_err(|cause| SidecarError::NotJson {
        file: file.into(),
        cause,
    })?;
    let states = States::from_value(&document).map_err(|cause| SidecarError::NotStates {
        file: file.into(),
        cause,
    })?;
    Ok(Some(states))
}

/// Largest sidecar that is read, in bytes, so that a huge file cannot fill the memory.
const LONGEST: u64 = 256 << 20;

/// Changes the states in a sidecar, which is created if it does not exist. Other processes that
/// change the sidecar wait until the change is written.
pub fn change_states(
    file: &Path,
    change: impl FnOnce(&mut States),
) -> Result<States, SidecarError> {
    let failed = |cause: io::Error| SidecarError::Write {
        file: file.into(),
        cause,
    };
    // A sidecar in a pack cannot be changed, because the unpacked copy is deleted when the process
    // ends.
    if let Cow::Owned(file) = pack::shown(file) {
        return Err(SidecarError::InPack { file });
    }
    let lock = lock(file).map_err(failed)?;
    let mut states = read_states(file)?.unwrap_or_default();
    change(&mut states);
    let mut text = Writer::new(Layout::Indented).to_string(&states.to_value());
    text.push('\n');
    replace(file, text.as_bytes()).map_err(failed)?;
    drop(lock);
    Ok(states)
}

/// Stores a decision about an issue in a sidecar, and records that all `issues` were seen.
pub fn store_decision(
    file: &Path,
    issues: &[Issue],
    issue: &Issue,
    decision: &Decision,
) -> Result<States, SidecarError> {
    change_states(file, |states| {
        for seen in issues {
            states.remember(seen);
        }
        states.decide(issue, decision);
    })
}

/// Takes the lock on the sidecar; waits while another process changes it. The lock is a separate
/// file, because the sidecar itself is replaced and a lock on the old file would not protect the
/// new one.
fn lock(file: &Path) -> io::Result<OwnedFd> {
    // Links in the folder are not followed, because the folder may be an artifact of another user.
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = open(with_suffix(file, ".lock"), flags, Mode::from(0o666))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Replaces a file atomically, so that no reader sees a partly written file.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let next = with_suffix(file, ".tmp");
    // A temporary file that already exists was left by a writer that was killed, or was placed by
    // an attacker, so it is deleted.
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(&next)?;
    // The new file has the permissions of the old one, so that a file that a group may change stays
    // one that the group may change.
    let old = file.symlink_metadata().ok().filter(Metadata::is_file);
    if let Some(old) = old {
        new.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    }
    new.write_all(bytes)?;
    new.sync_all()?;
    std::fs::rename(&next, file)?;
    File::open(regular_file::folder_of(file))?.sync_all()
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
