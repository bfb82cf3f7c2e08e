//! Detects changes of files from their metadata, without reading the files.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stormlog_format::SinkNames;
use stormlog_format::rollup::ROLLUP_FILENAME;

use super::names::is_hidden;

/// Files of one folder beyond this number are ignored; a sink keeps fewer files.
const MOST_FILES: usize = 10_000;

/// The state of one path according to the file system; all zeros if nothing exists at the path. The
/// state changes when the file is replaced or rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub(super) modified_ns: i64,
    device: u64,
    inode: u64,
    size: u64,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        path.metadata()
            .map_or(Self::default(), |facts| Self::of_facts(&facts))
    }

    pub(crate) fn of_facts(facts: &std::fs::Metadata) -> Self {
        Self {
            modified_ns: facts
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(facts.mtime_nsec()),
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.len(),
        }
    }

    /// The state of a directory and of the files in it that may be overwritten in place.
    pub(super) fn of_directory(path: &Path) -> Vec<Self> {
        let files = SinkNames::ALL.map(SinkNames::manifest);
        let files = files.into_iter().chain([ROLLUP_FILENAME]);
        let files = files.map(|name| Self::of(&path.join(name)));
        std::iter::once(Self::of(path)).chain(files).collect()
    }
}

/// The combined state of the files of a recording, by which changes are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesState {
    /// A hash that changes when a file appears, disappears, grows or is replaced.
    pub value: u64,
    /// Time of the last write to any of the files, in nanoseconds since 1970; `None` if there are
    /// no files.
    pub written_ns: Option<i64>,
}

impl FilesState {
    /// Reads from the file system the state of the given files, and of the files directly in the
    /// given folders.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut written_ns = None;
        let mut hasher = DefaultHasher::new();
        for path in paths {
            if !add(path, &mut written_ns, &mut hasher) {
                continue;
            }
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            // A hidden file is ignored: it is a temporary file that is renamed when it is complete.
            let mut files: Vec<PathBuf> = entries
                .take(MOST_FILES)
                .map(|entry| entry.path())
                .filter(|path| !is_hidden(path))
                .collect();
            files.sort();
            for file in &files {
                add(file, &mut written_ns, &mut hasher);
            }
        }
        Self {
            value: hasher.finish(),
            written_ns,
        }
    }
}

/// Adds the state of a path to the hash, and returns whether the path is a folder. For a folder
/// only path and inode are hashed: its modification time also changes when a temporary file is
/// created, and the other files in it are hashed themselves.
fn add(path: &Path, written_ns: &mut Option<i64>, hasher: &mut DefaultHasher) -> bool {
    let Ok(facts) = path.metadata() else {
        return false;
    };
    let stamp = Stamp::of_facts(&facts);
    path.hash(hasher);
    if facts.is_dir() {
        stamp.inode.hash(hasher);
        return true;
    }
    stamp.hash(hasher);
    *written_ns = (*written_ns).max(Some(stamp.modified_ns));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_changes_the_state_and_a_temporary_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_path_buf()];
        std::fs::write(folder.path().join("segment-000001.jsonl"), "1\n").unwrap();
        let first = FilesState::of(&paths);
        assert_eq!(first, FilesState::of(&paths));
        assert!(first.written_ns.is_some());
        std::fs::write(folder.path().join(".manifest.json.tmp"), "{}").unwrap();
        assert_eq!(first, FilesState::of(&paths));
        std::fs::write(folder.path().join("segment-000001.jsonl"), "1\n2\n").unwrap();
        assert_ne!(first.value, FilesState::of(&paths).value);
    }
}
