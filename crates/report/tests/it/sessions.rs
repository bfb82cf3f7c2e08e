//! Sessions made for tests, as sentences.

use stormlog_analysis::{Events, LoadedSession};
use stormlog_format::{Counters, Event, Map, SessionStatus, SessionSummary, Value, Version};

pub(crate) const GIB: i64 = 1 << 30;
pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const START: i64 = 1_794_726_520_000_000_000;

/// Events of one rank.
pub(crate) struct Rank {
    number: i64,
    start_ns: i64,
    device_id: i64,
    events: Vec<Event>,
}

pub(crate) fn rank(rank: i64) -> Rank {
    Rank {
        number: rank,
        start_ns: START,
        device_id: 0,
        events: Vec::new(),
    }
}

/// Events of the host memory of one rank.
pub(crate) fn host_of(rank: i64) -> Rank {
    Rank {
        device_id: -1,
        ..self::rank(rank)
    }
}

impl Rank {
    /// The rank runs on a machine of its own, whose clock is ahead.
    pub(crate) fn clock_ahead_by(mut self, ns: i64) -> Self {
        self.start_ns += ns;
        self
    }

    pub(crate) fn event(
        mut self,
        at_ns: i64,
        kind: &str,
        context: Option<&str>,
        counters: Counters,
    ) -> Self {
        self.events.push(Event {
            version: Version::V4,
            session_id: match self.device_id {
                -1 => format!("host-{}", self.number).as_str().into(),
                _ => format!("session-{}", self.number).as_str().into(),
            },
            timestamp_ns: self.start_ns + at_ns,
            event_type: kind.into(),
            collector: "stormlog.cuda_tracker".into(),
            sampling_interval_ms: 100,
            pid: 7,
            host: match self.start_ns {
                START => "h200".into(),
                _ => "h200-ahead".into(),
            },
            job_id: Some("job".into()),
            rank: self.number,
            local_rank: self.number,
            world_size: 4,
            device_id: self.device_id,
            counters,
            context: context.map(Into::into),
            metadata: Map::new(),
        });
        self
    }

    pub(crate) fn metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        let event = self.events.last_mut().expect("an event to describe");
        event.metadata.insert(key, value.into());
        self
    }

    /// A sample of allocated, reserved and used bytes on a device of 80 GiB.
    pub(crate) fn sample(self, at_ns: i64, allocated: i64, reserved: i64, used: i64) -> Self {
        let counters = Counters {
            allocator_allocated_bytes: Some(allocated),
            allocator_reserved_bytes: Some(reserved),
            device_used_bytes: Some(used),
            device_total_bytes: Some(80 * GIB),
            ..Counters::default()
        };
        self.event(at_ns, "sample", None, counters)
    }

    /// Samples every tenth of a second, all alike.
    pub(crate) fn steady(mut self, count: i64, allocated: i64, reserved: i64, used: i64) -> Self {
        for place in 0..count {
            self = self.sample(place * SECOND / 10, allocated, reserved, used);
        }
        self
    }

    pub(crate) fn session(self) -> LoadedSession {
        let first = self.events.first().expect("a session with events");
        LoadedSession {
            summary: SessionSummary {
                session_id: first.session_id.clone(),
                status: SessionStatus::Completed,
                started_at_ns: first.timestamp_ns,
                ended_at_ns: None,
                host: first.host.clone(),
                pid: first.pid,
                job_id: first.job_id.clone(),
                rank: self.number,
                local_rank: self.number,
                world_size: 4,
                source: "test".into(),
                recorder: None,
            },
            events: Events::from_events(&self.events),
            sources: vec!["segment-000001.jsonl".into()],
            damage: Vec::new(),
            thinned_until_ns: None,
        }
    }
}
