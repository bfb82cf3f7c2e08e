//! Code that `tfmemprof` and `jaxmemprof` share. `tfmemprof` and `jaxmemprof` record a device from
//! outside the training process that uses it, and print sizes in megabytes.

pub(crate) mod analyze;
pub(crate) mod info;
pub(crate) mod tracked;

pub(crate) use stormlog_compat::framework::Framework;

/// The names that depend on the framework: those in the output of its command (`tfmemprof` or
/// `jaxmemprof`) and those in the files that the command writes.
pub(crate) struct Names {
    /// The name of the framework in messages: `TensorFlow` or `JAX`.
    pub(crate) framework: &'static str,
    /// The name of the command, such as `tfmemprof`.
    pub(crate) program: &'static str,
    /// The value of the field `source` of recorded sessions, which names the program that recorded
    /// them.
    pub(crate) session_source: &'static str,
}

/// The names for `tfmemprof` (TensorFlow) or `jaxmemprof` (JAX).
pub(crate) fn names(framework: Framework) -> Names {
    match framework {
        Framework::TensorFlow => Names {
            framework: "TensorFlow",
            program: "tfmemprof",
            session_source: "stormlog.tensorflow.tracker",
        },
        Framework::Jax => Names {
            framework: "JAX",
            program: "jaxmemprof",
            session_source: "stormlog.jax.tracker",
        },
    }
}

/// Converts bytes to megabytes of 2^20 bytes.
pub(crate) fn megabytes(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
