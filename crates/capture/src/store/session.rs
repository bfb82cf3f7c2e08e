//! The name of the machine, and the summary of a new session, for sinks.

use stormlog_format::{SessionStatus, SessionSummary, Text, new_session_id};

use crate::clock::now_ns;

/// The `source` of a session that a sink begins by itself, because no caller gave it a summary of
/// the session.
const SINK_SOURCE: &str = "stormlog.telemetry_sink";

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
