//! The table of `stormlog query runs` for people. What a run's manifest does not contain (its end,
//! peak and verdict) is found by analyzing the run; only the first runs of the table are analyzed,
//! and only as long as that is quick.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stormlog_analysis::query::{RunRow, Surroundings, effective_status};
use stormlog_analysis::{Choice, DiagnosedRun, LoadOptions, OpenRun};
use stormlog_format::{SessionStatus, counted};
use stormlog_report::time::LocalTime;
use stormlog_report::{RunLine, Story, run_list, run_name, short_end};

/// No further run is analyzed after this time.
const PATIENCE: Duration = Duration::from_secs(3);
/// At most this many runs are analyzed.
const MOST_ANALYZED: usize = 20;
/// The largest recording in bytes that is analyzed.
const LARGEST: u64 = 32 << 20;

/// The runs as a table, the newest first, and what was left out. `width` is the width of the
/// terminal; `None` if the output is not a terminal.
pub(super) fn text(rows: &[RunRow], width: Option<usize>, here: &Surroundings<'_>) -> String {
    let local = LocalTime::of_this_machine(here.now_ns);
    let start = Instant::now();
    let mut not_analyzed = 0;
    let lines: Vec<RunLine> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let is_due = index < MOST_ANALYZED && start.elapsed() < PATIENCE;
            let run = is_due.then(|| analyzed(row, here)).flatten();
            not_analyzed += usize::from(run.is_none());
            line(row, run.as_ref(), &local, here)
        })
        .collect();
    let mut text = run_list(&lines, width);
    if not_analyzed > 0 {
        let runs = counted(not_analyzed, "run");
        let _ = writeln!(
            text,
            "\nNot analyzed for this list: {runs} (stormlog analyze FOLDER)"
        );
    }
    text
}

fn line(
    row: &RunRow,
    run: Option<&DiagnosedRun>,
    local: &LocalTime,
    here: &Surroundings<'_>,
) -> RunLine {
    let context = &row.run;
    let job = context.job_id.as_ref().map(ToString::to_string);
    let started_ns = context.started_at_ns;
    let end = run.map(|run| short_end(&run.timeline.end()));
    let end = end.filter(|end| !end.is_empty());
    RunLine {
        name: run_name(&context.program, job.as_deref(), started_ns, local),
        started: started_ns.map_or_else(String::new, |at| local.ago(at)),
        ended: end.unwrap_or_else(|| status(row, here).to_owned()),
        peak_bytes: run.and_then(|run| Story::of_diagnosed(run).peak(&run.timeline.by_rank())),
        verdict: run.map(|run| run.diagnosis.verdict().verdict),
        folder: folder(row).display().to_string(),
        run_id: context.run_id.to_string(),
        job: job.unwrap_or_default(),
    }
}

/// The worst status of the sessions of a run.
fn status(row: &RunRow, here: &Surroundings<'_>) -> &'static str {
    let sessions = row.run.sessions.iter();
    let statuses = sessions.map(|session| effective_status(&session.summary, || None, Some(here)));
    statuses.max().map_or("", SessionStatus::as_str)
}

fn sources(row: &RunRow) -> BTreeSet<PathBuf> {
    let sessions = row.run.sessions.iter();
    let sources = sessions.map(|session| PathBuf::from(&*session.source_path.to_str_lossy()));
    sources.collect()
}

/// The folder that holds all recordings of a run: `host/` and `rank-0000/` are parts of a run.
fn folder(row: &RunRow) -> PathBuf {
    let mut sources = sources(row).into_iter();
    let mut common = sources.next().unwrap_or_default();
    for source in sources {
        while !source.starts_with(&common) && common.pop() {}
    }
    let is_part =
        |name: &std::ffi::OsStr| stormlog_format::part_folders::is_part(&name.to_string_lossy());
    if common.file_name().is_some_and(is_part) && common.parent() != Some(Path::new("")) {
        common.pop();
    }
    common
}

/// The run with its findings; `None` if it is too large, or cannot be read.
fn analyzed(row: &RunRow, here: &Surroundings<'_>) -> Option<DiagnosedRun> {
    let paths: Vec<PathBuf> = sources(row).into_iter().collect();
    if paths.is_empty() || paths.iter().map(|path| size_of(path)).sum::<u64>() > LARGEST {
        return None;
    }
    let sessions = row.run.sessions.iter();
    let choice = Choice {
        sessions: sessions.map(|row| row.summary.session_id.clone()).collect(),
        ..Choice::default()
    };
    let run = OpenRun::open(&paths, choice, &LoadOptions::skipping(), here).ok()?;
    let run = run.diagnosed();
    (!run.sessions.is_empty()).then_some(run)
}

/// The size in bytes of a file, or of the files directly in a folder.
fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return path.metadata().map_or(0, |facts| facts.len());
    };
    let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok());
    sizes.map(|facts| facts.len()).sum()
}
