//! The state of a file from its metadata, by which a change is noticed without reading the file.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use stormlog_format::SinkNames;
use stormlog_format::rollup::ROLLUP_FILENAME;

/// The state of one path according to the file system; all zeros if nothing exists at the path. The
/// state changes when the file is replaced or rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub(crate) modified_ns: i64,
    device: u64,
    pub(crate) inode: u64,
    size: u64,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Self {
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
    pub(crate) fn of_directory(path: &Path) -> Vec<Self> {
        let files = SinkNames::ALL.map(SinkNames::manifest);
        let files = files.into_iter().chain([ROLLUP_FILENAME]);
        let files = files.map(|name| Self::of(&path.join(name)));
        std::iter::once(Self::of(path)).chain(files).collect()
    }
}
