//! Diagnoses a running process: records samples for a while, computes a verdict, and writes a
//! bundle of files.
//!
//! The bundle contains the same files as a bundle of stormlog 0.3.9, and in addition `report.json`
//! with the verdict and findings and `telemetry/`, the sink of the recording. Every file of the
//! bundle is written atomically. The manifest is written first, so a killed diagnosis leaves a
//! bundle that loads and is marked as unfinished.

mod bundle;
mod directory;
mod environment;
mod native_history;
mod seen;
mod summary;
mod watch;

pub use bundle::{Bundle, Outcome, Plan};
#[cfg(test)]
pub(crate) use bundle::{BundleManifest, Timeline};
pub use environment::{environment, fragmentation};
pub use seen::{Ending, Seen};
pub(crate) use summary::Summary;
pub(crate) use watch::{Target, Watch, watch};

/// The command that writes the bundle; the names in the bundle depend on it, as in stormlog 0.3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// A bundle of `stormlog diagnose`.
    Stormlog,
    /// A bundle of `gpumemprof diagnose`.
    Torch,
    /// A bundle of `tfmemprof diagnose`.
    TensorFlow,
    /// A bundle of `jaxmemprof diagnose`.
    Jax,
}

impl Flavour {
    /// The first part of a bundle's directory name; the second part is the time.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Stormlog | Self::Torch => "stormlog-diagnose",
            Self::TensorFlow => "stormlog-tensorflow-diagnose",
            Self::Jax => "stormlog-jax-diagnose",
        }
    }

    /// The name of the command that the session of the bundle states as its source.
    pub fn source(self) -> &'static str {
        match self {
            Self::Stormlog => "stormlog diagnose",
            Self::Torch => "gpumemprof diagnose",
            Self::TensorFlow => "tfmemprof diagnose",
            Self::Jax => "jaxmemprof diagnose",
        }
    }
}
