//! Helpers of the tests: fixtures, short ways to load, and records to write.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use stormlog_analysis::{
    Damage, EventRef, LoadError, LoadOptions, Loaded, OnError, load_sessions, stream_events,
};
use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::{Event, Map, RecordDefaults, Value, event_from_record};

/// A file or folder of `fixtures/runs`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/runs")
        .join(name)
        .canonicalize()
        .expect("the fixture exists")
}

/// An empty folder that is deleted with the test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

/// Writes a file in a folder of the test.
pub(crate) fn write(folder: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    let parent = path.parent().expect("inside the folder");
    std::fs::create_dir_all(parent).expect("the folder can be made");
    std::fs::write(&path, bytes).expect("the file can be written");
    path
}

/// The content of a gzip file. With [`Compression::none`], a large file stays large.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(crate) fn raise() -> LoadOptions<'static> {
    LoadOptions::default()
}

pub(crate) fn skip() -> LoadOptions<'static> {
    LoadOptions {
        on_error: OnError::Skip,
        ..LoadOptions::default()
    }
}

pub(crate) fn load(path: &Path) -> Loaded {
    load_sessions(path, &raise()).expect("it loads")
}

pub(crate) fn load_around_damage(path: &Path) -> Loaded {
    load_sessions(path, &skip()).expect("it loads around the damage")
}

pub(crate) fn refused(path: &Path) -> LoadError {
    load_sessions(path, &raise()).expect_err("it is refused")
}

/// Every event of every session, in the order of sessions and time.
pub(crate) fn events(loaded: &Loaded) -> Vec<Event> {
    let sessions = loaded.sessions.iter();
    sessions
        .flat_map(|session| session.events.iter().map(EventRef::to_event))
        .collect()
}

/// Every event in the order of the files.
pub(crate) fn streamed(
    path: &Path,
    options: &LoadOptions<'_>,
) -> Result<(Vec<Event>, Vec<Damage>), LoadError> {
    let mut all = Vec::new();
    let damage = stream_events(path, options, &mut |events| {
        all.extend(events.iter().map(EventRef::to_event));
    })?;
    Ok((all, damage))
}

/// The time of each event after the first one, in units of 20 ms.
pub(crate) fn steps(events: &[Event]) -> Vec<i64> {
    let step = |event: &Event| (event.timestamp_ns - FIRST_NS) / 20_000_000;
    events.iter().map(step).collect()
}

/// The timestamp of the first event of a fixture.
pub(crate) const FIRST_NS: i64 = 1_794_700_000_000_000_000;

/// A version 3 record. `changes` is JSON text with entries to replace or add.
pub(crate) fn record(changes: &str) -> Map {
    let base = r#"{"schema_version": 3, "session_id": "s", "timestamp_ns": 5, "event_type": "sample",
        "collector": "c", "sampling_interval_ms": 20, "pid": 1, "host": "h", "job_id": null,
        "rank": 0, "local_rank": 0, "world_size": 1, "device_id": 0,
        "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 2,
        "allocator_active_bytes": null, "allocator_inactive_bytes": null,
        "allocator_change_bytes": -1, "device_used_bytes": 3, "device_free_bytes": 7,
        "device_total_bytes": 10, "context": null, "metadata": {}}"#;
    let mut record = object(base);
    for (key, value) in object(changes) {
        record.insert(key, value);
    }
    record
}

pub(crate) fn object(json: &str) -> Map {
    match parse(json.as_bytes()) {
        Ok(Value::Map(map)) => map,
        other => panic!("no object: {other:?}"),
    }
}

/// A record as one line with its newline.
pub(crate) fn line(changes: &str) -> String {
    let writer = Writer::new(Layout::Line).sorted();
    format!("{}\n", writer.map_to_string(&record(changes)))
}

/// The lines of `count` events, one tick apart.
pub(crate) fn lines(count: usize) -> String {
    let tick = |n: usize| line(&format!(r#"{{"timestamp_ns": {n}}}"#));
    (0..count).map(tick).collect()
}

/// The event of a record.
pub(crate) fn event(changes: &str) -> Event {
    event_from_record(&record(changes), &RecordDefaults::default()).expect("a valid record")
}
