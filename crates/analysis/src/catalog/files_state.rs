//! Detects changes of the files of a recording from their metadata, without reading the files.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::names::is_hidden;
use crate::stamp::Stamp;

/// Files of one folder beyond this number are ignored; a sink keeps fewer files.
const MOST_FILES: usize = 10_000;

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
