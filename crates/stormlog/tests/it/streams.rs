//! Results go to standard output and everything else to standard error; it is not necessary to read
//! them to the end.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::{folder, root, stormlog};

#[test]
fn results_and_warnings_are_kept_apart() {
    let run = |arguments: &[&str]| stormlog(arguments).output().expect("it starts");
    let fine = run(&["show", "fixtures/runs/two_ranks"]);
    assert!(!fine.stdout.is_empty() && fine.stderr.is_empty());
    let torn = run(&["show", "--json", "fixtures/runs/torn_last_line"]);
    assert!(serde_json::from_slice::<serde_json::Value>(&torn.stdout).is_ok());
    let failed = run(&["show", "no/such/path"]);
    assert!(failed.stdout.is_empty() && !failed.stderr.is_empty());
    let converted = run(&[
        "convert",
        "fixtures/runs/torn_last_line",
        "-",
        "--to",
        "jsonl",
    ]);
    assert_eq!(
        String::from_utf8_lossy(&converted.stdout).lines().count(),
        5
    );
    assert!(String::from_utf8_lossy(&converted.stderr).starts_with("warning: "));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = folder();
    let large = folder.path().join("large.jsonl");
    let path = root().join("fixtures/runs/two_ranks/segment-000001.jsonl");
    let lines = std::fs::read_to_string(path).expect("readable");
    std::fs::write(&large, lines.repeat(100)).expect("writable");
    let program = assert_cmd::cargo::cargo_bin("stormlog");
    for format in ["json", "jsonl", "csv"] {
        let mut child = Command::new(&program)
            .args(["convert", "--to", format])
            .arg(&large)
            .arg("-")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut pipe = child.stdout.take().expect("a pipe");
        pipe.read_exact(&mut [0; 64]).expect("some output");
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
    }
}

#[test]
fn an_artifact_cannot_talk_to_the_terminal() {
    let folder = folder();
    let name = "\\u001b[31mred\\u001b]0;title\\u0007\\r\\nerror: spoofed";
    let session =
        format!("{{\"timestamp\": 1, \"session_id\": \"{name}\", \"host\": \"{name}\"}}\n");
    let unknown = format!("{{\"schema_version\": 3, \"{name}\": 1}}\n");
    let key = format!(
        "{}, \"{name}\": 1}}\n",
        crate::support::out(&[
            "convert",
            "fixtures/runs/versions/v3.json",
            "-",
            "--to",
            "jsonl"
        ])
        .trim_end()
        .trim_end_matches('}')
    );
    for text in [session, unknown, key] {
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, &text).expect("writable");
        let path = path.to_str().expect("text");
        for arguments in [
            &["show", path][..],
            &["show", "--skip-damaged", path],
            &["validate", path],
            &["convert", "--to", "csv", path, "/dev/null/x"],
        ] {
            let output = stormlog(arguments).output().expect("it starts");
            for stream in [output.stdout, output.stderr] {
                let text = String::from_utf8_lossy(&stream);
                let control = |ch: char| ch.is_control() && ch != '\n';
                assert!(!text.contains(control), "{arguments:?}: {text:?}");
                assert!(
                    !text.contains("\nerror: spoofed"),
                    "{arguments:?}: {text:?}"
                );
            }
        }
    }
}

#[test]
fn names_of_files_cannot_talk_to_the_terminal() {
    let folder = folder();
    let path = folder.path().join("x\u{1b}[31m.jsonl");
    std::fs::write(&path, "{}\n{}\n").expect("writable");
    let path = path.to_str().expect("text");
    let missing = format!("{path}.gone");
    let output = format!("{path}.foo");
    for arguments in [
        &["show", path][..],
        &["show", &missing],
        &["validate", path, &missing],
        &["convert", path, &output],
        &["convert", "fixtures/runs/two_ranks", path],
    ] {
        let output = stormlog(arguments).output().expect("it starts");
        for stream in [output.stdout, output.stderr] {
            let text = String::from_utf8_lossy(&stream);
            assert!(!text.contains('\u{1b}'), "{arguments:?}: {text:?}");
        }
    }
}
