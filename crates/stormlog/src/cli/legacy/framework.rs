//! What `tfmemprof` and `jaxmemprof` share: a device in megabytes, watched from outside of the
//! program that uses it.

pub(crate) mod analyze;
pub(crate) mod info;
pub(crate) mod tracked;

pub(crate) use stormlog_compat::framework::Framework;

use crate::diagnose::Flavour;

/// What a framework's program calls itself and its sessions.
pub(crate) struct Names {
    /// The framework as people write it.
    pub(crate) framework: &'static str,
    /// The program.
    pub(crate) program: &'static str,
    /// The source of recorded sessions.
    pub(crate) session_source: &'static str,
    /// Whose diagnose bundle it is.
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

/// Bytes in megabytes.
#[expect(clippy::cast_precision_loss, reason = "megabytes are floats here")]
pub(crate) fn megabytes(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
