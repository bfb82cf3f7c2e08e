//! A sink directory that others can write to: links and pipes under the recorder's names are
//! neither followed nor waited for.

use std::os::unix::fs::symlink;
use std::path::Path;

use stormlog_analysis::{LoadOptions, load_sessions};
use stormlog_capture::store::{Sink, SinkConfig};
use stormlog_format::SessionStatus;

use crate::events::{sample, session};

fn record(directory: &Path, id: &str, count: i64) {
    let sink = Sink::open(SinkConfig::new(directory)).unwrap();
    sink.start_session(Some(session(id))).unwrap();
    for number in 0..count {
        sink.append(&sample(id, number)).unwrap();
    }
    sink.close(SessionStatus::Completed).unwrap();
}

fn events(directory: &Path) -> usize {
    let loaded = load_sessions(directory, &LoadOptions::default()).unwrap();
    loaded.sessions.iter().map(|one| one.events.len()).sum()
}

#[test]
fn links_under_temporary_names_keep_their_targets() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, target) = (folder.path().join("sink"), folder.path().join("target"));
    std::fs::create_dir(&sink).unwrap();
    std::fs::write(&target, "theirs").unwrap();
    for name in [
        "manifest.tmp",
        "rollups.tmp",
        "manifest.json",
        "rollups.json",
    ] {
        symlink(&target, sink.join(name)).unwrap();
    }
    record(&sink, "one", 60);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "theirs");
    assert_eq!(events(&sink), 60);
}

#[test]
fn a_link_under_the_name_of_a_segment_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, outside) = (folder.path().join("sink"), folder.path().join("outside"));
    std::fs::create_dir(&sink).unwrap();
    symlink(&outside, sink.join("segment-000001.jsonl")).unwrap();
    record(&sink, "one", 60);
    assert!(!outside.exists(), "nothing is made outside the sink");
    // A link to an existing file is not a segment of this sink either.
    std::fs::write(&outside, "theirs\n").unwrap();
    symlink(&outside, sink.join("segment-000003.jsonl")).unwrap();
    record(&sink, "two", 60);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "theirs\n");
    let recorded = sink.join("segment-000004.jsonl");
    let lines = std::fs::read_to_string(recorded).unwrap();
    assert_eq!(lines.lines().count(), 60);
}

#[test]
fn a_pipe_under_the_name_of_the_manifest_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::from(0o600);
    for name in ["manifest.json", "rollups.json", "segment-000001.jsonl"] {
        let path = folder.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
    }
    record(folder.path(), "one", 60);
    let recorded = folder.path().join("segment-000002.jsonl");
    let lines = std::fs::read_to_string(recorded).unwrap();
    assert_eq!(lines.lines().count(), 60);
}

#[test]
fn what_a_killed_writer_left_under_a_temporary_name_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let left = ["manifest.tmp", "manifest.json-4194999-3.tmp", "rollups.tmp"];
    for name in left {
        std::fs::write(folder.path().join(name), "{\"schema").unwrap();
    }
    let theirs = folder.path().join("manifest.json-notes.tmp");
    std::fs::write(&theirs, "theirs").unwrap();
    record(folder.path(), "one", 1);
    for name in left {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
    assert!(theirs.exists());
}
