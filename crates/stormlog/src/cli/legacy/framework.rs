//! Code that `tfmemprof` and `jaxmemprof` share. Both programs watch a device from outside the
//! program that uses it, and print megabytes.

pub(crate) mod analyze;
pub(crate) mod info;
pub(crate) mod tracked;

pub(crate) use stormlog_compat::framework::Framework;

use crate::diagnose::Flavour;

/// The names that a framework's program and its sessions have.
pub(crate) struct Names {
    /// The framework's own name.
    pub(crate) framework: &'static str,
    /// The name of the program.
    pub(crate) program: &'static str,
    /// The source name of recorded sessions.
    pub(crate) session_source: &'static str,
    /// The flavour of the diagnose bundle.
    pub(crate) flavour: Flavour,
}

/// The names of a framework.
pub(crate) fn names(framework: Framework) -> Names {
    match framework {
        Framework::TensorFlow => Names {
            framework: "TensorFlow",
            program: "tfmemprof",
            session_source: "stormlog.tensorflow.tracker",
            flavour: Flavour::TensorFlow,
        },
        Framework::Jax => Names {
            framework: "JAX",
            program: "jaxmemprof",
            session_source: "stormlog.jax.tracker",
            flavour: Flavour::Jax,
        },
    }
}

/// Converts bytes to megabytes.
pub(crate) fn megabytes(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
