//! The list of sessions in a manifest: its length, and who records.

use std::path::Path;
use std::time::Duration;

use stormlog_capture::process::own_identity;
use stormlog_capture::store::{BackgroundSink, Sink, SinkConfig};
use stormlog_format::{Manifest, SessionStatus, SessionSummary, json};

use crate::events::{sample, session};

const PATIENCE: Duration = Duration::from_mins(1);

fn manifest(directory: &Path) -> Manifest {
    let text = std::fs::read(directory.join("manifest.json")).unwrap();
    Manifest::from_value(&json::parse(&text).unwrap()).unwrap()
}

#[test]
fn sessions_of_which_nothing_is_left_do_not_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = SinkConfig {
        retention_max_files: 4,
        write_rollups: false,
        ..SinkConfig::new(folder.path())
    };
    let starts = 200;
    for number in 0..starts {
        let id = format!("session-{number}");
        let sink = Sink::open(config.clone()).unwrap();
        let summary = SessionSummary {
            started_at_ns: 1_700_000_000_000_000_000 + number,
            ..session(&id)
        };
        sink.start_session(Some(summary)).unwrap();
        sink.append(&sample(&id, number)).unwrap();
        sink.close(SessionStatus::Completed).unwrap();
    }
    let manifest = manifest(folder.path());
    let listed = i64::try_from(manifest.sessions.len()).unwrap();
    assert!(listed < 50, "{listed} sessions are listed");
    assert_eq!(manifest.pruned_sessions, starts - listed);
    // The newest ones stay, with all that have segments.
    let newest = manifest.sessions.last().unwrap();
    assert_eq!(newest.session_id, "session-199");
    for segment in &manifest.segments {
        let owner = segment.session_id.as_ref().unwrap();
        assert!(manifest.sessions.iter().any(|one| one.session_id == *owner));
    }
}

#[test]
fn a_running_session_names_its_recorder_and_an_ended_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let sink = BackgroundSink::start(SinkConfig::new(folder.path()), session("one"));
    assert!(sink.flush(PATIENCE));
    let recorder = manifest(folder.path()).sessions[0].recorder.clone();
    assert_eq!(recorder, own_identity());
    assert!(recorder.is_some());
    sink.finish(SessionStatus::Completed, PATIENCE);
    let text = std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    assert!(!text.contains("recorder"), "{text}");
}
