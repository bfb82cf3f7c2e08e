//! Sinks with the names of a host sink: written, recovered, loaded, published.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stormlog_analysis::query::Catalog;
use stormlog_analysis::{
    LoadOptions, Loaded, artifacts_at, device_artifacts_at, gather, load_sessions,
};
use stormlog_capture::store::{Sink, SinkConfig, SinkError, publish};
use stormlog_format::{SessionStatus, SinkNames};

use crate::events::{sample, session};

/// Publishes a closed sink. Other tests start processes meanwhile, which hold the lock's descriptor
/// between their fork and their own program.
fn publish_closed(directory: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = publish(directory) {
        let is_in_use = matches!(error, SinkError::InUse { .. });
        assert!(is_in_use && Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn host_config(directory: &Path) -> SinkConfig {
    SinkConfig {
        names: SinkNames::Host,
        flush_every_events: 1,
        rollover_max_events: 10,
        ..SinkConfig::new(directory)
    }
}

/// A host sink of three segments, closed.
fn recorded(directory: &Path) {
    let sink = Sink::open(host_config(directory)).unwrap();
    sink.start_session(Some(session("host"))).unwrap();
    for number in 0..25 {
        sink.append(&sample("host", number)).unwrap();
    }
    sink.close(SessionStatus::Completed).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn load(path: &Path) -> Loaded {
    let loaded = load_sessions(path, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.damage, [], "{}", path.display());
    loaded
}

fn assert_whole(directory: &Path) {
    let loaded = load(directory);
    let [only] = &loaded.sessions[..] else {
        panic!("one session");
    };
    assert_eq!(only.summary.status, SessionStatus::Completed);
    assert_eq!(only.events.len(), 25);
    assert_eq!(only.sources.len(), 3);
    let catalog = Catalog::open(&[directory]);
    assert_eq!(catalog.warnings, []);
    let [source] = &catalog.sources[..] else {
        panic!("one source: {:?}", catalog.sources);
    };
    assert_eq!(source.event_paths.len(), 3);
}

const HOST_FILES: [&str; 4] = [
    "host.json",
    "segment-000001.ndjson",
    "segment-000002.ndjson",
    "segment-000003.ndjson",
];

#[test]
fn a_host_sink_has_its_own_names_and_loads_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    assert_eq!(names(folder.path()), HOST_FILES);
    assert_whole(folder.path());
    assert_eq!(load(&folder.path().join("host.json")).sessions.len(), 1);
    let segment = load(&folder.path().join("segment-000002.ndjson"));
    assert_eq!(segment.sessions[0].events.len(), 10);
    assert_eq!(segment.sessions[0].summary.source, "stormlog.tracker");
}

#[test]
fn a_host_sink_is_recovered_by_its_names() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let sink = Sink::open(host_config(folder.path())).unwrap();
    sink.append(&sample("next", 1)).unwrap();
    sink.close(SessionStatus::Completed).unwrap();
    assert!(folder.path().join("segment-000004.ndjson").is_file());
    assert_eq!(load(folder.path()).sessions.len(), 2);
    // Without its manifest, the segments alone are a sink.
    std::fs::remove_file(folder.path().join("host.json")).unwrap();
    assert_eq!(load(folder.path()).sessions.len(), 2);
    drop(sink);
    drop(Sink::open(host_config(folder.path())).unwrap());
    assert!(folder.path().join("host.json").is_file());
}

#[test]
fn publishing_gives_ordinary_names() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    publish_closed(folder.path());
    let expected = [
        "manifest.json",
        "segment-000001.jsonl",
        "segment-000002.jsonl",
        "segment-000003.jsonl",
    ];
    assert_eq!(names(folder.path()), expected);
    assert_whole(folder.path());
    publish_closed(folder.path());
    assert_whole(folder.path());
}

/// Every state that a killed `publish` can leave: after each rename, after the manifest, and before
/// the old manifest is deleted.
#[test]
fn publishing_killed_at_any_point_loads_and_is_finished_later() {
    for renamed in 0..=3 {
        for with_manifest in [false, true] {
            if with_manifest && renamed < 3 {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            recorded(root);
            let copy = std::fs::read(root.join("host.json")).unwrap();
            if with_manifest {
                publish_closed(root);
                std::fs::write(root.join("host.json"), &copy).unwrap();
            }
            for number in 1..=renamed {
                let old = root.join(format!("segment-00000{number}.ndjson"));
                if old.is_file() {
                    std::fs::rename(&old, old.with_extension("jsonl")).unwrap();
                }
            }
            std::fs::write(root.join("manifest.tmp"), "{\"schema").unwrap();
            assert_whole(root);
            publish_closed(root);
            assert_whole(root);
            assert!(!root.join("host.json").exists());
        }
    }
}

#[test]
fn publishing_touches_no_sink_that_is_in_use_and_no_other_sink() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::open(host_config(folder.path())).unwrap();
    sink.append(&sample("one", 1)).unwrap();
    sink.flush(true).unwrap();
    let refused = publish(folder.path());
    assert!(
        matches!(refused, Err(SinkError::InUse { .. })),
        "{refused:?}"
    );
    sink.append(&sample("one", 2)).unwrap();
    sink.close(SessionStatus::Completed).unwrap();
    drop(sink);

    let other = Sink::open(SinkConfig::new(folder.path())).unwrap();
    other.append(&sample("other", 1)).unwrap();
    other.close(SessionStatus::Completed).unwrap();
    drop(other);
    let before = names(folder.path());
    let refused = publish(folder.path());
    assert!(
        matches!(refused, Err(SinkError::NamesTaken { .. })),
        "{refused:?}"
    );
    assert_eq!(names(folder.path()), before);

    let empty = tempfile::tempdir().unwrap();
    publish_closed(empty.path());
    assert!(names(empty.path()).is_empty());
}

fn ordinary(directory: PathBuf, id: &str) {
    let sink = Sink::open(SinkConfig::new(directory)).unwrap();
    sink.append(&sample(id, 1)).unwrap();
    sink.close(SessionStatus::Completed).unwrap();
}

#[test]
fn a_run_folder_gives_its_own_sink_and_those_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    ordinary(run.clone(), "first");
    recorded(&run.join("host"));
    ordinary(run.join("gpu-1"), "second");
    ordinary(run.join("rank-0001"), "third");
    ordinary(run.join("rank-0001/gpu-1"), "fourth");
    std::fs::create_dir_all(run.join("oom_dumps")).unwrap();
    let expected: Vec<PathBuf> = ["", "gpu-1", "host", "rank-0001", "rank-0001/gpu-1"]
        .iter()
        .map(|name| match *name {
            "" => run.clone(),
            name => run.join(name),
        })
        .collect();
    assert_eq!(artifacts_at(&run).unwrap(), expected);
    assert_eq!(artifacts_at(folder.path()).unwrap(), expected);
    let gathered = gather(std::slice::from_ref(&run), &LoadOptions::default()).unwrap();
    assert_eq!(gathered.loaded.len(), 5);
    let sessions = gathered.loaded.iter().map(|loaded| loaded.sessions.len());
    assert_eq!(sessions.sum::<usize>(), 5);
    assert_eq!(Catalog::open(&[&run]).sources.len(), 5);
    // What stormlog 0.3.9 sees.
    assert_eq!(
        device_artifacts_at(&run).unwrap(),
        std::slice::from_ref(&run)
    );
    assert_eq!(device_artifacts_at(folder.path()).unwrap(), [run]);
}
