//! Sessions and events for tests.

use stormlog_format::{Counters, Event, Map, SessionStatus, SessionSummary, Version};

/// A running session with the given id.
pub(crate) fn session(id: &str) -> SessionSummary {
    SessionSummary {
        session_id: id.into(),
        status: SessionStatus::Running,
        started_at_ns: 1_700_000_000_000_000_000,
        ended_at_ns: None,
        host: "node".into(),
        pid: 1,
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        source: "stormlog.tracker".into(),
        recorder: None,
    }
}

/// The n-th sample of a session, a second after the one before.
pub(crate) fn sample(id: &str, number: i64) -> Event {
    Event {
        version: Version::V3,
        session_id: id.into(),
        timestamp_ns: 1_700_000_000_000_000_000 + number * 1_000_000_000,
        event_type: "sample".into(),
        collector: "stormlog.cuda_tracker".into(),
        sampling_interval_ms: 100,
        pid: 1,
        host: "node".into(),
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        device_id: 0,
        counters: Counters {
            allocator_allocated_bytes: Some(number),
            allocator_reserved_bytes: Some(number),
            allocator_change_bytes: Some(0),
            device_used_bytes: Some(number),
            ..Counters::default()
        },
        context: None,
        metadata: Map::new(),
    }
}
