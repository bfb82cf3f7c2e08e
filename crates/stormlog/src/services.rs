//! Experiment trackers that a result is logged to.
//!
//! The program knows what was asked for and what there is to log, and nothing of the services:
//! their libraries are Python's, so whoever starts the program from there brings them along.

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

/// A service that was asked for, and how to log to it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which service.
    pub service: Service,
    /// Its settings by their names in the Python package; what was not given is not there.
    pub settings: Map,
}

/// What a command leaves behind when its work is done.
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
    /// What it is in numbers, by the names of the trackers.
    pub statistics: Map,
    /// The last events.
    pub events: Vec<Event>,
    /// The file that they were written to.
    pub output: Option<PathBuf>,
    /// The sink that they were stored in.
    pub sink: Option<PathBuf>,
    /// The last bundle of the flight recorder.
    pub oom_bundle: Option<PathBuf>,
}

impl Finished {
    /// What a recorder recorded; nothing when it never started.
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
    /// Whether a service can be logged to, asked before any work is done; says what is missing.
    fn check(&mut self, request: &Request) -> Result<(), String>;

    /// Logs a result under the name of the command; says where it is to be found.
    fn log(
        &mut self,
        request: &Request,
        command: &str,
        finished: &Finished,
    ) -> Result<Option<String>, String>;
}
