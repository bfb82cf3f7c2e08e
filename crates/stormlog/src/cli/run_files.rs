//! Finds the files of runs, loads them together, and writes reports atomically.

use std::path::{Path, PathBuf};

use anyhow::Context;
use stormlog_analysis::pack::shown;
use stormlog_analysis::{LoadOptions, Loaded, OnError, gather};
use stormlog_report::escape::for_terminal;

use super::artifact::{load_failure, warn_of_damage};
use crate::console::Console;
use crate::progress::Progress;

/// The paths that a user gave: event files, sinks (directories to which a recorder writes events),
/// bundles, or folders of them.
pub(crate) struct RunFiles<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) skip_damaged: bool,
}

impl RunFiles<'_> {
    /// Loads all artifacts in the given order, and warns about what could not be read.
    pub(crate) fn load(&self, console: &mut Console<'_>) -> anyhow::Result<Vec<Loaded>> {
        let paths = self.paths.iter().map(PathBuf::as_path);
        let progress = Progress::through(paths, console.err_is_terminal);
        let advance = |bytes| progress.advance(bytes);
        let options = LoadOptions {
            on_error: OnError::skip_if(self.skip_damaged),
            progress: &advance,
            ..LoadOptions::default()
        };
        let gathered = gather(self.paths, &options);
        drop(progress);
        let gathered =
            gathered.map_err(|(path, error)| load_failure(&error, &path, self.skip_damaged))?;
        for loaded in &gathered.loaded {
            warn_of_damage(&loaded.damage, console)?;
        }
        warn_of_skipped(&gathered.skipped, console)?;
        Ok(gathered.loaded)
    }
}

/// Prints a warning for each file that was skipped because it contains no telemetry.
pub(crate) fn warn_of_skipped(files: &[PathBuf], console: &mut Console<'_>) -> std::io::Result<()> {
    for file in files {
        let file = shown(file).display().to_string();
        writeln!(
            console.err,
            "warning: '{}' has no telemetry; skipped",
            for_terminal(&file)
        )?;
    }
    Ok(())
}

/// Writes a file atomically, so that it never contains only a part of its content.
pub(crate) fn write_whole(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    crate::write_whole(file, content).with_context(|| {
        format!(
            "cannot write '{}'",
            for_terminal(&file.display().to_string())
        )
    })
}
