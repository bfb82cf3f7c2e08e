//! Recording without waiting: what is queued arrives, what cannot be kept is counted.

use std::time::Duration;

use stormlog_capture::store::{BackgroundSink, SinkConfig};
use stormlog_format::SessionStatus;

use crate::events::{sample, session};

const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn what_is_recorded_is_there_after_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let sink = BackgroundSink::start(SinkConfig::new(folder.path().join("s")), session("one"));
    for number in 0..120 {
        assert!(sink.record(sample("one", number)));
    }
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!(end.session_status, SessionStatus::Completed);
    assert_eq!((end.recorded_events, end.dropped_events), (120, 0));
    assert!(end.is_finished && end.problem.is_none());
    let text = std::fs::read_to_string(folder.path().join("s/segment-000001.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 120);
    let manifest = std::fs::read_to_string(folder.path().join("s/manifest.json")).unwrap();
    assert!(manifest.contains("\"completed\"") && !manifest.contains("dropped"));
    assert!(!sink.record(sample("one", 121)), "the session has ended");
}

#[test]
fn a_flush_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let sink = BackgroundSink::start(SinkConfig::new(folder.path()), session("one"));
    sink.record(sample("one", 1));
    assert!(sink.flush(PATIENCE));
    let text = std::fs::read_to_string(folder.path().join("segment-000001.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_stranger_among_the_events_makes_the_session_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let sink = BackgroundSink::start(SinkConfig::new(folder.path()), session("one"));
    sink.record(sample("one", 1));
    sink.record(sample("two", 2));
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!(end.session_status, SessionStatus::Incomplete);
    let manifest = std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    assert!(
        manifest.contains("\"dropped_event_count\": 1"),
        "{manifest}"
    );
    assert!(manifest.contains("\"incomplete\""));
}
