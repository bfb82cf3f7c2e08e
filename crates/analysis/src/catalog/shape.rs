//! Decides from the keys of a manifest whether its directory is a sink or a bundle.

use stormlog_format::{Map, SINK_FORMAT, Value};

/// What a `manifest.json` describes; other programs use this file name too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An OOM bundle: a directory with files about an out-of-memory error.
    OomBundle,
    /// A directory with files about a run, written by the command `diagnose`.
    DiagnoseBundle,
    /// A sink, the directory into which a recorder writes events. It may have no events yet.
    Sink,
    /// Something else: the manifest was written by another program.
    Unknown,
}

impl Shape {
    pub(crate) fn of(manifest: &Map) -> Self {
        let has = |keys: &[&str]| keys.iter().all(|key| manifest.contains(key));
        let is_sink = || {
            let format = manifest.text("format");
            format.is_some_and(|format| *format == SINK_FORMAT)
                || has(&["segments"])
                || matches!(manifest.get("sessions"), Some(Value::List(_)))
        };
        if has(&["bundle_name", "reason", "backend", "event_count"]) {
            Self::OomBundle
        } else if has(&["command_line", "files", "risk_detected", "session_id"]) {
            Self::DiagnoseBundle
        } else if is_sink() {
            Self::Sink
        } else {
            Self::Unknown
        }
    }
}
