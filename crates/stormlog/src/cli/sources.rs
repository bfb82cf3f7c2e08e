//! Opens the recordings that `stormlog query` and `stormlog issues` read, and prints warnings, for
//! example about files that could not be read.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use stormlog_analysis::pack::{shown, unpacked};
use stormlog_analysis::query::{SourceKind, Store};
use stormlog_analysis::regular_file;
use stormlog_report::escape::path_for_terminal;

use super::artifact::{load_failure, warn_of_first};
use super::newest_run::given_or_all_runs;
use crate::console::Console;
use crate::failure::hinted;
use stormlog_format::file_names;

/// Paths to query.
#[derive(Debug, Args)]
pub(crate) struct Sources {
    /// Sinks, files, bundles, or directories of them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Ignore missing paths as long as one path has data
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// Paths to query; without a path, the folder with the recordings of `stormlog run`.
#[derive(Debug, Args)]
pub(crate) struct SourcesOrRuns {
    /// Sinks, files, bundles, or directories of them [default: stormlog-runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Ignore missing paths as long as one path has data
    #[arg(long)]
    lenient: bool,
}

impl SourcesOrRuns {
    /// The given paths, or the folder of the runs if it has any.
    pub(crate) fn resolve(self) -> anyhow::Result<Sources> {
        Ok(Sources {
            paths: given_or_all_runs(self.paths)?,
            lenient: self.lenient,
        })
    }
}

impl Sources {
    /// Opens the paths. A missing path is an error, unless `--lenient` is given and another path
    /// has data.
    pub(crate) fn open(&self, console: &mut Console<'_>) -> anyhow::Result<Store> {
        if !self.lenient {
            for path in &self.paths {
                unpacked(path).map_err(|error| load_failure(&error.into(), path, true))?;
            }
        }
        let mut missing = Vec::new();
        for path in &self.paths {
            if let Err(error) = look_at(path) {
                let path = path_for_terminal(path);
                missing.push(format!("cannot read '{path}': {error}"));
            }
        }
        if let Some(message) = missing.first()
            && !self.lenient
        {
            return Err(hinted(
                anyhow::anyhow!("{message}"),
                "check the path, or give '--lenient' to query the other paths",
            ));
        }
        let store = Store::open(&self.paths);
        if !missing.is_empty() && store.catalog().is_empty() {
            for message in &missing {
                writeln!(console.err, "warning: {message}")?;
            }
            anyhow::bail!("none of the paths has data to query");
        }
        Ok(store)
    }
}

fn look_at(path: &Path) -> std::io::Result<()> {
    if path.metadata()?.is_dir() {
        path.read_dir().map(drop)
    } else {
        regular_file::open(path).map(drop)
    }
}

/// Prints warnings about the queried files on standard error, for example that a file could not be
/// read.
pub(crate) fn warn(store: &Store, console: &mut Console<'_>) -> anyhow::Result<()> {
    let sources = &store.catalog().sources;
    // The timeline file in a diagnose bundle has a name like a telemetry file but contains no
    // events; no warning about this file is printed.
    let is_timeline = |path: &Path| {
        path.file_name()
            .is_some_and(|name| name == file_names::TIMELINE)
            && sources.iter().any(|source| {
                source.kind == SourceKind::DiagnoseBundle && path.starts_with(shown(&source.path))
            })
    };
    let warnings = store.warnings();
    let warnings: Vec<_> = warnings
        .iter()
        .filter(|warning| !is_timeline(Path::new(&*warning.path.to_str_lossy())))
        .collect();
    let lines = warnings
        .iter()
        .map(|warning| format!("'{}': {}", warning.path, warning.message));
    warn_of_first(lines, "warnings", console).context("cannot warn")
}
