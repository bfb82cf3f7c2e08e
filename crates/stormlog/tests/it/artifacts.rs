//! Artifacts for queries, and functions that run the program in their folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// The result of a call of the program.
pub(crate) struct Called {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Called {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// The standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("JSON on standard output")
    }
}

/// The program, in a folder.
pub(crate) fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlog"));
    command.current_dir(folder).env("USER", "tester");
    command
}

/// Calls the program in a folder.
pub(crate) fn call(folder: &Path, arguments: &[&str]) -> Called {
    let output = program(folder).args(arguments).output();
    Called::of(output.expect("the program starts"))
}

/// A folder of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// When the first event of a sink happened.
pub(crate) const FIRST_NS: i64 = 1_762_000_000_000_000_000;

/// A record with some fields changed.
pub(crate) fn record(changes: &Value) -> Value {
    let mut record = json!({
        "schema_version": 3, "session_id": "s1", "timestamp_ns": FIRST_NS,
        "event_type": "sample", "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100, "pid": 4242, "host": "node-a", "job_id": null, "rank": 0,
        "local_rank": 0, "world_size": 1, "device_id": 0, "allocator_allocated_bytes": 1,
        "allocator_reserved_bytes": 2, "allocator_active_bytes": null,
        "allocator_inactive_bytes": null, "allocator_change_bytes": 0, "device_used_bytes": 3,
        "device_free_bytes": null, "device_total_bytes": null, "context": null, "metadata": {},
    });
    for (key, value) in changes.as_object().expect("an object") {
        record[key] = value.clone();
    }
    record
}

/// A session of a manifest with some fields changed.
pub(crate) fn session(changes: &Value) -> Value {
    let mut session = json!({
        "session_id": "s1", "status": "completed", "started_at_ns": FIRST_NS,
        "ended_at_ns": FIRST_NS + 1_000_000_000, "host": "node-a", "pid": 4242, "job_id": null,
        "rank": 0, "local_rank": 0, "world_size": 1, "source": "stormlog.tracker",
    });
    for (key, value) in changes.as_object().expect("an object") {
        session[key] = value.clone();
    }
    session
}

/// A sink with one segment of the first session.
pub(crate) fn write_sink(directory: &Path, sessions: &[Value], records: &[Value]) {
    std::fs::create_dir_all(directory).expect("a folder");
    let mut lines = String::new();
    for record in records {
        lines.push_str(&record.to_string());
        lines.push('\n');
    }
    std::fs::write(directory.join("segment-000001.jsonl"), &lines).expect("a segment");
    let manifest = json!({
        "schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
        "sessions": sessions,
        "segments": [{
            "filename": "segment-000001.jsonl", "event_count": records.len(),
            "size_bytes": lines.len(), "closed": true,
            "session_id": sessions.first().map(|session| session["session_id"].clone()),
        }],
    });
    std::fs::write(directory.join("manifest.json"), manifest.to_string()).expect("a manifest");
}

/// An OOM bundle's manifest.
pub(crate) fn write_oom_bundle(directory: &Path, session_id: &str) {
    std::fs::create_dir_all(directory).expect("a folder");
    let manifest = json!({
        "schema_version": 2, "bundle_name": "x", "created_at_utc": "2025-11-01T12:26:41Z",
        "reason": "message_pattern:out of memory", "backend": "cuda", "event_count": 1,
        "session_id": session_id, "session_status": null, "session": null, "files": [],
    });
    std::fs::write(directory.join("manifest.json"), manifest.to_string()).expect("a manifest");
}
