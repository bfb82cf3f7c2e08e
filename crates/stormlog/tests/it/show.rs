//! `stormlog show` on the stories of `fixtures/runs`.

use serde_json::{Value, json};

use crate::artifacts::{FIRST_NS, call, record, session, write_sink};
use crate::support::{out, root, transcript};

#[test]
fn every_kind_of_artifact() {
    for story in [
        "two_ranks",
        "never_flushed",
        "torn_last_line",
        "missing_segment",
        "segment_outside_sink/sink",
        "versions/v4.json",
        "reference_csv/events.csv",
        "oom_bundle/oom_dump_20261115T070544Z_962_cuda_1",
        "diagnose_bundle",
        "compressed/truncated.jsonl.gz",
    ] {
        let name = story.split(['/', '.']).next().expect("a name");
        insta::assert_snapshot!(
            format!("show_{name}"),
            transcript(&["show", &format!("fixtures/runs/{story}")])
        );
    }
}

#[test]
fn a_snapshot_of_an_allocator() {
    let path = "fixtures/snapshots/h200_train/cuda_allocator_snapshot.pickle";
    insta::assert_snapshot!("show_allocator_snapshot", transcript(&["show", path]));
}

#[test]
fn damage_ends_it_or_is_skipped() {
    let path = "fixtures/runs/broken_middle_line";
    insta::assert_snapshot!("show_broken", transcript(&["show", path]));
    insta::assert_snapshot!(
        "show_broken_skipped",
        transcript(&["show", "--skip-damaged", path])
    );
}

#[test]
fn everything_as_json() {
    let text = out(&["show", "--json", "fixtures/runs/two_ranks"]);
    let root = root();
    let text = text.replace(&*root.to_string_lossy(), "[root]");
    insta::assert_snapshot!("show_json", text);
    let text = out(&["show", "--json", "fixtures/runs/missing_segment"]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let damage = &document["damage"][0];
    assert_eq!(
        damage["reason"],
        "segment is missing; 500 events of it are lost"
    );
    assert_eq!(damage["line"], Value::Null);
}

#[test]
fn paths_that_hold_no_telemetry() {
    for (name, path) in [
        ("missing", "no/such/path"),
        ("folder", "fixtures/runs"),
        ("readme", "fixtures/runs/two_ranks/README.md"),
        (
            "no_events",
            "fixtures/runs/diagnose_bundle/environment.json",
        ),
    ] {
        insta::assert_snapshot!(format!("show_{name}"), transcript(&["show", path]));
    }
}

/// A device sink of `stormlog run` has the id of the run, but not the program.
#[test]
fn a_run_has_one_id_for_all_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = session(&json!({"job_id": "j"}));
    for (metadata, session, id) in [
        (json!({"run_id": "r1"}), &job, "r1"),
        (json!({}), &job, "j"),
        (json!({}), &session(&json!({})), "s1"),
    ] {
        let start = record(&json!({"event_type": "start", "metadata": metadata}));
        let sample = record(&json!({"timestamp_ns": FIRST_NS + 1}));
        write_sink(
            &folder.path().join("gpu-1"),
            std::slice::from_ref(session),
            &[start, sample],
        );
        let shown = call(folder.path(), &["show", "gpu-1", "--json"]).json();
        assert_eq!(shown["runs"][0]["run_id"], id);
        let report = call(folder.path(), &["analyze", "gpu-1", "--format", "json"]).json();
        assert_eq!(report["runs"][0]["run_id"], id);
    }
}
