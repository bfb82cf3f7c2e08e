//! Which state of files was looked at, from what the file system knows of them: nothing is read.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stormlog_format::SinkNames;
use stormlog_format::rollup::ROLLUP_FILENAME;

use super::names::is_hidden;

/// Files of one folder beyond this number do not count; a sink keeps fewer.
const MOST_FILES: usize = 10_000;

/// The state of one path. All zeros where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) modified_ns: i64,
    inode: u64,
    size: u64,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        path.metadata()
            .map_or(Self::default(), |facts| Self::of_facts(&facts))
    }

    fn of_facts(facts: &std::fs::Metadata) -> Self {
        Self {
            modified_ns: facts
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(facts.mtime_nsec()),
            inode: facts.ino(),
            size: facts.len(),
        }
    }

    /// The directory, and the files in it that may be written in place.
    pub(super) fn of_directory(path: &Path) -> Vec<Self> {
        let files = SinkNames::ALL.map(SinkNames::manifest);
        let files = files.into_iter().chain([ROLLUP_FILENAME]);
        let files = files.map(|name| Self::of(&path.join(name)));
        std::iter::once(Self::of(path)).chain(files).collect()
    }
}

/// The state of a recording: of its files and of the files directly in its folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesState {
    /// Differs when a file appeared, went, grew or was replaced.
    pub value: u64,
    /// When a file was last written.
    pub written_ns: Option<i64>,
}

impl FilesState {
    /// Looks at some files and folders.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut written_ns = None;
        let mut hasher = DefaultHasher::new();
        for path in paths {
            if !add(path, &mut written_ns, &mut hasher) {
                continue;
            }
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            // A hidden file is about to be renamed, which is no change yet.
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

/// Adds a path; whether it is a folder to look into. Of a folder only the identity counts: its
/// time of change follows from its files.
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
