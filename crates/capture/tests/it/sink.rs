//! A sink's files: what is flushed, rolled over and kept, and what the manifest contains.

use std::path::Path;
use std::time::Duration;

use stormlog_capture::store::{Sink, SinkConfig};
use stormlog_format::rollup::RollupFile;
use stormlog_format::{SessionStatus, json};

use crate::events::{sample, session};
use crate::scripted::wait_until;

fn rollups(directory: &Path) -> RollupFile {
    let text = std::fs::read(directory.join("rollups.json")).unwrap();
    RollupFile::from_value(&json::parse(&text).unwrap()).unwrap()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .count()
}

#[test]
fn time_alone_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let config = SinkConfig {
        flush_every: Duration::from_millis(30),
        ..SinkConfig::new(folder.path())
    };
    let sink = Sink::open(config).unwrap();
    sink.append(&sample("one", 1)).unwrap();
    let segment = folder.path().join("segment-000001.jsonl");
    wait_until("a line is flushed", || lines(&segment) == 1);
}

#[test]
fn counts_in_the_manifest_catch_up_with_a_flood() {
    let folder = tempfile::tempdir().unwrap();
    let config = SinkConfig {
        flush_every_events: 1,
        ..SinkConfig::new(folder.path())
    };
    let sink = Sink::open(config).unwrap();
    for number in 0..500 {
        sink.append(&sample("one", number)).unwrap();
    }
    let segment = folder.path().join("segment-000001.jsonl");
    assert_eq!(lines(&segment), 500, "events are never behind");
    wait_until("the manifest has caught up", || {
        let manifest = std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
        manifest.contains("\"event_count\": 500")
    });
}

#[test]
fn rollups_speak_of_what_is_retained() {
    let folder = tempfile::tempdir().unwrap();
    let config = SinkConfig {
        flush_every_events: 5,
        rollover_max_events: 10,
        retention_max_files: 2,
        ..SinkConfig::new(folder.path())
    };
    let sink = Sink::open(config.clone()).unwrap();
    sink.start_session(Some(session("one"))).unwrap();
    for number in 0..35 {
        sink.append(&sample("one", number)).unwrap();
    }
    sink.close(SessionStatus::Completed).unwrap();
    let first = rollups(folder.path());
    assert_eq!(first.coverage.pruned_segment_count, Some(2));
    assert_eq!(first.sessions[0].event_count, 15);
    assert_eq!(first.sessions[0].counters.device_used_bytes.value, Some(34));
    assert_eq!(
        first.sessions[0].first_timestamp_ns,
        Some(sample("one", 20).timestamp_ns)
    );
    drop(sink);

    // Rollups of an earlier process are reused, or read back when a segment was pruned.
    let sink = Sink::open(SinkConfig {
        retention_max_files: 3,
        ..config.clone()
    })
    .unwrap();
    sink.append(&sample("two", 100)).unwrap();
    sink.close(SessionStatus::Completed).unwrap();
    let second = rollups(folder.path());
    let counts = |file: &RollupFile| {
        let mut counts: Vec<(String, i64)> = file
            .sessions
            .iter()
            .map(|session| (session.session.session_id.to_string(), session.event_count))
            .collect();
        counts.sort();
        counts
    };
    assert_eq!(
        counts(&second),
        [("one".to_owned(), 15), ("two".to_owned(), 1)]
    );
    assert_eq!(second.sessions[0], first.sessions[0]);
    drop(sink);
    let sink = Sink::open(config).unwrap();
    sink.append(&sample("three", 200)).unwrap();
    sink.close(SessionStatus::Completed).unwrap();
    let third = rollups(folder.path());
    let expected = [("one", 0), ("three", 1), ("two", 1)].map(|(id, count)| (id.to_owned(), count));
    assert_eq!(counts(&third), expected);
}

#[test]
fn a_manifest_cannot_make_the_sink_delete_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("sink");
    std::fs::create_dir(&directory).unwrap();
    let precious = folder.path().join("precious.txt");
    std::fs::write(&precious, "mine").unwrap();
    let entry = |name: &str| {
        format!(
            "{{\"filename\": \"{name}\", \"event_count\": 1, \"size_bytes\": 9, \"closed\": true}}"
        )
    };
    let entries = [
        entry("../precious.txt"),
        entry(&precious.display().to_string()),
    ]
    .join(",");
    std::fs::write(
        directory.join("manifest.json"),
        format!("{{\"schema_version\": 2, \"sessions\": [], \"segments\": [{entries}]}}"),
    )
    .unwrap();
    let config = SinkConfig {
        retention_max_files: 1,
        ..SinkConfig::new(&directory)
    };
    let sink = Sink::open(config).unwrap();
    sink.append(&sample("one", 1)).unwrap();
    sink.close(SessionStatus::Completed).unwrap();
    assert_eq!(sink.diagnostics().pruned_segment_count, 2);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");
}
