//! Finds the files of runs and loads them together.

use std::path::{Path, PathBuf};

use stormlog_analysis::pack::shown;
use stormlog_analysis::{Choice, Gathered, LoadOptions, OnError, OpenRun, gather};
use stormlog_format::counted;
use stormlog_report::escape::path_for_terminal;

use super::artifact::{listed, load_failure, warn_of_damage};
use crate::console::Console;
use crate::machine::on_this_machine;
use crate::progress::Progress;

/// Calls `load` with the options for loading artifacts. While it runs, a progress bar is shown.
pub(crate) fn loading<'a, T>(
    paths: impl IntoIterator<Item = &'a Path>,
    skip_damaged: bool,
    console: &Console<'_>,
    load: impl FnOnce(&LoadOptions<'_>) -> T,
) -> T {
    let progress = Progress::through(paths, console.err_is_terminal);
    let advance = |bytes| progress.advance(bytes);
    load(&LoadOptions {
        on_error: OnError::skip_if(skip_damaged),
        progress: &advance,
        ..LoadOptions::default()
    })
}

/// Loads the artifacts at the paths that a user gave, in the given order: event files, sinks
/// (directories to which a recorder writes events), bundles, or folders of them.
pub(crate) fn load(
    paths: &[PathBuf],
    skip_damaged: bool,
    console: &Console<'_>,
) -> anyhow::Result<Gathered> {
    let files = paths.iter().map(PathBuf::as_path);
    loading(files, skip_damaged, console, |options| {
        gather(paths, options)
    })
    .map_err(|(path, error)| load_failure(&error, &path, skip_damaged))
}

/// Opens the runs at the paths that a user gave, like [`load`].
pub(crate) fn open(
    paths: &[PathBuf],
    skip_damaged: bool,
    console: &Console<'_>,
) -> anyhow::Result<OpenRun> {
    let files = paths.iter().map(PathBuf::as_path);
    loading(files, skip_damaged, console, |options| {
        on_this_machine(|here| OpenRun::open(paths, Choice::default(), options, here))
    })
    .map_err(|(path, error)| load_failure(&error, &path, skip_damaged))
}

/// Warns about what could not be read of the artifacts, and counts the files that were skipped
/// because they are no recordings.
pub(crate) fn warn_of_gathered(
    gathered: &Gathered,
    console: &mut Console<'_>,
) -> std::io::Result<()> {
    for loaded in &gathered.loaded {
        warn_of_damage(&loaded.damage, console)?;
    }
    note_skipped(&gathered.skipped, console)
}

/// Counts the files in the given folders that were skipped because they are no recordings.
pub(crate) fn note_skipped(files: &[PathBuf], console: &mut Console<'_>) -> std::io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let count = counted(files.len(), "file");
    let what = if files.len() == 1 {
        "not a recording"
    } else {
        "not recordings"
    };
    let names: Vec<String> = files
        .iter()
        .map(|file| format!("'{}'", path_for_terminal(&shown(file))))
        .collect();
    let names = listed(names.iter());
    writeln!(console.err, "stormlog: {count} skipped: {what} ({names})")
}
