//! The columns of tables and CSV files, in the order of stormlog 0.3.9.

use stormlog_format::Map;

/// The columns that come first, the most important one first; all other columns follow in
/// alphabetical order.
#[derive(Clone, Copy, Debug)]
pub struct Columns(pub &'static [&'static str]);

impl Columns {
    /// The columns of a list of runs.
    pub const RUNS: Self = Self(&[
        "run_id",
        "explicit",
        "title",
        "job_id",
        "started_at_ns",
        "ended_at_ns",
        "session_count",
        "attachment_count",
        "source_kind",
        "source_path",
        "source_namespace",
        "source_ref",
        "sessions",
        "ranks",
    ]);
    /// The columns of a list of files and links that are attached to runs.
    pub const ATTACHMENTS: Self = Self(&[
        "run_id",
        "kind",
        "title",
        "storage",
        "session_id",
        "job_id",
        "rank",
        "source_kind",
        "source_path",
        "source_namespace",
        "source_ref",
        "url",
        "path",
    ]);
    /// The columns of a list of sessions, each of which is the recording of one process or one of
    /// its devices.
    pub const SESSIONS: Self = Self(&[
        "session_id",
        "status",
        "started_at_ns",
        "ended_at_ns",
        "host",
        "pid",
        "job_id",
        "rank",
        "local_rank",
        "world_size",
        "source_kind",
        "source_path",
        "source_count",
        "warning_count",
        "event_count",
        "oom_bundle_count",
    ]);
    /// The columns of a list of recorded events.
    pub const EVENTS: Self = Self(&[
        "session_id",
        "timestamp_ns",
        "event_type",
        "rank",
        "local_rank",
        "world_size",
        "collector",
        "allocator_allocated_bytes",
        "allocator_reserved_bytes",
        "device_used_bytes",
        "source_kind",
        "source_path",
        "session_status",
    ]);
    /// The columns of a list of OOM bundles (folders that were written at out-of-memory errors).
    pub const OOMS: Self = Self(&[
        "bundle_path",
        "created_at_utc",
        "backend",
        "reason",
        "event_count",
        "session_id",
        "session_status",
        "exception_type",
        "exception_module",
    ]);
    /// The columns of a list of issues (problems that were recognized across runs).
    pub const ISSUES: Self = Self(&[
        "fingerprint_id",
        "kind",
        "state",
        "severity",
        "title",
        "hit_count",
        "first_seen_ns",
        "last_seen_ns",
        "affected_sessions",
        "representative_evidence",
    ]);
    /// The columns of `stormlog query summary`: values of a metric, by session or rank.
    pub const SUMMARY: Self = Self(&[
        "metric",
        "group_by",
        "session_id",
        "rank",
        "status",
        "value",
        "timestamp_ns",
        "first_gap_bytes",
        "latest_gap_bytes",
        "peak_gap_bytes",
        "sample_count",
    ]);
    /// The columns of a list of events and findings around a point in time.
    pub const CORRELATE: Self = Self(&[
        "confidence",
        "kind",
        "title",
        "session_id",
        "job_id",
        "rank",
        "start_ns",
        "end_ns",
        "source_kind",
        "source_path",
        "reasons",
    ]);

    /// The names of the columns in the order in which they are printed.
    pub(super) fn names(self) -> Vec<String> {
        self.0.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// The columns for a list of rows: first the columns in `known`, then all other keys of the rows in
/// alphabetical order.
pub(super) fn of_rows(known: &[String], rows: &[Map]) -> Vec<String> {
    let mut others = std::collections::BTreeSet::new();
    for row in rows {
        for (key, _) in row.iter() {
            let key = key.to_str_lossy();
            if !known.iter().any(|name| *name == key) {
                others.insert(key.into_owned());
            }
        }
    }
    known.iter().cloned().chain(others).collect()
}
