//! Code that `tfmemprof` and `jaxmemprof` share. `tfmemprof` and `jaxmemprof` record a device from
//! outside the training process that uses it, and print sizes in megabytes.

pub(crate) mod analyze;
pub(crate) mod info;
pub(crate) mod tracked;

pub(crate) use stormlog_compat::framework::Framework;

use crate::diagnose::Flavour;

/// The names used by the command of one framework and by its sessions.
pub(crate) struct Names {
    /// The name of the framework.
    pub(crate) framework: &'static str,
    /// The name of the command, such as `tfmemprof`.
    pub(crate) program: &'static str,
    /// The name that recorded sessions state as their source.
    pub(crate) session_source: &'static str,
    /// Which form of the diagnose bundle the command writes.
    pub(crate) flavour: Flavour,
}

/// The names for the command of a framework.
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
