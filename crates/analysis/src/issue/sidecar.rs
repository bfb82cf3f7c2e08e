//! `issues.json`, the file of states beside an artifact set. It is replaced as a whole
//! under a lock: a reader sees the old file or the new one, and no change is lost.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use stormlog_format::json::{JsonError, Layout, Writer, parse};

use super::state::{StateError, States};

/// The name of the file.
pub const SIDECAR_NAME: &str = "issues.json";

/// Why a sidecar cannot be read or changed; every message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SidecarError {
    #[error("cannot read '{}': {cause}", .file.display())]
    Read { file: PathBuf, cause: io::Error },
    #[error("cannot write '{}': {cause}", .file.display())]
    Write { file: PathBuf, cause: io::Error },
    #[error("'{}' is damaged: {cause}", .file.display())]
    NotJson { file: PathBuf, cause: JsonError },
    #[error("'{}' is damaged: {cause}", .file.display())]
    NotStates { file: PathBuf, cause: StateError },
}

/// The sidecar of an artifact set: in the directory, or beside the file.
pub fn sidecar_of(artifacts: &Path) -> PathBuf {
    if artifacts.is_dir() {
        return artifacts.join(SIDECAR_NAME);
    }
    match artifacts.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.join(SIDECAR_NAME),
        _ => SIDECAR_NAME.into(),
    }
}

/// The states in a sidecar; nothing when there is no such file.
pub fn read_states(file: &Path) -> Result<Option<States>, SidecarError> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(SidecarError::Read {
                file: file.into(),
                cause: source,
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

/// Changes the states in a sidecar, which is made when there is none. Others wait meanwhile.
pub fn change_states(
    file: &Path,
    change: impl FnOnce(&mut States),
) -> Result<States, SidecarError> {
    let failed = |cause: io::Error| SidecarError::Write {
        file: file.into(),
        cause,
    };
    // The lock is a file of its own: the sidecar itself is replaced, and a lock on the
    // old file would keep nobody from the new one.
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(with_suffix(file, ".lock"))
        .map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    let mut states = read_states(file)?.unwrap_or_default();
    change(&mut states);
    let mut text = Writer::new(Layout::Indented).to_string(&states.to_value());
    text.push('\n');
    replace(file, text.as_bytes()).map_err(failed)?;
    Ok(states)
}

/// Replaces a file: at no moment is there a half of it.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let next = with_suffix(file, ".tmp");
    let mut new = File::create(&next)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    std::fs::rename(&next, file)?;
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
