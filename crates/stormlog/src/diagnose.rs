//! A diagnosis while something runs: a window of samples, a verdict, and a bundle of files that
//! says what was seen.
//!
//! The bundle has the files and names of stormlog 0.3.9, `report.json` with our verdict and findings,
//! and `telemetry/`, the sink that the window was recorded into. Files appear whole or not at
//! all, and the manifest is there from the start, so that a killed diagnosis leaves a bundle
//! that loads and says that it did not end.

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
