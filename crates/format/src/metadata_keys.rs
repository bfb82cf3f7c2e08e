//! Keys of event metadata that several crates read or write.

/// The severity of the event.
pub const SEVERITY: &str = "severity";
/// The accelerator backend of the process.
pub const BACKEND: &str = "backend";
/// The health of the collector at that time.
pub const COLLECTOR_HEALTH_STATUS: &str = "collector_health_status";
/// Counters that the collector could not read. Version 3 contains zeros in their place.
pub const COLLECTOR_PARTIAL_FIELDS: &str = "collector_partial_fields";
/// Why the event is an out-of-memory error.
pub const OOM_REASON: &str = "oom_reason";
/// The path of the bundle that the flight recorder wrote.
pub const OOM_DUMP_PATH: &str = "oom_dump_path";
/// The phase that an event enters or leaves.
pub const PHASE_SCOPE: &str = "phase_scope";
/// The number of the training step.
pub const STEP: &str = "step";
