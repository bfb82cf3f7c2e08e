//! Tests which sessions `query runs` lists as one run.

use std::path::Path;

use stormlog_analysis::query::{RunAttachmentFilter, RunFilter, Store};

use crate::support::{folder, write};

/// A sink with one session; its first event has the given metadata.
fn sink(place: &tempfile::TempDir, session: &str, job: &str, metadata: &str) {
    let manifest = format!(
        r#"{{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
            "sessions": [{{"session_id": "{session}", "status": "completed", "started_at_ns": 1,
              "host": "h", "source": "x", "job_id": {job}}}],
            "segments": [{{"filename": "segment-000001.jsonl", "event_count": 1, "size_bytes": 1,
              "closed": true, "session_id": "{session}"}}]}}"#
    );
    let start = format!(
        r#"{{"schema_version": 3, "session_id": "{session}", "timestamp_ns": 1,
            "event_type": "start", "collector": "c", "sampling_interval_ms": 100, "pid": 1,
            "host": "h", "job_id": {job}, "rank": 0, "local_rank": 0, "world_size": 1,
            "device_id": 0, "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 1,
            "allocator_change_bytes": 0, "allocator_active_bytes": null,
            "allocator_inactive_bytes": null, "device_used_bytes": 1, "device_free_bytes": null,
            "device_total_bytes": null, "context": null, "metadata": {metadata}}}"#
    );
    let start = start.replace('\n', "") + "\n";
    write(place, &format!("{session}/manifest.json"), manifest);
    write(place, &format!("{session}/segment-000001.jsonl"), start);
}

fn attachment(place: &tempfile::TempDir, owner: &str) {
    let text = format!(
        r#"{{"schema_version": 1, "format": "stormlog.attachments", "attachments": [
            {{"title": "profile", "kind": "k", "url": "https://example.org/p", {owner}}}]}}"#
    );
    write(place, "stormlog_attachments.json", text);
}

/// The runs at a path: id, title and session ids of each, in order of id.
fn runs(path: &Path) -> Vec<(String, String, Vec<String>)> {
    let rows = Store::open(&[path]).runs(&RunFilter::default());
    let mut runs: Vec<_> = rows
        .iter()
        .map(|row| {
            let sessions = row.run.sessions.iter();
            (
                row.run.run_id.to_string(),
                row.run
                    .title
                    .as_ref()
                    .map_or(String::new(), ToString::to_string),
                sessions
                    .map(|one| one.summary.session_id.to_string())
                    .collect(),
            )
        })
        .collect();
    runs.sort();
    runs
}

fn run(id: &str, title: &str, sessions: &[&str]) -> (String, String, Vec<String>) {
    let sessions = sessions.iter().map(|&id| id.to_owned()).collect();
    (id.to_owned(), title.to_owned(), sessions)
}

/// The run that the attachment `profile` belongs to, and the warnings.
fn owner(path: &Path) -> (Option<String>, Vec<String>) {
    let store = Store::open(&[path]);
    let rows = store.run_attachments(&RunAttachmentFilter::default());
    let profile = rows.iter().find(|row| row.title == "profile");
    let warnings = store.warnings().into_iter();
    (
        profile.map(|row| row.run_id.to_string()),
        warnings.map(|warning| warning.message).collect(),
    )
}

const HOST: &str = r#"{"run": {"id": "r1", "program": "train.py"}}"#;
const DEVICE: &str = r#"{"run_id": "r1"}"#;

#[test]
fn sessions_with_a_run_id_are_one_run_and_others_are_listed_as_before() {
    let folder = folder();
    sink(&folder, "host", "null", HOST);
    sink(&folder, "device", "null", DEVICE);
    sink(&folder, "other", "null", r#"{"run_id": "r2"}"#);
    sink(&folder, "lone", "null", "{}");
    sink(&folder, "rank", r#""j""#, "{}");
    let expected = [
        run("job:j", "Distributed job j", &["rank"]),
        run("r1", "train.py", &["device", "host"]),
        run("r2", "Run r2", &["other"]),
        run("session:lone", "Session lone", &["lone"]),
    ];
    assert_eq!(runs(folder.path()), expected);
}

#[test]
fn runs_and_attachments_are_filtered_by_the_recorded_id() {
    let folder = folder();
    sink(&folder, "host", "null", HOST);
    sink(&folder, "device", "null", DEVICE);
    sink(&folder, "other", "null", "{}");
    attachment(&folder, r#""run_id": "r1""#);
    let store = Store::open(&[folder.path()]);
    let filter = RunFilter {
        run_id: Some("r1".into()),
        ..RunFilter::default()
    };
    let rows = store.runs(&filter);
    assert_eq!(rows.len(), 1);
    let of_run = RunAttachmentFilter {
        run: filter,
        kind: None,
    };
    let attachments = store.run_attachments(&of_run);
    let titles: Vec<String> = attachments
        .iter()
        .map(|row| row.title.to_string())
        .collect();
    let segment = "segment-000001.jsonl";
    assert_eq!(
        titles,
        [
            "profile",
            "Telemetry sink",
            segment,
            "Telemetry sink",
            segment
        ]
    );
    assert_eq!(rows[0].attachment_count, 5);
}

#[test]
fn a_job_that_was_restarted_is_ambiguous_only_for_attachments() {
    let folder = folder();
    sink(&folder, "monday", r#""j""#, r#"{"run_id": "r1"}"#);
    sink(&folder, "tuesday", r#""j""#, r#"{"run_id": "r2"}"#);
    assert_eq!(runs(folder.path()).len(), 2);
    assert_eq!(owner(folder.path()), (None, vec![]));
    attachment(&folder, r#""session_id": "monday""#);
    assert_eq!(owner(folder.path()), (Some("r1".into()), vec![]));
    attachment(&folder, r#""job_id": "j""#);
    let ambiguous = "ambiguous run job_id 'j': r1, r2".to_owned();
    assert_eq!(owner(folder.path()), (None, vec![ambiguous]));
}

#[test]
fn an_envelope_describes_the_whole_run_of_its_sessions() {
    let envelope = |run_id: &str, sessions: &str| {
        format!(
            r#"{{"schema_version": 1, "format": "stormlog.run_envelope", "run_id": "{run_id}",
                "title": "named", "metadata": {{}}, "sessions": [{sessions}]}}"#
        )
    };
    let of_session = |id: &str| format!(r#"{{"session_id": "{id}", "metadata": {{}}}}"#);
    let folder = folder();
    sink(&folder, "host", "null", HOST);
    sink(&folder, "device", "null", DEVICE);
    write(
        &folder,
        "stormlog_run.json",
        envelope("exp", &of_session("device")),
    );
    assert_eq!(
        runs(folder.path()),
        [run("exp", "named", &["device", "host"])]
    );
    write(&folder, "stormlog_run.json", envelope("r1", ""));
    assert_eq!(
        runs(folder.path()),
        [run("r1", "named", &["device", "host"])]
    );
    // Two envelopes that divide a run keep only what they list.
    write(
        &folder,
        "stormlog_run.json",
        envelope("exp", &of_session("device")),
    );
    write(&folder, "host/stormlog_run.json", envelope("r1", ""));
    let expected = [
        run("exp", "named", &["device"]),
        run("implicit:r1", "train.py", &["host"]),
        run("r1", "named", &[]),
    ];
    assert_eq!(runs(folder.path()), expected);
}
