//! A disk that accepts writes but fails to sync them. A library in front of the C library simulates
//! it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stormlog_capture::store::{BackgroundSink, Sink, SinkConfig};
use stormlog_format::{Manifest, SessionStatus};

use crate::events::{sample, session};
use crate::no_locks::library;
use crate::process::{child, given_directory};

/// Longer than the pause between two syncs in the background.
const A_SYNC: Duration = Duration::from_millis(600);

const PATIENCE: Duration = Duration::from_secs(20);

fn broken() -> PathBuf {
    std::env::var_os("STORMLOG_TEST_BROKEN").unwrap().into()
}

fn fail_once() {
    std::fs::write(broken(), "once").unwrap();
}

fn listed_events(directory: &Path) -> i64 {
    let text = std::fs::read(directory.join("manifest.json")).unwrap();
    let manifest = Manifest::from_value(&stormlog_format::json::parse(&text).unwrap()).unwrap();
    manifest.segments.iter().map(|one| one.event_count).sum()
}

/// A program whose disk fails, first during a forced flush and then during a sync in the
/// background.
#[test]
fn program_on_a_broken_disk() {
    let Some(directory) = given_directory() else {
        return;
    };
    let sink = Sink::open(SinkConfig::new(directory.join("forced"))).unwrap();
    sink.start_session(Some(session("one"))).unwrap();
    for number in 0..10 {
        sink.append(&sample("one", number)).unwrap();
    }
    std::fs::write(broken(), "").unwrap();
    for _ in 0..3 {
        sink.flush(true).unwrap_err();
    }
    std::fs::remove_file(broken()).unwrap();
    sink.flush(true).unwrap();
    assert_eq!(listed_events(&sink.directory()), 10);
    sink.close(SessionStatus::Completed).unwrap();

    let config = SinkConfig {
        flush_every_events: 1,
        ..SinkConfig::new(directory.join("background"))
    };
    let sink = Sink::open(config.clone()).unwrap();
    std::fs::write(broken(), "").unwrap();
    sink.append(&sample("one", 0)).unwrap();
    std::thread::sleep(A_SYNC);
    sink.flush(true).unwrap_err();
    std::fs::remove_file(broken()).unwrap();
    sink.flush(true).unwrap();
    sink.close(SessionStatus::Completed).unwrap();

    // The disk reports only once that bytes are lost, to a sync in the background.
    let config = SinkConfig {
        root_dir: directory.join("once"),
        ..config
    };
    let sink = Sink::open(config.clone()).unwrap();
    fail_once();
    sink.append(&sample("one", 0)).unwrap();
    std::thread::sleep(2 * A_SYNC);
    sink.flush(true).unwrap_err();
    sink.flush(true).unwrap();
    // A forced flush waits for the sync in the background.
    fail_once();
    sink.append(&sample("one", 1)).unwrap();
    while broken().exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    sink.flush(true).unwrap_err();
    sink.flush(true).unwrap();
    fail_once();
    sink.append(&sample("one", 2)).unwrap();
    std::thread::sleep(2 * A_SYNC);
    sink.close(SessionStatus::Completed).unwrap_err();
    assert_eq!(listed_events(&sink.directory()), 3);
    assert_eq!(sink.current_session(), None, "it has ended nevertheless");

    let queued = SinkConfig {
        root_dir: directory.join("queued"),
        ..config
    };
    let sink = BackgroundSink::start(queued, session("two"));
    assert!(sink.flush(PATIENCE));
    std::fs::write(broken(), "").unwrap();
    sink.record(sample("two", 0));
    std::thread::sleep(A_SYNC);
    assert!(!sink.flush(PATIENCE));
    std::fs::remove_file(broken()).unwrap();
    assert!(sink.flush(PATIENCE));
    // The failure is over although nothing else was recorded.
    std::thread::sleep(A_SYNC);
    assert_eq!(sink.status().problem, None);
    sink.finish(SessionStatus::Completed, PATIENCE);
    std::process::exit(23);
}

#[test]
fn a_forced_flush_succeeds_only_after_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path(), "broken_disk") else {
        println!("skipped: there is no C compiler");
        return;
    };
    let output = child("broken_disk::program_on_a_broken_disk", folder.path())
        .env("LD_PRELOAD", library)
        .env("STORMLOG_TEST_BROKEN", folder.path().join("broken"))
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(23),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
