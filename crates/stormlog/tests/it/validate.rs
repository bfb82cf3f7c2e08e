//! `stormlog validate`: every problem with its place, and the verdict as exit code.

use serde_json::Value;

use crate::support::{folder, stormlog, transcript};

#[test]
fn problems_with_file_line_field_and_reason() {
    insta::assert_snapshot!(transcript(&[
        "validate",
        "fixtures/runs/broken_middle_line",
        "fixtures/runs/odd_values/too_big.jsonl",
        "fixtures/runs/two_ranks",
        "fixtures/runs/segment_outside_sink/sink",
        "no/such/path",
    ]));
}

#[test]
fn valid_artifacts_end_with_0() {
    insta::assert_snapshot!(transcript(&[
        "validate",
        "fixtures/runs/two_ranks",
        "fixtures/runs/odd_values/odd.jsonl",
        "fixtures/runs/versions/mixed.jsonl",
    ]));
}

#[test]
fn strict_refuses_records_without_a_version() {
    insta::assert_snapshot!(transcript(&[
        "validate",
        "--strict",
        "fixtures/runs/versions/mixed.jsonl"
    ]));
}

#[test]
fn everything_as_json() {
    insta::assert_snapshot!(transcript(&[
        "validate",
        "--json",
        "fixtures/runs/broken_middle_line",
        "fixtures/runs/two_ranks",
    ]));
}

#[test]
fn paths_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let path = folder
        .path()
        .join(std::ffi::OsStr::from_bytes(b"caf\xe9.jsonl"));
    std::fs::write(&path, "x\ny\n").expect("writable");
    for command in ["validate", "show"] {
        let mut run = stormlog(&[command, "--json"]);
        if command == "show" {
            run.arg("--skip-damaged");
        }
        let output = run.arg(&path).output().expect("it starts");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(
            document.to_string().contains("caf\u{fffd}.jsonl"),
            "{document}"
        );
    }
}
