//! Two sinks on one directory: of two processes, and of one process.

use std::io::{BufRead, BufReader, Write};

use stormlog_analysis::LoadOptions;
use stormlog_capture::store::{Sink, SinkConfig, SinkError};
use stormlog_format::SessionStatus;

use crate::events::{sample, session};
use crate::process::{child, given_directory};

/// A process that records into a directory until it is stopped.
#[test]
fn neighbour() {
    let Some(directory) = given_directory() else {
        return;
    };
    let sink = Sink::open(SinkConfig::new(directory)).unwrap();
    for number in 0..100 {
        sink.append(&sample("theirs", number)).unwrap();
    }
    sink.flush(true).unwrap();
    println!("\nready");
    std::io::stdin().lines().next();
    sink.close(SessionStatus::Completed).unwrap();
}

#[test]
fn a_second_process_records_beside_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("run");
    let mut other = child("neighbours::neighbour", &directory).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap() == "ready")
        .unwrap()
        .unwrap();

    let sink = Sink::open(SinkConfig::new(&directory)).unwrap();
    let sibling = folder.path().join(format!("run-pid{}", std::process::id()));
    assert_eq!(sink.directory(), sibling);
    let notices = sink.take_notices();
    assert_eq!(
        notices,
        [format!(
            "another process records into '{}'; this one records into '{}'",
            directory.display(),
            sibling.display()
        )]
    );
    assert!(sink.take_notices().is_empty(), "said once");
    for number in 0..10 {
        sink.append(&sample("ours", number)).unwrap();
    }
    sink.close(SessionStatus::Completed).unwrap();
    other.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(other.wait().unwrap().success());

    for (directory, id, count) in [(&directory, "theirs", 100), (&sibling, "ours", 10)] {
        let loaded = stormlog_analysis::load_sessions(directory, &LoadOptions::default()).unwrap();
        let [only] = &loaded.sessions[..] else {
            panic!("one session in {}", directory.display());
        };
        assert_eq!(only.summary.session_id, id);
        assert_eq!(only.summary.status, SessionStatus::Completed);
        assert_eq!(only.events.len(), count);
        assert!(loaded.damage.is_empty());
    }
    let names: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "no lock file: {names:?}");

    // The first sink is closed, so its directory is free again.
    drop(sink);
    let next = Sink::open(SinkConfig::new(&directory)).unwrap();
    assert_eq!(next.directory(), directory);
}

#[test]
fn within_a_process_the_later_sink_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let config = SinkConfig::new(folder.path());
    let first = Sink::open(config.clone()).unwrap();
    first.start_session(Some(session("first"))).unwrap();
    first.append(&sample("first", 1)).unwrap();
    first.flush(true).unwrap();

    let second = Sink::open(config).unwrap();
    assert_eq!(second.directory(), folder.path());
    second.append(&sample("second", 2)).unwrap();
    let refused = first
        .append(&sample("first", 3))
        .and_then(|()| first.flush(true));
    assert!(
        matches!(refused, Err(SinkError::TakenOver { .. })),
        "{refused:?}"
    );
    first.close(SessionStatus::Completed).unwrap();
    second.close(SessionStatus::Completed).unwrap();

    let loaded = stormlog_analysis::load_sessions(folder.path(), &LoadOptions::default()).unwrap();
    let mut sessions: Vec<_> = loaded
        .sessions
        .iter()
        .map(|session| {
            let summary = &session.summary;
            (
                summary.session_id.to_string(),
                summary.status,
                session.events.len(),
            )
        })
        .collect();
    sessions.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        sessions,
        [
            ("first".to_owned(), SessionStatus::Interrupted, 1),
            ("second".to_owned(), SessionStatus::Completed, 1),
        ]
    );
}
