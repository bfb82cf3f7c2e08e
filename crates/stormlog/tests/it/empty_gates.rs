//! A gate that saw nothing, or not everything, does not pass.

use std::io::Write as _;
use std::path::Path;

use serde_json::json;

use crate::artifacts::{call, record, session, write_sink};
use crate::support::{folder, root};

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

/// Every gate, on a run and a clean run to compare it with.
fn gates(run: &str) -> [Vec<&str>; 4] {
    [
        vec!["issues", "check", run],
        vec!["analyze", run, "--fail-on", "any"],
        vec!["compare", run, "clean", "--fail-on", "new-findings"],
        vec!["compare", "clean", run, "--max-peak-growth", "100TiB"],
    ]
}

#[track_caller]
fn expect_code(folder: &Path, gate: &[&str], code: i32) {
    let called = call(folder, gate);
    let said = format!("{gate:?}: {}{}", called.out, called.err);
    assert_eq!(called.code, Some(code), "{said}");
    let accepts = called.err.contains("'--accept-damage' judges it anyway");
    assert_eq!(accepts, code == 1, "{said}");
}

#[test]
fn a_recording_that_is_not_whole_is_judged_only_on_request() {
    let folder = folder();
    let causes = root().join("fixtures/causes");
    let copy = |from: &str, name: &str, lines: usize| {
        let (from, to) = (causes.join(from), folder.path().join(name));
        std::fs::create_dir(&to).expect("a folder");
        std::fs::copy(from.join("manifest.json"), to.join("manifest.json")).expect("a file");
        let segment = std::fs::File::open(from.join("segment-000001.jsonl.zst")).expect("a file");
        let text = zstd::decode_all(segment).expect("zstd");
        let kept = text.split_inclusive(|byte| *byte == b'\n').take(lines);
        let kept: Vec<u8> = kept.flatten().copied().collect();
        std::fs::write(to.join("segment-000001.jsonl"), kept).expect("a file");
    };
    copy("clean_gpt", "clean", usize::MAX);
    copy("leak_to_oom", "cut", 60);
    copy("leak_to_oom", "whole", usize::MAX);
    copy("clean_gpt", "open", usize::MAX);
    let manifest = folder.path().join("open/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a file");
    let text = text.replace("\"completed\"", "\"running\"");
    std::fs::write(&manifest, text).expect("a file");
    for run in ["cut", "open"] {
        for mut gate in gates(run) {
            expect_code(folder.path(), &gate, 1);
            gate.push("--accept-damage");
            expect_code(folder.path(), &gate, 0);
        }
        // Without a gate, the recording is analyzed as before.
        expect_code(folder.path(), &["analyze", run], 0);
        expect_code(folder.path(), &["compare", "clean", run], 0);
    }
    // The interrupted session of a killed program was closed, and its findings fail the gate.
    expect_code(folder.path(), &["issues", "check", "whole"], 2);
    // A fault that was found fails the gate although the recording is not whole.
    let manifest = folder.path().join("whole/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a file");
    let text = text.replace("\"interrupted\"", "\"running\"");
    std::fs::write(&manifest, text).expect("a file");
    expect_code(folder.path(), &["issues", "check", "whole"], 2);
    expect_code(folder.path(), &["analyze", "whole", "--fail-on", "any"], 2);
}
