//! The recordings among the fixtures, for tests that hold for every run.

use std::path::{Path, PathBuf};

use stormlog_analysis::query::{Process, Surroundings};
use stormlog_analysis::{DiagnosedRun, LoadOptions, OpenRun};

/// The folders of all recordings.
pub(crate) fn recordings() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folders = ["recordings", "causes", "runs"].map(|folder| fixtures.join(folder));
    let mut found: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| folder.read_dir().unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// Opens a recording as if on another machine, where nothing of it runs; `None` if it is damaged.
pub(crate) fn opened(path: &Path) -> Option<DiagnosedRun> {
    let here = Surroundings {
        now_ns: 0,
        host: "elsewhere",
        reader: None,
        process: &|_| Process::Gone,
    };
    OpenRun::joined(&[path.to_path_buf()], None, &LoadOptions::default(), &here).ok()
}
