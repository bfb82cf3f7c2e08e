//! Commands without a path, and folders in which files of other programs lie beside recordings.

use std::fs;
use std::path::Path;

use crate::artifacts::{call, repository};
use crate::support::folder;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("copied");
        }
    }
}

fn with_runs() -> tempfile::TempDir {
    let folder = folder();
    for (fixture, name) in [
        ("fixtures/runs/two_ranks", "stormlog-runs/z-older"),
        ("fixtures/causes/host_leak", "stormlog-runs/a-newer"),
    ] {
        copy(&repository(fixture), &folder.path().join(name));
    }
    folder
}

const NEWEST: &str = "stormlog: newest run: stormlog-runs/a-newer\n";

#[test]
fn without_a_path_the_newest_run_is_read() {
    let folder = with_runs();
    let given = call(folder.path(), &["analyze", "stormlog-runs/a-newer"]);
    let found = call(folder.path(), &["analyze"]);
    assert_eq!((found.code, &*found.err), (Some(0), NEWEST));
    assert_eq!(found.out, given.out);
    let shown = call(folder.path(), &["show", "--json"]);
    assert_eq!(shown.err, NEWEST);
    assert_eq!(shown.json()["path"], "stormlog-runs/a-newer");
    let listed = call(folder.path(), &["issues", "list", "--json"]);
    assert_eq!((listed.code, &*listed.err), (Some(0), NEWEST));
    assert!(listed.json().is_array());
    let drawn = call(folder.path(), &["plot"]);
    assert_eq!((&*drawn.out, &*drawn.err), ("timeline.html\n", NEWEST));
    assert!(folder.path().join("timeline.html").is_file());
}

#[test]
fn without_a_path_and_without_runs_the_error_says_what_to_do() {
    let folder = folder();
    for command in [&["analyze"][..], &["show"], &["plot"], &["issues", "list"]] {
        let failed = call(folder.path(), command);
        assert_eq!(failed.code, Some(1), "{command:?}");
        assert!(
            failed.err.contains("has no folder 'stormlog-runs'"),
            "{}",
            failed.err
        );
        assert!(failed.err.contains("\nhint: "), "{}", failed.err);
    }
    fs::create_dir(folder.path().join("stormlog-runs")).expect("a folder");
    let failed = call(folder.path(), &["query", "runs"]);
    assert!(
        failed.err.contains("'stormlog-runs' has no recording"),
        "{}",
        failed.err
    );
}

#[test]
fn files_of_other_programs_are_counted_and_skipped() {
    let folder = folder();
    copy(
        &repository("fixtures/runs/two_ranks"),
        &folder.path().join("all/run"),
    );
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join("all").join(name), text).expect("written");
    };
    write(
        "app.jsonl",
        "{\"timestamp\": \"2026-11-19\", \"level\": \"info\"}\n",
    );
    write("trace_events.json", "{\"events\": [{\"name\": \"x\"}]}");
    write("events.csv", "timestamp,name\n1,a\n");
    let alone = call(folder.path(), &["analyze", "all/run"]);
    for command in [
        &["analyze", "all"][..],
        &["analyze", "all", "--fail-on", "any"],
    ] {
        let found = call(folder.path(), command);
        assert_eq!(found.out, alone.out);
        assert!(
            found
                .err
                .starts_with("stormlog: 3 files skipped: not recordings ('all/app.jsonl', "),
            "{}",
            found.err
        );
    }
    for command in ["show", "validate"] {
        let found = call(folder.path(), &[command, "all"]);
        assert_eq!(found.code, Some(0), "{}", found.err);
        assert!(found.err.contains("3 files skipped"), "{}", found.err);
    }
    // A file that the user names still gives its error.
    let named = call(folder.path(), &["analyze", "all/app.jsonl"]);
    assert_eq!(named.code, Some(1));
    assert!(
        named.err.contains("cannot read 'all/app.jsonl', line 1"),
        "{}",
        named.err
    );
    // So does a damaged recording in the folder.
    write(
        "rank0.jsonl",
        "{\"timestamp_ns\": 1, \"device_used_bytes\": \"x\"}\n",
    );
    let damaged = call(folder.path(), &["analyze", "all", "--fail-on", "any"]);
    assert_eq!(damaged.code, Some(1));
    assert!(
        damaged
            .err
            .contains("cannot read 'all/rank0.jsonl', line 1"),
        "{}",
        damaged.err
    );
}

#[test]
fn runs_are_listed_for_people_and_for_programs() {
    let folder = with_runs();
    let listed = call(folder.path(), &["query", "runs"]);
    let mut lines = listed.out.lines();
    let titles: Vec<&str> = lines.next().expect("titles").split_whitespace().collect();
    assert_eq!(titles[..5], ["Run", "Started", "Ended", "Peak", "Verdict"]);
    let newest = lines.nth(1).expect("a row");
    assert!(newest.starts_with("host_leak.py "), "{newest}");
    assert!(newest.contains("  exit code 0  5.43 GiB  "), "{newest}");
    assert!(
        newest.contains("  stormlog-runs/a-newer  1db157e9-"),
        "{newest}"
    );
    let rows = call(folder.path(), &["query", "runs", "--json"]).json();
    assert_eq!(rows[0]["title"], "host_leak.py");
    assert!(rows[0].get("program").is_none());
    let raw = call(folder.path(), &["query", "runs", "--raw"]);
    assert!(raw.out.starts_with("Run Id "), "{}", raw.out);
}

#[test]
fn a_script_is_not_run_by_itself() {
    let folder = folder();
    fs::write(folder.path().join("train.py"), "print(1)\n").expect("written");
    let failed = call(folder.path(), &["run", "train.py", "--name", "a b"]);
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.err.contains("cannot run 'train.py'"),
        "{}",
        failed.err
    );
    let hint = failed.err.lines().last().expect("a hint");
    assert!(
        hint.starts_with("hint: did you mean: stormlog run -- python"),
        "{hint}"
    );
    assert!(hint.ends_with(" train.py --name 'a b'"), "{hint}");
    let missing = call(folder.path(), &["run", "nowhere.py"]);
    assert!(
        missing.err.contains("there is no such file"),
        "{}",
        missing.err
    );
}

#[test]
fn a_name_is_recorded_and_shown() {
    let folder = folder();
    let secret = "sk-abcdefghijklmnopqrstuvwx12345678";
    let name = format!("batch 64 {secret}");
    let run = ["run", "--name", &*name, "--", "sleep", "0.3"];
    assert_eq!(call(folder.path(), &run).code, Some(0));
    let listed = call(folder.path(), &["query", "runs"]).out;
    assert!(listed.contains("\nbatch 64 [redacted] "), "{listed}");
    let shown = call(folder.path(), &["show", "--json"]).json();
    assert_eq!(shown["runs"][0]["program"], "sleep");
    assert_eq!(shown["runs"][0]["name"], "batch 64 [redacted]");
    let analyzed = call(folder.path(), &["analyze"]).out;
    assert!(
        analyzed.contains("Analyzed: batch 64 [redacted], "),
        "{analyzed}"
    );
    let refused = call(folder.path(), &["run", "--name", " ", "--", "true"]);
    assert_eq!(refused.code, Some(1));
}

#[test]
fn the_demo_needs_python() {
    let folder = folder();
    let mut demo = crate::artifacts::program(folder.path());
    let demo = demo.arg("demo").env("PATH", folder.path());
    let output = demo
        .env_remove("STORMLOG_PYTHON")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.starts_with("error: the demo needs Python 3"),
        "{errors}"
    );
    assert!(!folder.path().join("stormlog-demo").exists());
}
