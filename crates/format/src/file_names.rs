//! The names of files in bundles and next to artifacts. The names of files in sinks are in
//! [`SinkNames`].
//!
//! [`SinkNames`]: crate::SinkNames

/// The name of the manifest of an ordinary sink, of a diagnose bundle and of an OOM bundle.
pub const MANIFEST: &str = "manifest.json";
/// The name of the manifest of a host sink, the sink of a run's host memory.
pub const HOST_MANIFEST: &str = "host.json";
/// The name of the file with the rollups of a sink: totals and peaks that answer queries without
/// reading the events.
pub const ROLLUPS: &str = "rollups.json";
/// The name of the file with the samples of a diagnose bundle, the folder that `stormlog diagnose`
/// writes.
pub const TIMELINE: &str = "telemetry_timeline.json";
/// The name of the sink in a diagnose bundle.
pub const BUNDLE_SINK: &str = "telemetry";
/// The name of the file with the summary of a diagnose bundle: memory sizes, risk flags and
/// suggestions.
pub const SUMMARY: &str = "diagnostic_summary.json";
/// The name of the file with the report of a diagnose bundle.
pub const REPORT: &str = "report.json";
/// The name of the file with information about machine, program and libraries, in diagnose bundles
/// and OOM bundles.
pub const ENVIRONMENT: &str = "environment.json";
/// The name of the file with the last events before the error, in an OOM bundle.
pub const EVENTS: &str = "events.json";
/// The name of the file with the details of the error, in an OOM bundle.
pub const METADATA: &str = "metadata.json";
/// The name of a run envelope, in which a user or a tool describes a run.
pub const RUN_ENVELOPE: &str = "stormlog_run.json";
/// The name of the file with links to data of other tools about a run.
pub const ATTACHMENTS: &str = "stormlog_attachments.json";
