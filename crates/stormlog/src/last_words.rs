//! How a program ended, told where it could not tell it itself: in the sessions that it left
//! open, and in those that were recorded from outside.

use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use stormlog_analysis::{LoadOptions, LoadedSession, load_sessions};
use stormlog_capture::record::Recorder;
use stormlog_capture::store::{Sink, SinkConfig, SinkError};
use stormlog_format::classify::KERNEL_OOM_KILL;
use stormlog_format::{Event, Map, SessionStatus};

use crate::watched::{Ended, sinks};

/// Ends the sessions below a root that killed processes left open: each gets a last event that
/// says what became of its process. A sink that a process still writes to is left alone.
pub(crate) fn close_what_was_left_open(root: &Path, ended: &Ended) {
    for directory in sinks(root) {
        let Ok(loaded) = load_sessions(&directory, &LoadOptions::default()) else {
            continue;
        };
        let is_open = |session: &&LoadedSession| session.summary.status == SessionStatus::Running;
        let left_open: Vec<&LoadedSession> = loaded.sessions.iter().filter(is_open).collect();
        if left_open.is_empty() || !is_free(&directory) {
            continue;
        }
        let config = SinkConfig {
            // The segments of every rank would be read for them, after a crash.
            write_rollups: false,
            ..SinkConfig::new(&directory)
        };
        // Opening marks the sessions as interrupted; a disk that takes no more leaves it at that.
        if let Ok(sink) = Sink::open(config) {
            for session in left_open {
                let _ = tell(&sink, session, ended);
            }
        }
    }
}

fn is_free(directory: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
        .and_then(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))
        .is_ok()
}

fn tell(sink: &Sink, session: &LoadedSession, ended: &Ended) -> Result<(), SinkError> {
    let events = session.events.iter();
    let Some(last) = events.max_by_key(|event| event.timestamp_ns()) else {
        return Ok(());
    };
    let end = end_of_process(last.to_event(), session, ended);
    sink.start_session(Some(session.summary.clone()))?;
    sink.append(&end)?;
    sink.close(SessionStatus::Interrupted)
}

/// The last event of a process, with the counters that were last known of it.
fn end_of_process(last: Event, session: &LoadedSession, ended: &Ended) -> Event {
    let mut metadata = Map::new();
    metadata.insert("counters_at_ns", last.timestamp_ns);
    if ended.oom_kills > 0 {
        metadata.insert("oom_reason", KERNEL_OOM_KILL);
    }
    let what = if session.summary.pid == i64::from(ended.pid) {
        ended.describe()
    } else {
        format!(
            "ended without closing its session{}",
            ended.why().unwrap_or_default()
        )
    };
    let now = jiff::Timestamp::now().as_nanosecond();
    let now = i64::try_from(now).unwrap_or(last.timestamp_ns);
    let mut end = Event {
        // A clock that was set back must not put the end before what led to it.
        timestamp_ns: now.max(last.timestamp_ns),
        event_type: event_type(ended).into(),
        context: Some(what.into()),
        metadata,
        ..last
    };
    let change = &mut end.counters.allocator_change_bytes;
    *change = change.map(|_| 0);
    end
}

/// Tells a capture from outside that the kernel killed what it watched.
pub(crate) fn tell_recorder(recorder: &Recorder, ended: &Ended) {
    if ended.oom_kills > 0 {
        let mut metadata = Map::new();
        metadata.insert("oom_reason", KERNEL_OOM_KILL);
        recorder.record(event_type(ended), 0, &ended.describe(), metadata);
    }
}

/// A process that somebody ended has no error for that.
fn event_type(ended: &Ended) -> &'static str {
    if ended.oom_kills > 0 { "error" } else { "stop" }
}
