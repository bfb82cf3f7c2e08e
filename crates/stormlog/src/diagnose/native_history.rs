//! The history of PyTorch's allocator in a bundle. Each Python process of the diagnosed command
//! that allocates CUDA memory with PyTorch records its own history, and writes the files of the
//! history when the process ends.

use std::ffi::OsString;
use std::path::Path;

/// The environment variables for the child process: the directory for the files of the history, and
/// the number of allocator events to keep.
const DIRECTORY: &str = "STORMLOG_RUN_NATIVE_HISTORY";
const ENTRIES: &str = "STORMLOG_RUN_NATIVE_HISTORY_ENTRIES";

/// The files with the history of PyTorch's allocator, in the order in which a child process writes
/// them.
const FILES: [&str; 8] = [
    SNAPSHOT,
    "cuda_tensor_attribution.json",
    "cuda_allocation_attribution.json",
    "cuda_allocator_segments.txt",
    "cuda_allocator_trace.txt",
    "cuda_allocator_state_history.html",
    "cuda_allocator_state_history_annotated.html",
    "cuda_native_debug_metadata.json",
];
const SNAPSHOT: &str = "cuda_allocator_snapshot.pickle";

/// The warning that is printed when a history was requested but no process wrote one.
pub(super) const MISSING: &str = "no process left a history of PyTorch's allocator: none \
    allocated CUDA memory with PyTorch, or the process was killed";

/// The environment variables that make a child process record the history of PyTorch's allocator.
pub(super) fn variables(bundle: &Path, entries: u64) -> [(&'static str, OsString); 2] {
    [
        // The program may change its working directory.
        (
            DIRECTORY,
            std::path::absolute(bundle)
                .unwrap_or_else(|_| bundle.into())
                .into(),
        ),
        (ENTRIES, entries.to_string().into()),
    ]
}

/// The paths, relative to the bundle, of all files with the history of PyTorch's allocator: first
/// those directly in the bundle, then those in its subdirectories, to which ranks and further
/// processes write.
pub(super) fn found(bundle: &Path) -> Vec<String> {
    let mut below: Vec<String> = std::fs::read_dir(bundle)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join(SNAPSHOT).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| format!("{name}/"))
        .collect();
    below.sort();
    let folders = std::iter::once(String::new()).chain(below);
    folders
        .flat_map(|folder| FILES.map(|name| format!("{folder}{name}")))
        .filter(|name| bundle.join(name).is_file())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_listed_in_order_with_those_of_other_ranks() {
        let bundle = tempfile::tempdir().unwrap();
        assert!(found(bundle.path()).is_empty());
        for place in ["rank_1", "telemetry"] {
            fs::create_dir(bundle.path().join(place)).unwrap();
        }
        for name in [FILES[1], SNAPSHOT, "rank_1/cuda_allocator_snapshot.pickle"] {
            fs::write(bundle.path().join(name), "").unwrap();
        }
        let names = found(bundle.path());
        assert_eq!(
            names,
            [SNAPSHOT, FILES[1], "rank_1/cuda_allocator_snapshot.pickle"]
        );
    }
}
