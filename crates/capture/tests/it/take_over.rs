//! Two sinks of one process on one directory: the later takes over; the earlier loses none of its
//! events and reports it.

use std::path::Path;
use std::time::Duration;

use stormlog_analysis::{LoadOptions, load_sessions};
use stormlog_capture::store::{BackgroundSink, Sink, SinkConfig};
use stormlog_format::SessionStatus;

use crate::events::{sample, session};

const PATIENCE: Duration = Duration::from_mins(1);

/// A sink that flushes only when it is closed.
fn lazy(directory: &Path) -> SinkConfig {
    SinkConfig {
        flush_every: Duration::from_hours(1),
        flush_every_events: 1_000_000,
        ..SinkConfig::new(directory)
    }
}

fn loaded(directory: &Path) -> Vec<(String, SessionStatus, usize)> {
    let loaded = load_sessions(directory, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.damage, []);
    let mut sessions: Vec<_> = loaded
        .sessions
        .iter()
        .map(|one| {
            let id = one.summary.session_id.to_string();
            (id, one.summary.status, one.events.len())
        })
        .collect();
    sessions.sort();
    sessions
}

#[test]
fn a_background_sink_writes_what_waits_before_another_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let first = BackgroundSink::start(lazy(folder.path()), session("one"));
    first.record(sample("one", 0));
    assert!(first.flush(PATIENCE), "it has the directory");
    for number in 1..40 {
        assert!(first.record(sample("one", number)));
    }
    let second = BackgroundSink::start(lazy(folder.path()), session("two"));
    second.record(sample("two", 0));
    assert!(second.flush(PATIENCE));
    let status = first.status();
    assert!(status.is_finished);
    assert_eq!(status.session_status, SessionStatus::Interrupted);
    let problem = status.problem.unwrap();
    assert!(problem.contains("records into"), "{problem}");
    assert_eq!(first.take_notices(), [problem]);
    second.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!(
        loaded(folder.path()),
        [
            ("one".into(), SessionStatus::Interrupted, 40),
            ("two".into(), SessionStatus::Completed, 1)
        ]
    );
}

#[test]
fn a_sink_writes_what_is_buffered_before_another_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let first = Sink::open(lazy(folder.path())).unwrap();
    first.start_session(Some(session("one"))).unwrap();
    for number in 0..40 {
        first.append(&sample("one", number)).unwrap();
    }
    let second = Sink::open(lazy(folder.path())).unwrap();
    let refused = first.append(&sample("one", 40)).unwrap_err();
    assert!(refused.to_string().contains("taken over"), "{refused}");
    let notices = first.take_notices();
    assert!(
        notices.len() == 1 && notices[0].contains("interrupted"),
        "{notices:?}"
    );
    second.start_session(Some(session("two"))).unwrap();
    second.append(&sample("two", 0)).unwrap();
    second.close(SessionStatus::Completed).unwrap();
    first.close(SessionStatus::Completed).unwrap();
    assert_eq!(
        loaded(folder.path()),
        [
            ("one".into(), SessionStatus::Interrupted, 40),
            ("two".into(), SessionStatus::Completed, 1)
        ]
    );
}
