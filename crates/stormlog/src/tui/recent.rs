//! Lists recent runs, for a terminal UI that was started without a path.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use stormlog_analysis::pack::is_pack;
use stormlog_analysis::query::{SessionFilter, Store};
use stormlog_analysis::sink_names;
use stormlog_format::SessionStatus;

use crate::machine::on_this_machine;

/// The folder to which `stormlog run` writes recordings by default.
pub(crate) const FOLDER: &str = "stormlog-runs";
/// The largest number of recent runs that are listed.
const MOST_RUNS: usize = 50;
/// The largest number of files and subfolders that are checked in a folder that may contain runs.
const MOST_ENTRIES: usize = 5_000;

/// A run in the list of recent runs, from which the user can open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recent {
    pub(crate) path: PathBuf,
    /// When the run started; `None` for a pack, which is not opened for the list.
    pub(crate) started_ns: Option<i64>,
    pub(crate) lasted_ns: Option<i64>,
    pub(crate) status: Option<SessionStatus>,
    pub(crate) ranks: usize,
}

/// The runs in a folder and in its subfolder `stormlog-runs`, newest first.
pub(crate) fn runs(here: &Path) -> Vec<Recent> {
    let mut found = entries(&here.join(FOLDER));
    found.extend(entries(here));
    // Folders and packs are sorted by modification time, so that only the newest are opened even if
    // there are thousands.
    found.sort_by_key(|(modified, path)| (std::cmp::Reverse(*modified), path.clone()));
    found.truncate(MOST_RUNS);
    let mut runs: Vec<Recent> = found.into_iter().map(|(_, path)| recent(path)).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.started_ns));
    runs
}

fn entries(folder: &Path) -> Vec<(Option<SystemTime>, PathBuf)> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let runs = entries.take(MOST_ENTRIES).map(|entry| entry.path());
    runs.filter(|path| is_pack(path) || is_run(path))
        .map(|path| {
            let modified = path.metadata().and_then(|facts| facts.modified());
            (modified.ok(), path)
        })
        .collect()
}

/// Whether a folder contains a run: it is a sink itself, or its subfolder `host` is one.
fn is_run(path: &Path) -> bool {
    path.is_dir()
        && !path.is_symlink()
        && (sink_names(path).is_some() || sink_names(&path.join("host")).is_some())
}

fn recent(path: PathBuf) -> Recent {
    let path = path
        .strip_prefix(".")
        .map(Path::to_path_buf)
        .unwrap_or(path);
    let mut run = Recent {
        path,
        started_ns: None,
        lasted_ns: None,
        status: None,
        ranks: 0,
    };
    if is_pack(&run.path) {
        return run;
    }
    let store = Store::open(std::slice::from_ref(&run.path));
    let rows = on_this_machine(|here| store.sessions(&SessionFilter::default(), Some(here)));
    run.started_ns = rows.iter().map(|row| row.summary.started_at_ns).min();
    let ended = rows.iter().filter_map(|row| row.summary.ended_at_ns).max();
    run.lasted_ns = ended
        .zip(run.started_ns)
        .map(|(end, start)| end.saturating_sub(start));
    // If a session of a run is running, the status of the run is running. Otherwise it is the worst
    // status of its sessions; from the worst to the best: incomplete, interrupted, completed.
    run.status = rows.iter().map(|row| row.effective_status).max();
    let mut ranks: Vec<i64> = rows.iter().map(|row| row.summary.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    run.ranks = ranks.len();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_where_they_are_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let sink = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/two_ranks");
        let copy = |to: &str| {
            let to = folder.path().join(to);
            std::fs::create_dir_all(&to).unwrap();
            for entry in sink.read_dir().unwrap().flatten() {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        };
        copy("stormlog-runs/20261116T101500Z-1");
        copy("mine");
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("sent.stormlog"), "").unwrap();
        let runs = runs(folder.path());
        let names: Vec<_> = runs
            .iter()
            .map(|run| run.path.strip_prefix(folder.path()).unwrap())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[2], Path::new("sent.stormlog"));
        assert!(names.contains(&Path::new("stormlog-runs/20261116T101500Z-1")));
        assert_eq!((runs[0].ranks, runs[2].ranks), (2, 0));
        assert!(runs[0].started_ns.is_some() && runs[0].status.is_some());
    }
}
