//! The wall clock, the name of the machine, and the summary of a new session, for sinks.

use std::time::{SystemTime, UNIX_EPOCH};

use stormlog_format::{SessionStatus, SessionSummary, Text, new_session_id};

use crate::collect::signed;

/// The `source` of a session that a sink begins by itself, because no caller gave it a summary of
/// the session.
const SINK_SOURCE: &str = "stormlog.telemetry_sink";

/// The time of the wall clock, in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| signed(since.as_nanos()))
}

/// The name of this machine.
pub fn host_name() -> Text {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().as_ref().into()
}

/// The summary of a session that this process starts now, with the given id or a new one. It has no
/// job id, and its rank is 0.
pub(crate) fn new_session(session_id: Option<Text>) -> SessionSummary {
    SessionSummary {
        session_id: session_id.unwrap_or_else(new_session_id),
        status: SessionStatus::Running,
        started_at_ns: now_ns(),
        ended_at_ns: None,
        host: host_name(),
        pid: i64::from(std::process::id()),
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        source: SINK_SOURCE.into(),
        recorder: None,
    }
}
