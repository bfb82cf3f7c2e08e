//! What an update wants done that is not its own to do.

use std::path::PathBuf;

use stormlog_analysis::issue::DecidedState;
use stormlog_format::{Event, Text};

use super::sampler::Target;

/// Something to do outside the model.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Leave.
    Quit,
    /// Find out what machine this is.
    AskMachine,
    /// List what some paths hold, then load the run that they mean.
    Open(Vec<PathBuf>),
    /// Look again at what is open and grows.
    Refresh,
    /// List the runs that were recorded here.
    ListRuns,
    /// The same as `Open` for the paths that a typed text means.
    OpenText(String),
    /// Load one session with the other ranks of its job.
    OpenSession(String),
    /// Make the pictures and findings of another run of those that are loaded.
    ShowRun(usize),
    /// Load another artifact to compare with.
    Compare(String),
    /// Note a decision about an issue.
    Decide(Text, DecidedState),
    /// List the folder that a half-typed path is in.
    List(String),
    /// Write events to `./exports`.
    Export(Vec<Event>, ExportFormat),
    /// Draw what is shown to `./visualizations`.
    SavePlot(PlotFormat, Option<(i64, i64)>, Vec<i64>),
    /// Sample something while the interface runs.
    Watch(Target),
    /// Stop sampling.
    StopWatching,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    Json,
    Csv,
}

/// How plots are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlotFormat {
    Png,
    Html,
}
