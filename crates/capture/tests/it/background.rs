//! Recording without waiting: queued events arrive, and events that cannot be kept are counted.

use std::path::Path;
use std::time::{Duration, Instant};

use stormlog_capture::store::{BackgroundSink, Sink, SinkConfig};
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

/// The sink tries again every second; the reason of the failure stays the same.
#[test]
fn a_problem_is_one_notice() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let directory = folder.path().join("file/sink");
    let sink = BackgroundSink::start(SinkConfig::new(&directory), session("one"));
    crate::scripted::wait_until("opening fails", || sink.status().problem.is_some());
    let problem = sink.status().problem.unwrap();
    assert!(problem.contains(directory.to_str().unwrap()), "{problem}");
    assert_eq!(sink.take_notices(), [problem]);
    std::thread::sleep(Duration::from_millis(1500));
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert!(end.problem.is_some());
    assert_eq!(sink.take_notices(), [""; 0]);
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

/// A killed process loses only the events since the thread last ran, whatever its flush settings.
#[test]
fn what_is_recorded_is_in_the_file_long_before_its_flush() {
    let folder = tempfile::tempdir().unwrap();
    let never = SinkConfig {
        flush_every: Duration::from_hours(1),
        flush_every_events: 1_000_000,
        ..SinkConfig::new(folder.path())
    };
    let sink = BackgroundSink::start(never, session("one"));
    for number in 1..=3 {
        sink.record(sample("one", number));
        wait_for_lines(&folder.path().join("segment-000001.jsonl"), number);
    }
    let manifest = || std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    assert!(manifest().contains("\"event_count\": 1"), "{}", manifest());
    assert!(sink.flush(PATIENCE));
    assert!(manifest().contains("\"event_count\": 3"), "{}", manifest());
    let end = sink.finish(SessionStatus::Completed, PATIENCE);
    assert_eq!((end.recorded_events, end.dropped_events), (3, 0));
}

/// A killed process leaves more lines than its manifest counts.
#[test]
fn whoever_opens_the_sink_of_a_killed_process_counts_what_it_wrote() {
    let (folder, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let never = SinkConfig {
        flush_every: Duration::from_hours(1),
        flush_every_events: 1_000_000,
        ..SinkConfig::new(folder.path())
    };
    let sink = BackgroundSink::start(never, session("one"));
    let segment = "segment-000001.jsonl";
    for number in 1..=3 {
        sink.record(sample("one", number));
        wait_for_lines(&folder.path().join(segment), number);
    }
    for name in [segment, "manifest.json"] {
        std::fs::copy(folder.path().join(name), left.path().join(name)).unwrap();
    }
    let manifest = || std::fs::read_to_string(left.path().join("manifest.json")).unwrap();
    assert!(manifest().contains("\"event_count\": 1"), "{}", manifest());
    drop(Sink::open(SinkConfig::new(left.path())).unwrap());
    assert!(manifest().contains("\"interrupted\""), "{}", manifest());
    assert!(manifest().contains("\"event_count\": 3"), "{}", manifest());
    sink.finish(SessionStatus::Completed, PATIENCE);
}

fn wait_for_lines(file: &Path, count: i64) {
    let deadline = Instant::now() + PATIENCE;
    let lines = || {
        std::fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .count()
    };
    while i64::try_from(lines()).unwrap() < count {
        assert!(Instant::now() < deadline, "no line {count}");
        std::thread::sleep(Duration::from_millis(5));
    }
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
