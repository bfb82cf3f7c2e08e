//! What identifies the state of a recording without reading it: the identity, size and time of
//! change of its files.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files of one folder beyond this number do not count; a sink keeps fewer.
const MOST_FILES: usize = 10_000;

/// A stamp, and what was learned on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Differs when a file appeared, went, grew or was replaced.
    pub(crate) value: u64,
    /// When a file was last written.
    pub(crate) written_ns: Option<i64>,
}

impl Stamp {
    /// The stamp of some files and of the files directly in some folders.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut state = (Self::default(), DefaultHasher::new());
        for path in paths {
            if !add(path, &mut state) {
                continue;
            }
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = entries
                .take(MOST_FILES)
                .map(|entry| entry.path())
                .filter(|path| !is_temporary(path))
                .collect();
            files.sort();
            for file in &files {
                add(file, &mut state);
            }
        }
        let (mut stamp, hasher) = state;
        stamp.value = hasher.finish();
        stamp
    }
}

/// A file that is about to be renamed is no change yet.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".")
}

/// Adds a path; whether it is a folder to look into. Of a folder only the identity counts: its
/// time of change follows from its files.
fn add(path: &Path, (stamp, hasher): &mut (Stamp, DefaultHasher)) -> bool {
    let Ok(facts) = path.symlink_metadata() else {
        return false;
    };
    (path, facts.ino()).hash(hasher);
    if facts.is_dir() {
        return true;
    }
    let written = facts.mtime().saturating_mul(1_000_000_000) + facts.mtime_nsec();
    (facts.len(), written).hash(hasher);
    stamp.written_ns = stamp.written_ns.max(Some(written));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_changes_the_stamp_and_a_temporary_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_path_buf()];
        std::fs::write(folder.path().join("segment-000001.jsonl"), "1\n").unwrap();
        let first = Stamp::of(&paths);
        assert_eq!(first, Stamp::of(&paths));
        assert!(first.written_ns.is_some());
        std::fs::write(folder.path().join(".manifest.json.tmp"), "{}").unwrap();
        assert_eq!(first, Stamp::of(&paths));
        std::fs::write(folder.path().join("segment-000001.jsonl"), "1\n2\n").unwrap();
        assert_ne!(first.value, Stamp::of(&paths).value);
    }
}
