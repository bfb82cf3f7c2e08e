//! Chooses what a command reads when the user gave no path: the newest run in `stormlog-runs`, or
//! all of them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use stormlog_report::escape::path_for_terminal;

use crate::console::Console;
use crate::failure::hinted;
use crate::tui::recent::{FOLDER, newest};

/// The paths that the user gave, or else those of the newest run in the folder `stormlog-runs` of
/// the current directory: one path, unless the ranks of the run were recorded into several folders.
/// Standard error says which run was chosen.
pub(crate) fn given_or_newest<'a>(
    given: &'a [PathBuf],
    console: &mut Console<'_>,
) -> anyhow::Result<Cow<'a, [PathBuf]>> {
    if !given.is_empty() {
        return Ok(given.into());
    }
    let Some(run) = newest(Path::new("")) else {
        return Err(no_run());
    };
    let names: Vec<_> = run
        .paths
        .iter()
        .map(|path| path_for_terminal(path))
        .collect();
    writeln!(console.err, "stormlog: newest run: {}", names.join(", "))?;
    Ok(run.paths.into())
}

/// The paths that the user gave, or else the folder `stormlog-runs` of the current directory.
pub(crate) fn given_or_all_runs(given: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    if !given.is_empty() {
        return Ok(given);
    }
    if newest(Path::new("")).is_none() {
        return Err(no_run());
    }
    Ok(vec![FOLDER.into()])
}

fn no_run() -> anyhow::Error {
    let reason = if Path::new(FOLDER).is_dir() {
        format!("the folder '{FOLDER}' has no recording")
    } else {
        format!("the current directory has no folder '{FOLDER}'")
    };
    hinted(
        anyhow::anyhow!("no PATH given, and {reason}"),
        "give the path of a recording, or make one: stormlog run -- python train.py",
    )
}
