//! A gate that saw nothing, or not everything, does not pass.

use std::io::Write as _;
use std::path::Path;

use serde_json::json;

use crate::artifacts::{call, record, session, write_sink};
use crate::support::folder;

/// Files without events: empty, garbage, cut off.
fn write_nothings(folder: &Path) {
    let at = |name: &str| folder.join(name);
    std::fs::create_dir(at("empty")).expect("a folder");
    std::fs::create_dir(at("texts")).expect("a folder");
    std::fs::write(at("texts/notes.txt"), "nothing").expect("a file");
    std::fs::write(at("garbage.csv"), "\u{1}garbage,and,more\n").expect("a file");
    std::fs::write(at("garbage.json"), b"\xff\xfe\x00garbage").expect("a file");
    std::fs::write(at("garbage.jsonl"), "garbage\ngarbage\n").expect("a file");
    std::fs::write(at("empty.csv"), "").expect("a file");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let line = format!("{}\n", record(&json!({})));
    gzip.write_all(line.as_bytes()).expect("memory");
    let packed = gzip.finish().expect("memory");
    std::fs::write(at("cut.jsonl.gz"), &packed[..20]).expect("a file");
}

const NOTHINGS: [&str; 7] = [
    "empty",
    "texts",
    "garbage.csv",
    "garbage.json",
    "garbage.jsonl",
    "empty.csv",
    "cut.jsonl.gz",
];

fn write_clean(directory: &Path) {
    write_sink(directory, &[session(&json!({}))], &[record(&json!({}))]);
}

#[test]
fn nothing_to_check_is_a_failure() {
    let folder = folder();
    write_nothings(folder.path());
    write_clean(&folder.path().join("clean"));
    for nothing in NOTHINGS {
        let gates: [&[&str]; 9] = [
            &["issues", "check", nothing],
            &["issues", "check", "clean", nothing],
            &["issues", "check", "clean", "--baseline", nothing],
            &["analyze", nothing, "--fail-on", "any"],
            &["analyze", nothing, "--fail-on", "any", "--skip-damaged"],
            &["compare", "clean", nothing, "--fail-on", "higher"],
            &[
                "compare",
                "clean",
                nothing,
                "--fail-on",
                "new-findings",
                "--skip-damaged",
            ],
            &[
                "compare",
                nothing,
                "clean",
                "--fail-on",
                "new-findings",
                "--skip-damaged",
            ],
            &["validate", nothing],
        ];
        for gate in gates {
            let called = call(folder.path(), gate);
            assert_eq!(
                called.code,
                Some(1),
                "{gate:?}: {}{}",
                called.out,
                called.err
            );
            let names_it = called.err.contains(nothing) || called.out.contains(nothing);
            let tells_why = called.err.contains("error: ") || called.out.contains("problem");
            assert!(names_it || tells_why, "{gate:?}: {}", called.err);
        }
    }
}

#[test]
fn a_clean_run_passes() {
    let folder = folder();
    write_clean(&folder.path().join("runs/sink"));
    std::fs::write(folder.path().join("runs/notes.json"), "{}").expect("a file");
    for gate in [
        &["issues", "check", "runs"][..],
        &["issues", "check", "runs/sink", "runs"],
        &["issues", "check", "runs/sink/manifest.json"],
        &["issues", "check", "runs", "missing", "--lenient"],
        &["analyze", "runs", "--fail-on", "any"],
        &["validate", "runs"],
    ] {
        let called = call(folder.path(), gate);
        assert_eq!(
            called.code,
            Some(0),
            "{gate:?}: {}{}",
            called.out,
            called.err
        );
    }
}

#[test]
fn a_source_that_cannot_be_read_is_not_ignored() {
    let folder = folder();
    write_clean(&folder.path().join("runs/sink"));
    std::fs::write(folder.path().join("runs/events.json"), "[{").expect("a file");
    let called = call(folder.path(), &["issues", "check", "runs"]);
    assert_eq!(called.code, Some(1), "{}", called.out);
    assert!(
        called.err.contains("cannot check 'runs/events.json'"),
        "{}",
        called.err
    );
    assert!(called.err.contains("hint: "), "{}", called.err);
}
