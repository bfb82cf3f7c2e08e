//! What a directory is: a sink, a bundle or something else.

use stormlog_format::{Map, SINK_FORMAT, Value};

/// What a directory contains, decided by its manifest and the names of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An OOM bundle: a directory with files about an out-of-memory error.
    OomBundle,
    /// A directory with files about a run, written by the command `diagnose`.
    DiagnoseBundle,
    /// A sink, the directory into which a recorder writes events. It may have no events yet.
    Sink,
    /// A directory that is neither a sink nor a bundle. It may have a `manifest.json` of another
    /// program.
    Plain,
}

impl Shape {
    /// What the keys of a manifest say about its directory.
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
            Self::Plain
        }
    }
}
