//! Effects: work that an update requests and that others carry out.

use std::path::PathBuf;

use stormlog_analysis::issue::DecidedState;
use stormlog_format::{Event, Text};

use super::sampler::Target;

/// Work outside the model.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Quit the program.
    Quit,
    /// Read facts about this machine.
    AskMachine,
    /// List the sessions of some paths, then load the run that they contain.
    Open(Vec<PathBuf>),
    /// Load again what is open and grows.
    Refresh,
    /// List the recent runs.
    ListRuns,
    /// The same as `Open` for the paths in a typed text.
    OpenText(String),
    /// Load one session with the other ranks of its job.
    OpenSession(String),
    /// Draw and analyze another of the loaded runs.
    ShowRun(usize),
    /// Load another artifact to compare with.
    Compare(String),
    /// Store a decision about an issue.
    Decide(Text, DecidedState),
    /// List the folder of a partly typed path.
    List(String),
    /// Write events to `./exports`.
    Export(Vec<Event>, ExportFormat),
    /// Draw what is shown into `./visualizations`.
    SavePlot(PlotFormat, Option<(i64, i64)>, Vec<i64>),
    /// Sample a target while the interface runs.
    Watch(Target),
    /// Stop sampling.
    StopWatching,
}

/// The format of exported events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    Json,
    Csv,
}

/// The format of saved plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlotFormat {
    Png,
    Html,
}
