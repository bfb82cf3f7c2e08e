//! The interface to experiment trackers such as W&B, to which results are logged.
//!
//! This crate does not call the experiment trackers itself, because their libraries are written in
//! Python; the Python package implements the trait [`Services`].

use std::path::{Path, PathBuf};

use stormlog_capture::record::Recorder;
use stormlog_format::{Event, Map, SessionSummary};

/// An experiment tracker to which the results of a command can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Weights & Biases.
    Wandb,
    /// `MLflow`.
    Mlflow,
}

impl Service {
    /// The name of the service on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Self::Wandb => "wandb",
            Self::Mlflow => "mlflow",
        }
    }

    /// The name of the service in messages to the user.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wandb => "W&B",
            Self::Mlflow => "MLflow",
        }
    }
}

/// A request by the user to log the results of a command to an experiment tracker.
#[derive(Clone, Debug)]
pub struct Request {
    /// The service to log to.
    pub service: Service,
    /// The settings for the service that the user gave on the command line; the keys are the names
    /// of the settings in the Python package.
    pub settings: Map,
}

/// The result of a command, in the form that is logged to an experiment tracker.
#[derive(Debug)]
pub enum Finished {
    /// The result of a command that recorded memory.
    Tracking(Box<Tracked>),
    /// The result of a `diagnose` command: the directory to which it wrote its files.
    Diagnosis(PathBuf),
}

/// The result of a recording that has ended.
#[derive(Debug)]
pub struct Tracked {
    /// The session.
    pub session: SessionSummary,
    /// Statistics of the recording, under the names that the statistics of `MemoryTracker` in
    /// stormlog 0.3.9 have.
    pub statistics: Map,
    /// The events that the recorder still had in memory at the end, which are the latest ones.
    pub events: Vec<Event>,
    /// The file with the recorded events, if the user requested one.
    pub output: Option<PathBuf>,
    /// The directory to which events were written during the recording, if any.
    pub sink: Option<PathBuf>,
    /// The directory of the last out-of-memory bundle (the events before an out-of-memory error),
    /// if one was written.
    pub oom_bundle: Option<PathBuf>,
}

impl Finished {
    /// The result of a recorder that has stopped; `None` when the recorder was never started.
    pub(crate) fn tracking(
        recorder: &Recorder,
        output: Option<&Path>,
        oom_bundle: Option<&Path>,
    ) -> Option<Self> {
        Some(Self::Tracking(Box::new(Tracked {
            session: recorder.session()?,
            statistics: recorder.device_statistics(None),
            events: recorder.records(),
            output: output.map(Path::to_path_buf),
            sink: recorder.sink_directory(),
            oom_bundle: oom_bundle.map(Path::to_path_buf),
        })))
    }
}

/// Logs the results of commands to experiment trackers.
pub trait Services {
    /// Checks whether a service is available, before any recording starts; the error describes what
    /// is missing.
    fn check(&mut self, request: &Request) -> Result<(), String>;

    /// Logs a result under the name of the command; returns where the user can find the logged
    /// result, such as a URL.
    fn log(
        &mut self,
        request: &Request,
        command: &str,
        finished: &Finished,
    ) -> Result<Option<String>, String>;
}
