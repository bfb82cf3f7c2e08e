//! Opens packs: a run in one compressed file, written by `stormlog pack`. The format of packs is
//! described in `docs/pack.md`.
//!
//! A pack is unpacked once per process into a private temporary folder, and every reader uses that
//! folder. [`unpacked`] converts the path that a user gives (`run.stormlog`, or
//! `run.stormlog/gpu-1` for a part of the pack) to a path in that folder. [`shown`] converts a path
//! in that folder back to the path that the user gave.

mod folder;
mod read;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

pub use folder::TemporaryFolder;
pub use read::{Content, HEADER, MOST_FILES, VERSION, check, header};

use crate::stamp::Stamp;

/// How many levels of directories below a path are searched for artifacts; deeper directories are
/// ignored, so that a very deep tree cannot make the search slow. A pack may not have more levels.
pub const DEEPEST: usize = 64;

/// The file extension of a pack.
pub const ENDING: &str = "stormlog";

/// Why a pack cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum PackError {
    #[error("it is not a file that 'stormlog pack' wrote")]
    NotAPack,
    #[error("it is a pack of version {0}; this program reads version {VERSION}")]
    Newer(i64),
    #[error("the pack is incomplete or damaged: {0}")]
    Damaged(String),
    #[error("'{name}' in the pack is not a regular file")]
    NotRegular { name: String },
    #[error("'{name}' in the pack is not an allowed path")]
    BadName { name: String },
    #[error("the pack has more than {MOST_FILES} files")]
    TooManyFiles,
    #[error(
        "the pack and the compressed files in it expand to more than {limit} bytes, out of \
         proportion to its size"
    )]
    ExpandsTooFar { limit: u64 },
    #[error("it is inside another pack; packs in packs are not opened")]
    Nested,
    #[error("it expands to {bytes} bytes, and '{}' has room for {free}", .folder.display())]
    NoRoom {
        folder: PathBuf,
        bytes: u64,
        free: u64,
    },
    #[error("cannot unpack it into '{}': {cause}", .folder.display())]
    Write { folder: PathBuf, cause: io::Error },
    #[error("{0}")]
    Read(io::Error),
}

/// A pack that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open '{}': {source}", shown(.file).display())]
pub struct OpenError {
    /// The path of the pack.
    pub file: PathBuf,
    /// Why it cannot be opened.
    pub source: PackError,
}

/// A pack that this process has unpacked.
struct Opened {
    /// The path of the pack, as the user gave it.
    pack: PathBuf,
    /// The state of the pack when it was unpacked.
    stamp: Stamp,
    /// The temporary folder with the unpacked files of the pack.
    content: PathBuf,
    _folder: TemporaryFolder,
}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());
/// Whether this process has opened any pack. Before a path is printed, `shown` checks whether it
/// belongs to a pack; the flag makes this check cheap in processes that open none.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether a path is a pack, according to its file extension.
pub fn is_pack(path: &Path) -> bool {
    has_ending(path) && path.is_file()
}

/// Whether a path has the file extension of a pack.
pub(crate) fn has_ending(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ending.eq_ignore_ascii_case(ENDING)
}

/// For a pack or a path in a pack, the path of the unpacked files. Any other path is returned
/// unchanged.
pub fn unpacked(path: &Path) -> Result<Cow<'_, Path>, OpenError> {
    let Some(pack) = path.ancestors().find(|one| is_pack(one)) else {
        return Ok(Cow::Borrowed(path));
    };
    let failed = |source: PackError| OpenError {
        file: pack.to_path_buf(),
        source,
    };
    let facts = pack
        .metadata()
        .map_err(|error| failed(PackError::Read(error)))?;
    let stamp = Stamp::of_facts(&facts);
    // The lock is held while unpacking, so that other threads wait until the pack is unpacked.
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if opened.iter().any(|one| pack.starts_with(&one.content)) {
        return Err(failed(PackError::Nested));
    }
    let known = opened
        .iter()
        .position(|one| one.pack == pack && one.stamp == stamp);
    let index = if let Some(index) = known {
        index
    } else {
        opened.push(open(pack, stamp).map_err(failed)?);
        ANY.store(true, Ordering::Release);
        opened.len() - 1
    };
    let opened = &opened[index];
    let inner = path.strip_prefix(pack).unwrap_or(Path::new(""));
    Ok(Cow::Owned(if inner.as_os_str().is_empty() {
        only_file(&opened.content).unwrap_or_else(|| opened.content.clone())
    } else {
        opened.content.join(inner)
    }))
}

/// The path to show to the user: an unpacked file is shown as part of its pack.
pub fn shown(path: &Path) -> Cow<'_, Path> {
    if !ANY.load(Ordering::Acquire) {
        return Cow::Borrowed(path);
    }
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let pack = opened.iter().find_map(|one| {
        let inner = path.strip_prefix(&one.content).ok()?;
        Some(if inner.as_os_str().is_empty() {
            one.pack.clone()
        } else {
            one.pack.join(inner)
        })
    });
    pack.map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Deletes everything that this process has unpacked. A forked child does not delete the folders of
/// its parent.
pub fn close_all() {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.clear();
    ANY.store(false, Ordering::Release);
}

fn open(pack: &Path, stamp: Stamp) -> Result<Opened, PackError> {
    let folder = TemporaryFolder::create().map_err(|cause| PackError::Write {
        folder: std::env::temp_dir(),
        cause,
    })?;
    // The temporary folder is named after the pack, because error messages of the operating system
    // show its path.
    let content = folder.path().join(pack.file_name().unwrap_or_default());
    read::unpack(pack, &content)?;
    Ok(Opened {
        pack: pack.to_path_buf(),
        stamp,
        content,
        _folder: folder,
    })
}

/// The only file in a pack, if it has exactly one; such a pack is treated like the file itself.
fn only_file(content: &Path) -> Option<PathBuf> {
    let mut entries = content.read_dir().ok()?;
    let (first, second) = (entries.next()?.ok()?, entries.next());
    (second.is_none() && first.file_type().ok()?.is_file()).then(|| first.path())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_user_can_read_what_was_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("run.stormlog");
        let mut tar = tar::Builder::new(Vec::new());
        let header = header(Content { files: 2, bytes: 4 }, "test");
        for (name, content) in [(HEADER, &*header), ("a/b/c.json", "{}"), ("d.json", "{}")] {
            let mut entry = tar::Header::new_ustar();
            entry.set_path(name).unwrap();
            entry.set_size(content.len() as u64);
            // The modes in a pack do not count.
            entry.set_mode(0o777);
            entry.set_cksum();
            tar.append(&entry, content.as_bytes()).unwrap();
        }
        let content = tar.into_inner().unwrap();
        fs::write(&pack, zstd::encode_all(&*content, 1).unwrap()).unwrap();
        let unpacked = unpacked(&pack).unwrap().into_owned();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        for folder in [unpacked.parent().unwrap(), &unpacked, &unpacked.join("a/b")] {
            assert_eq!(mode(folder), 0o700, "{folder:?}");
        }
        for file in ["a/b/c.json", "d.json"] {
            assert_eq!(mode(&unpacked.join(file)), 0o600, "{file}");
        }
    }
}
