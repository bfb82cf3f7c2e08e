//! The files of runs: found, loaded together, and reports written whole.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rayon::prelude::*;
use stormlog_analysis::{LoadError, LoadOptions, Loaded, OnError, artifacts_at, load_sessions};
use stormlog_report::escape::for_terminal;

use super::artifact::{load_failure, warn_of_damage};
use crate::console::Console;
use crate::progress::Progress;

/// Paths that a user named: files, sinks, bundles or folders of them.
pub(crate) struct RunFiles<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) skip_damaged: bool,
}

impl RunFiles<'_> {
    /// Loads everything, in the order named.
    ///
    /// A file that was named must load; one that was found in a folder and holds no telemetry
    /// is passed over with a warning.
    pub(crate) fn load(&self, console: &mut Console<'_>) -> anyhow::Result<Vec<Loaded>> {
        let mut files: Vec<(PathBuf, bool)> = Vec::new();
        for path in self.paths {
            let found = artifacts_at(path)
                .map_err(|error| load_failure(&error, path, self.skip_damaged))?;
            let named = found.len() == 1 && found[0] == *path;
            files.extend(found.into_iter().map(|file| (file, named)));
        }
        let progress = Progress::through(
            files.iter().map(|(file, _)| file.as_path()),
            console.err_is_terminal,
        );
        let advance = |bytes| progress.advance(bytes);
        let on_error = if self.skip_damaged {
            OnError::Skip
        } else {
            OnError::Raise
        };
        let options = LoadOptions {
            on_error,
            progress: &advance,
            ..LoadOptions::default()
        };
        let outcomes: Vec<Result<Loaded, LoadError>> = files
            .par_iter()
            .map(|(file, _)| load_sessions(file, &options))
            .collect();
        drop(progress);
        let mut loaded = Vec::with_capacity(outcomes.len());
        for ((file, named), outcome) in files.iter().zip(outcomes) {
            match outcome {
                Ok(one) => {
                    warn_of_damage(&one.damage, console)?;
                    loaded.push(one);
                }
                Err(LoadError::NoEvents { .. } | LoadError::Scalar { .. }) if !named => {
                    let file = file.display().to_string();
                    writeln!(
                        console.err,
                        "warning: '{}' holds no telemetry and is passed over",
                        for_terminal(&file)
                    )?;
                }
                Err(error) => return Err(load_failure(&error, file, self.skip_damaged)),
            }
        }
        Ok(loaded)
    }
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_whole(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let failure = || {
        format!(
            "cannot write '{}'",
            for_terminal(&file.display().to_string())
        )
    };
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(failure)?;
    // Devices and pipes (`--output /dev/stdout`) cannot be replaced, only written to.
    if file.exists() && !file.is_file() {
        return std::fs::write(file, content).with_context(failure);
    }
    let mut whole = tempfile::NamedTempFile::new_in(parent).with_context(failure)?;
    whole.write_all(content).with_context(failure)?;
    make_readable(whole.path());
    whole.persist(file).with_context(failure)?;
    Ok(())
}

/// Temporary files are private to their owner; reports are not.
fn make_readable(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644));
    }
}
