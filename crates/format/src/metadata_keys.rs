//! Keys of event metadata that several crates read or write.

/// The severity of the event, such as `warning`.
pub const SEVERITY: &str = "severity";
/// The accelerator backend of the process, such as `cuda`.
pub const BACKEND: &str = "backend";
/// The health of the collector at the time of the event, such as `healthy` or `degraded`.
pub const COLLECTOR_HEALTH_STATUS: &str = "collector_health_status";
/// Names of the counters that the collector could not read. A record of version 3 may contain
/// placeholders in place of these counters ([`Placeholders`](crate::Placeholders)).
pub const COLLECTOR_PARTIAL_FIELDS: &str = "collector_partial_fields";
/// Why the event counts as an out-of-memory error.
pub const OOM_REASON: &str = "oom_reason";
/// The path of the OOM bundle that the recorder wrote for the error.
pub const OOM_DUMP_PATH: &str = "oom_dump_path";
/// The phase that begins or ends with the event: an object with its name, its path (the names from
/// the outermost phase to this one) and its ids.
pub const PHASE_SCOPE: &str = "phase_scope";
/// The number of the training step.
pub const STEP: &str = "step";
