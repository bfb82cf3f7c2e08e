//! The interface to experiment trackers, to which results are logged.
//!
//! The program knows the request and the results, but not the services. Their libraries are written
//! in Python, so a caller from Python supplies the implementation.

use std::path::{Path, PathBuf};

use stormlog_capture::record::Recorder;
use stormlog_format::{Event, Map, SessionSummary};

/// A service that results can be logged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Weights & Biases.
    Wandb,
    /// `MLflow`.
    Mlflow,
}

impl Service {
    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Self::Wandb => "wandb",
            Self::Mlflow => "mlflow",
        }
    }

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wandb => "W&B",
            Self::Mlflow => "MLflow",
        }
    }
}

/// A requested service and its settings.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which service.
    pub service: Service,
    /// Settings by their names in the Python package; settings that were not given are missing.
    pub settings: Map,
}

/// The result of a command.
#[derive(Debug)]
pub enum Finished {
    /// A recording.
    Tracking(Box<Tracked>),
    /// The directory of a diagnose bundle.
    Diagnosis(PathBuf),
}

/// A recording that has ended.
#[derive(Debug)]
pub struct Tracked {
    /// The session.
    pub session: SessionSummary,
    /// Statistics, with the names that trackers use.
    pub statistics: Map,
    /// The last events.
    pub events: Vec<Event>,
    /// The output file, if one was written.
    pub output: Option<PathBuf>,
    /// The sink, if events were stored.
    pub sink: Option<PathBuf>,
    /// The last bundle of the flight recorder.
    pub oom_bundle: Option<PathBuf>,
}

impl Finished {
    /// The result of a recorder; `None` when it never started.
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

/// Logs results for the program.
pub trait Services {
    /// Checks before any work whether a service is available; the error describes what is missing.
    fn check(&mut self, request: &Request) -> Result<(), String>;

    /// Logs a result under the name of the command; returns where to find it.
    fn log(
        &mut self,
        request: &Request,
        command: &str,
        finished: &Finished,
    ) -> Result<Option<String>, String>;
}
