//! Diagnoses a running process: records a window of samples, computes a verdict, and writes a
//! bundle of files.
//!
//! The bundle has the files and names of stormlog 0.3.9, `report.json` with our verdict and
//! findings, and `telemetry/`, the sink of the recording. Every file is written atomically. The
//! manifest is written first, so a killed diagnosis leaves a bundle that loads and is marked as
//! unfinished.

mod bundle;
mod directory;
mod environment;
mod native_history;
mod seen;
mod summary;
mod watch;

pub use bundle::{Bundle, Outcome, Plan};
pub use environment::{environment, fragmentation};
pub use seen::{Ending, Seen};
pub(crate) use watch::{Target, Watch, watch};

/// The program that writes the bundle; its names are those of stormlog 0.3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Of `stormlog`.
    Stormlog,
    /// Of `gpumemprof`.
    Torch,
    /// Of `tfmemprof`.
    TensorFlow,
    /// Of `jaxmemprof`.
    Jax,
}

impl Flavour {
    /// Prefix of the name of a bundle in an existing directory; the time follows.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Stormlog | Self::Torch => "stormlog-diagnose",
            Self::TensorFlow => "stormlog-tensorflow-diagnose",
            Self::Jax => "stormlog-jax-diagnose",
        }
    }

    /// The source of its session.
    pub fn source(self) -> &'static str {
        match self {
            Self::Stormlog => "stormlog diagnose",
            Self::Torch => "gpumemprof diagnose",
            Self::TensorFlow => "tfmemprof diagnose",
            Self::Jax => "jaxmemprof diagnose",
        }
    }
}
