//! Effects: work that an update of the model requests and that other threads carry out.

use std::path::PathBuf;

use stormlog_analysis::issue::DecidedState;
use stormlog_format::{Event, Text};

use super::sampler::Target;

/// Work that an update of the model requests.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Quit the program.
    Quit,
    /// Read facts about this machine, such as its GPUs.
    AskMachine,
    /// List the sessions of some paths, then load the run that they contain.
    Open(Vec<PathBuf>),
    /// Load the open artifacts again if they are still being written.
    Refresh,
    /// List the recent runs.
    ListRuns,
    /// Open the paths in a text that the user typed.
    OpenText(String),
    /// Load one session with the other ranks of its job.
    OpenSession(String),
    /// Show another run of those that are loaded: draw and analyze it.
    ShowRun(usize),
    /// Load the artifact at a path and compare the shown run with it.
    Compare(String),
    /// Store a decision about an issue in its state file.
    Decide(Text, DecidedState),
    /// List the folder of a path that the user is typing.
    List(String),
    /// Write events to `./exports`.
    Export(Vec<Event>, ExportFormat),
    /// Save the shown part of the plot to `./visualizations`.
    SavePlot(PlotFormat, Option<(i64, i64)>, Vec<i64>),
    /// Start sampling a target, such as a GPU or a process, until the interface ends.
    Watch(Target),
    /// Stop sampling the target.
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
