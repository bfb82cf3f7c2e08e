//! Keys of event metadata that several crates read or write. The keys of numbers in the metadata of
//! samples are in [`SampleNumber`](crate::SampleNumber).

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
/// The device memory of the other processes on the device, by their process ids.
pub const OTHER_PROCESSES: &str = "other_processes";
/// The host memory of a process tree: an object with its kinds, such as `anonymous`.
pub const HOST_MEMORY: &str = "host_memory";
/// The host memory of each process of a process tree.
pub const PROCESSES: &str = "processes";
/// The id of the device that the driver gives it.
pub const DEVICE_UUID: &str = "device_uuid";
/// The id of the run that a session of devices belongs to, in its first event.
pub const RUN_ID: &str = "run_id";
/// Why the collector could not read its counters.
pub const COLLECTOR_LAST_ERROR: &str = "collector_last_error";
/// Why the collector became degraded.
pub const COLLECTOR_DEGRADATION_REASON: &str = "collector_degradation_reason";
/// How many readings of the collector have failed in succession.
pub const COLLECTOR_CONSECUTIVE_FAILURES: &str = "collector_consecutive_failures";
/// When the collector tries again, in seconds since 1970.
pub const COLLECTOR_NEXT_RETRY_EPOCH_S: &str = "collector_next_retry_epoch_s";
/// The size of the allocation that failed for lack of memory.
pub const REQUESTED_BYTES: &str = "requested_bytes";
/// The results of evidence windows, or of an inspection of host memory.
pub const EVIDENCE: &str = "evidence";
