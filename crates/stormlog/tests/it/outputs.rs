//! What commands write: files that respect the umask, cells that are not formulas, and text without
//! effects where it is shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::CommandCargoExt as _;
use serde_json::json;

use crate::artifacts::{call, record, session, write_sink};
use crate::support::folder;

fn mode(file: &Path) -> u32 {
    let metadata = file.metadata().expect("a file");
    metadata.permissions().mode() & 0o777
}

fn call_with_umask(umask: &str, directory: &Path, arguments: &[&str]) {
    let program = Command::cargo_bin("stormlog").expect("the program is built");
    let output = Command::new("sh")
        .args(["-c", "umask $0; exec \"$@\"", umask])
        .arg(program.get_program())
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
}

#[test]
fn every_output_honours_the_umask() {
    let folder = folder();
    let records: Vec<_> = (0..50)
        .map(|n| record(&json!({"timestamp_ns": 1_794_700_000_000_000_000_i64 + n})))
        .collect();
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({}))],
        &records,
    );
    let outputs: [(&[&str], &[&str]); 9] = [
        (
            &["analyze", "sink", "--output", "report.txt"],
            &["report.txt"],
        ),
        (
            &["analyze", "sink", "--visualization", "--plot-dir", "plots"],
            &["plots/timeline.png", "plots/timeline.html"],
        ),
        (&["plot", "sink", "--output", "plot.svg"], &["plot.svg"]),
        (&["plot", "sink", "--output", "plot.html"], &["plot.html"]),
        (&["convert", "sink", "events.json"], &["events.json"]),
        (
            &["query", "events", "sink", "--output", "rows.txt"],
            &["rows.txt"],
        ),
        (&["issues", "list", "sink", "--save"], &["sink/issues.json"]),
        (
            &["compare", "sink", "--save-baseline", "base.json"],
            &["base.json"],
        ),
        (
            &["compare", "sink", "sink", "--output", "compared.txt"],
            &["compared.txt"],
        ),
    ];
    for (umask, expected) in [("077", 0o600), ("027", 0o640), ("022", 0o644)] {
        for (arguments, files) in outputs {
            for file in files {
                let _ = fs::remove_file(folder.path().join(file));
            }
            call_with_umask(umask, folder.path(), arguments);
            for file in files {
                let mode = mode(&folder.path().join(file));
                assert_eq!(mode, expected, "{file} under {umask}: {mode:o}");
            }
        }
    }
    // A file that was made private stays private, and one that a group may change stays so.
    let replaced = outputs.iter().filter(|(words, _)| words[0] != "convert");
    for (arguments, files) in replaced {
        for kept in [0o600, 0o660] {
            for file in *files {
                let rights = fs::Permissions::from_mode(kept);
                fs::set_permissions(folder.path().join(file), rights).expect("own file");
            }
            call_with_umask("022", folder.path(), arguments);
            for file in *files {
                assert_eq!(mode(&folder.path().join(file)), kept, "{file}");
            }
        }
    }
}

#[test]
fn folders_of_outputs_are_created() {
    let folder = folder();
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({}))],
        &[record(&json!({})), record(&json!({}))],
    );
    for arguments in [
        &["analyze", "sink", "--output", "a/report.txt"][..],
        &["plot", "sink", "--output", "b/plot.svg"],
        &["query", "events", "sink", "--output", "c/d/rows.txt"],
    ] {
        let called = call(folder.path(), arguments);
        assert_eq!(called.code, Some(0), "{arguments:?}: {}", called.err);
        let output = folder.path().join(arguments[arguments.len() - 1]);
        assert!(output.is_file(), "{arguments:?}");
    }
}

const FORMULAS: [&str; 7] = [
    "=HYPERLINK(\"http://x\")",
    "+1",
    "@sum",
    "-2+3",
    " =1+1",
    "\n=1+1",
    "\t=1+1",
];

#[test]
fn no_cell_is_a_formula_and_all_come_back() {
    let folder = folder();
    let records: Vec<_> = FORMULAS
        .iter()
        .map(|formula| record(&json!({"context": formula, "host": formula})))
        .collect();
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({}))],
        &records,
    );
    let called = call(folder.path(), &["convert", "sink", "events.csv"]);
    assert_eq!(called.code, Some(0), "{}", called.err);
    let converted = fs::read_to_string(folder.path().join("events.csv")).expect("a file");
    let queried = call(folder.path(), &["query", "events", "sink", "--csv"]).out;
    for text in [&converted, &queried] {
        let mut table = csv::Reader::from_reader(text.as_bytes());
        let header = table.headers().expect("a header").clone();
        let column = header
            .iter()
            .position(|name| name == "context")
            .expect("a column");
        let cells: Vec<String> = table
            .records()
            .map(|row| row.expect("a row")[column].to_owned())
            .collect();
        let expected = FORMULAS.map(|formula| format!("'{formula}"));
        assert_eq!(cells, expected);
    }
    // The loaded events equal the written ones.
    let called = call(folder.path(), &["convert", "events.csv", "again.json"]);
    assert_eq!(called.code, Some(0), "{}", called.err);
    let again = fs::read_to_string(folder.path().join("again.json")).expect("a file");
    let again: serde_json::Value = serde_json::from_str(&again).expect("JSON");
    for (event, formula) in again.as_array().expect("a list").iter().zip(FORMULAS) {
        assert_eq!(event["context"], formula);
        assert_eq!(event["host"], formula);
    }
}

#[test]
fn hostile_names_do_nothing_where_they_are_shown() {
    let folder = folder();
    let hostile = "\u{1b}[2J\u{7}\u{202e}evil\u{2066}\u{61c}\u{9b}31m";
    let event = record(&json!({
        "event_type": "warning", "context": hostile, "host": hostile, "collector": hostile,
        "metadata": {"phase": hostile},
    }));
    write_sink(
        &folder.path().join("runs/sink"),
        &[session(&json!({"host": hostile}))],
        &[event],
    );
    let other = folder.path().join("old/sink");
    write_sink(&other, &[session(&json!({}))], &[record(&json!({}))]);
    let mut commands: Vec<Vec<&str>> = Vec::new();
    for format in ["text", "md", "github"] {
        commands.push(vec!["issues", "list", "runs", "--format", format]);
        commands.push(vec!["issues", "check", "runs", "--format", format]);
        commands.push(vec!["issues", "diff", "old", "runs", "--format", format]);
        commands.push(vec!["issues", "show", "", "runs", "--format", format]);
        commands.push(vec!["compare", "old", "runs", "--format", format]);
    }
    commands.push(vec!["analyze", "runs", "--format", "txt"]);
    commands.push(vec!["analyze", "runs", "--format", "md"]);
    commands.push(vec!["show", "runs"]);
    commands.push(vec!["validate", "runs"]);
    commands.push(vec!["query", "events", "runs"]);
    commands.push(vec!["query", "sessions", "runs"]);
    commands.push(vec!["query", "issues", "runs"]);
    commands.push(vec![
        "query",
        "watch",
        "runs",
        "--from-start",
        "--for",
        "0.1",
    ]);
    for command in commands {
        let called = call(folder.path(), &command);
        assert!(matches!(called.code, Some(0..=2)), "{command:?}");
        for text in [&called.out, &called.err] {
            let acts = |ch: &char| {
                (ch.is_control() && *ch != '\n')
                    || matches!(ch, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
            };
            let found = text.chars().find(acts);
            assert_eq!(found, None, "{command:?}: {text:?}");
        }
    }
}
