//! Effects: work that an update of the model requests and that other threads carry out.

use std::path::PathBuf;

use stormlog_analysis::issue::DecidedState;
use stormlog_format::{Event, Text};

use super::sampler::Target;
use crate::export::EventFormat;

/// Work that the terminal UI requests from other threads, for example after a key press.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Quit the terminal UI.
    Quit,
    /// Read facts about this machine, such as its GPUs.
    AskMachine,
    /// List the sessions of the recordings at some paths, then load the recordings and show their
    /// first run.
    Open(Vec<PathBuf>),
    /// Load the open recordings again, because they are still being written.
    Refresh,
    /// List the recent runs in the current directory and in its subdirectory `stormlog-runs`.
    ListRuns,
    /// Open the paths in a text that the user typed.
    OpenText(String),
    /// Load one session with the other ranks of its job.
    OpenSession(String),
    /// Show another of the loaded runs, the one with this index in the report.
    ShowRun(usize),
    /// Load the recording or saved baseline at a path that the user typed, and compare the loaded
    /// run with it.
    Compare(String),
    /// Store a decision about the issue with this id, such as resolved, in the state file
    /// `issues.json`.
    Decide(Text, DecidedState),
    /// List the entries of the folder whose path the user is typing, as suggestions.
    List(String),
    /// Write events to a file in `./exports`.
    Export(Vec<Event>, EventFormat),
    /// Save the plot to a file in `./visualizations`: only the given time range, if there is one,
    /// and only the given ranks.
    SavePlot(PlotFormat, Option<(i64, i64)>, Vec<i64>),
    /// Start sampling a target, such as a GPU or a process, until the interface ends.
    Watch(Target),
    /// Stop sampling the target of the live view.
    StopWatching,
}

/// The file format of saved plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlotFormat {
    Png,
    Html,
}
