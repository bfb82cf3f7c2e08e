//! Lists recent runs, for a terminal UI that was started without a path, and finds the newest run,
//! for commands that were started without a path.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use stormlog_analysis::listing::{ListedRun, Listing};
use stormlog_analysis::pack::is_pack;
use stormlog_analysis::sink_names;
use stormlog_analysis::tidy;
use stormlog_format::{SessionStatus, part_folders};

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
    /// The folders that contain the run: one, unless its ranks were recorded into several.
    pub(crate) paths: Vec<PathBuf>,
    /// When the run started. Unknown for a pack, which is not opened for the list, and for a
    /// recording without a manifest.
    pub(crate) started_ns: Option<i64>,
    /// How long the run lasted, as far as it was recorded; `None` while it continues.
    pub(crate) lasted_ns: Option<i64>,
    /// The status of the run; `packed` for a pack and `unknown` for a recording without a manifest.
    pub(crate) status: &'static str,
    pub(crate) ranks: usize,
}

impl Recent {
    fn of_run(run: &ListedRun, places: &[Place]) -> Self {
        let holds = |place: &&Place| run.sinks().iter().any(|sink| sink.starts_with(&place.path));
        let places = places.iter().filter(holds);
        let ends = run
            .sessions
            .iter()
            .map(|session| session.summary.ended_at_ns);
        let last_ns = ends.max().flatten().max(run.last_event_ns);
        let last_ns = last_ns.filter(|_| run.status != SessionStatus::Running);
        Self {
            paths: places.map(|place| place.path.clone()).collect(),
            started_ns: Some(run.started_at_ns),
            lasted_ns: last_ns.map(|last| last.saturating_sub(run.started_at_ns)),
            status: run.status.as_str(),
            ranks: run.ranks.len(),
        }
    }

    fn unlisted(place: Place) -> Self {
        let is_pack = place.sinks.is_empty();
        Self {
            paths: vec![place.path],
            started_ns: None,
            lasted_ns: None,
            status: if is_pack { "packed" } else { "unknown" },
            ranks: 0,
        }
    }
}

/// A pack, or a folder that contains runs.
struct Place {
    path: PathBuf,
    /// The sinks of the runs, without those inside another sink; empty for a pack.
    sinks: Vec<PathBuf>,
}

impl Place {
    fn at(path: PathBuf) -> Option<Self> {
        let sinks = if is_pack(&path) {
            Vec::new()
        } else {
            Some(sinks_in(&path)).filter(|sinks| !sinks.is_empty())?
        };
        Some(Self { path, sinks })
    }
}

/// The sinks in a folder of a run: the folder itself, or else its subfolders with the parts of a
/// run. Other subfolders are not opened, because the folder may be any folder of the user.
fn sinks_in(folder: &Path) -> Vec<PathBuf> {
    if folder.is_symlink() || !folder.is_dir() {
        return Vec::new();
    }
    if sink_names(folder).is_some() {
        return vec![folder.to_path_buf()];
    }
    let mut sinks = entries(folder);
    sinks.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        part_folders::is_part(&name) && !path.is_symlink() && sink_names(path).is_some()
    });
    sinks
}

/// The runs in a folder and in its subfolder `stormlog-runs`, newest first.
pub(crate) fn runs(here: &Path) -> Vec<Recent> {
    runs_in(&[here.join(FOLDER), here.to_path_buf()])
}

/// The newest run in the subfolder `stormlog-runs` of a folder: the one that started last. `None`
/// if that subfolder contains no run.
pub(crate) fn newest(here: &Path) -> Option<Recent> {
    runs_in(&[here.join(FOLDER)]).into_iter().next()
}

/// The runs directly in some folders, newest first.
fn runs_in(folders: &[PathBuf]) -> Vec<Recent> {
    let mut found: Vec<(Option<SystemTime>, PathBuf)> = folders
        .iter()
        .flat_map(|folder| entries(folder))
        .map(|path| {
            let modified = path.metadata().and_then(|facts| facts.modified());
            (modified.ok(), path)
        })
        .collect();
    // Folders and packs are sorted by modification time, so that only the newest are opened even if
    // there are thousands.
    found.sort_by_key(|(modified, path)| (Reverse(*modified), path.clone()));
    let places = found.into_iter().filter_map(|(_, path)| Place::at(path));
    let places: Vec<Place> = places.take(MOST_RUNS).collect();
    let sinks = places.iter().flat_map(|place| place.sinks.clone());
    let mut listing = Listing::of_sinks(sinks.collect());
    let seen = on_this_machine(|here| listing.refresh(here));
    let listed = seen.runs.iter().map(|run| Recent::of_run(run, &places));
    let mut runs: Vec<Recent> = listed.collect();
    for place in places {
        if !runs.iter().any(|run| run.paths.contains(&place.path)) {
            runs.push(Recent::unlisted(place));
        }
    }
    runs.sort_by_key(|run| Reverse(run.started_ns));
    runs.truncate(MOST_RUNS);
    runs
}

/// The first files and subfolders of a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let paths = entries.take(MOST_ENTRIES).map(|entry| tidy(&entry.path()));
    paths.collect()
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
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("sent.stormlog"), "").unwrap();
        let runs = runs(folder.path());
        let names: Vec<_> = runs
            .iter()
            .map(|run| run.paths[0].strip_prefix(folder.path()).unwrap())
            .collect();
        assert_eq!(
            names,
            [
                Path::new("stormlog-runs/20261116T101500Z-1"),
                Path::new("sent.stormlog")
            ]
        );
        assert_eq!((runs[0].ranks, runs[1].ranks), (2, 0));
        assert!(runs[0].started_ns.is_some());
        assert_eq!((runs[0].status, runs[1].status), ("interrupted", "packed"));
    }

    /// Writes a sink with one session of rank `rank` of the job `job`, which was recorded by a
    /// process on another machine. A session without an end is still being recorded.
    fn session(sink: &Path, job: &str, rank: i64, started_ns: i64, ended_ns: Option<i64>) {
        let id = format!("{job}-{rank}-{started_ns}");
        let status = ended_ns.map_or("running", |_| "completed");
        let ended = ended_ns.map_or("null".to_owned(), |end| end.to_string());
        let manifest = format!(
            r#"{{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
            "sessions": [{{"session_id": "{id}", "status": "{status}",
            "started_at_ns": {started_ns}, "ended_at_ns": {ended}, "host": "elsewhere", "pid": 7,
            "job_id": "{job}", "rank": {rank}, "local_rank": {rank}, "world_size": 2,
            "source": "stormlog.run"}}], "segments": []}}"#
        );
        std::fs::create_dir_all(sink).unwrap();
        std::fs::write(sink.join("manifest.json"), manifest).unwrap();
    }

    #[test]
    fn the_parts_of_a_run_are_one_row_and_two_runs_are_two() {
        const SECOND: i64 = 1_000_000_000;
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let now_ns = crate::machine::now_ns();
        let started_ns = now_ns - 20 * SECOND;
        session(
            &run.join("host-rank-0000"),
            "a",
            0,
            started_ns,
            Some(now_ns),
        );
        session(&run.join("host-rank-0001"), "a", 1, started_ns, None);
        session(
            &run.join("rank-0000"),
            "b",
            0,
            10 * SECOND,
            Some(15 * SECOND),
        );
        session(
            &run.join("rank-0001"),
            "b",
            1,
            10 * SECOND,
            Some(19 * SECOND),
        );
        let rows: Vec<_> = runs(folder.path())
            .into_iter()
            .map(|row| (row.paths, row.status, row.lasted_ns, row.ranks))
            .collect();
        assert_eq!(
            rows,
            [
                (vec![run.clone()], "running", None, 2),
                (vec![run], "completed", Some(9 * SECOND), 2)
            ]
        );
    }
}
