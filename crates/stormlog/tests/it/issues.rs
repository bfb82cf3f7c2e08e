//! `stormlog issues`: states persist, concurrent changes are not lost, and the gate works.

use std::path::Path;

use serde_json::{Value, json};

use crate::artifacts::{FIRST_NS, call, program, record, session, write_sink};

/// Makes a sink with this many different alerts.
fn write_alerts(directory: &Path, count: usize) {
    let records: Vec<Value> = (0..count)
        .map(|place| {
            let letter = char::from(b'a' + u8::try_from(place).expect("few"));
            record(&json!({
                "event_type": "warning", "context": format!("alert {letter}"),
                "timestamp_ns": FIRST_NS + i64::try_from(place).expect("few"),
            }))
        })
        .collect();
    write_sink(directory, &[session(&json!({}))], &records);
}

fn ids(folder: &Path) -> Vec<String> {
    let issues = call(folder, &["issues", "list", "runs", "--json"]).json();
    let issues = issues.as_array().expect("a list").iter();
    issues
        .map(|issue| issue["fingerprint_id"].as_str().expect("an id").to_owned())
        .collect()
}

fn state(folder: &Path, id: &str) -> String {
    let issue = call(folder, &["issues", "show", id, "runs", "--json"]).json();
    issue["state"].as_str().expect("a state").to_owned()
}

#[test]
fn two_who_change_states_at_once_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    write_alerts(&runs.join("sink"), 20);
    let ids = ids(folder.path());
    assert_eq!(ids.len(), 20);
    for round in 0..5 {
        let word = if round % 2 == 0 { "resolve" } else { "reopen" };
        let halves = ids.split_at(10);
        let decide = |ids: &[String]| {
            for id in ids {
                let decided = program(folder.path())
                    .args([
                        "issues",
                        word,
                        id,
                        "runs",
                        "--reason",
                        &format!("round {round}"),
                    ])
                    .output()
                    .expect("the program starts");
                assert!(decided.status.success(), "{decided:?}");
            }
        };
        // 100 changes in all, by two processes at a time.
        std::thread::scope(|scope| {
            scope.spawn(|| decide(halves.0));
            scope.spawn(|| decide(halves.1));
        });
        let text = std::fs::read_to_string(runs.join("issues.json")).expect("a sidecar");
        let sidecar: Value = serde_json::from_str(&text).expect("JSON at every time");
        for id in &ids {
            let entry = &sidecar["issues"][id];
            let state = if round % 2 == 0 { "resolved" } else { "open" };
            assert_eq!(entry["state"], state);
            assert_eq!(entry["reason"], format!("round {round}"));
        }
    }
}

#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    write_alerts(&runs.join("sink"), 20);
    let id = ids(folder.path()).remove(0);
    for round in 0..30_u64 {
        let mut writer = program(folder.path())
            .args([
                "issues",
                "ignore",
                &id,
                "runs",
                "--reason",
                &round.to_string(),
            ])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(std::time::Duration::from_micros(700 * round));
        writer.kill().expect("it can be killed");
        writer.wait().expect("it ended");
        if let Ok(text) = std::fs::read_to_string(runs.join("issues.json")) {
            let sidecar: Value = serde_json::from_str(&text).expect("a whole file");
            assert_eq!(sidecar["format"], "stormlog.issues");
        }
    }
    let after = call(folder.path(), &["issues", "reopen", &id, "runs"]);
    assert_eq!(after.code, Some(0), "{}", after.err);
}

#[test]
fn a_damaged_sidecar_is_named_and_not_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    write_alerts(&runs.join("sink"), 2);
    let id = ids(folder.path()).remove(0);
    std::fs::write(runs.join("issues.json"), "{ half").expect("a sidecar");
    let listed = call(folder.path(), &["issues", "list", "runs", "--json"]);
    assert_eq!(listed.code, Some(1));
    assert_eq!(listed.json().as_array().map(Vec::len), Some(2));
    assert!(listed.err.contains("issues.json"), "{}", listed.err);
    let resolved = call(folder.path(), &["issues", "resolve", &id, "runs"]);
    assert_eq!(resolved.code, Some(1));
    let kept = std::fs::read_to_string(runs.join("issues.json")).expect("a sidecar");
    assert_eq!(kept, "{ half");
}

#[test]
fn an_issue_with_half_a_character_is_json_for_every_parser() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("runs/sink");
    write_alerts(&sink, 1);
    let segment = sink.join("segment-000001.jsonl");
    let line = std::fs::read_to_string(&segment).expect("a segment");
    std::fs::write(&segment, line.replace("alert a", "\\ud800 ")).expect("a segment");
    for command in ["list", "check"] {
        let text = call(folder.path(), &["issues", command, "runs", "--json"]).out;
        let document: Value = serde_json::from_str(&text).expect("JSON");
        assert!(text.contains('\u{fffd}'), "{document}");
    }
}

#[test]
fn ignoring_can_end() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("runs/sink"), 1);
    let id = ids(folder.path()).remove(0);
    let ignore = |how: &[&str]| {
        let arguments = [&["issues", "ignore", &id, "runs"], how].concat();
        call(folder.path(), &arguments)
    };
    assert_eq!(ignore(&["--until", "2025-01-01"]).code, Some(0));
    assert_eq!(state(folder.path(), &id), "open");
    assert_eq!(ignore(&["--for", "2w"]).code, Some(0));
    assert_eq!(state(folder.path(), &id), "ignored");
    assert_eq!(ignore(&["--for", "soon"]).code, Some(1));
    assert_eq!(ignore(&["--until", "soon"]).code, Some(1));
    let passed = call(folder.path(), &["issues", "check", "runs"]);
    assert_eq!(passed.code, Some(0), "{}", passed.out);
}

#[test]
fn an_expiry_is_kept_and_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("runs/sink"), 1);
    let id = ids(folder.path()).remove(0);
    let ignore = [
        "issues",
        "ignore",
        &id,
        "runs",
        "--until",
        "2126-12-01",
        "--reason",
        "known",
        "--by",
        "ana",
    ];
    assert_eq!(call(folder.path(), &ignore).code, Some(0));
    let shown = call(folder.path(), &["issues", "show", &id, "runs"]).out;
    assert!(shown.contains("decided by ana on "), "{shown}");
    assert!(
        shown.contains(", until 2126-12-01 00:00:00 UTC: known"),
        "{shown}"
    );
    let json = call(folder.path(), &["issues", "list", "runs", "--json"]).json();
    let info = &json[0]["state_info"];
    assert_eq!(info["ignored_until_ns"], 4_951_756_800_000_000_000_i64);
    assert_eq!(info["reason"], "known");
}

#[test]
fn a_finding_can_be_shown_with_its_course() {
    let folder = tempfile::tempdir().expect("a folder");
    let night = crate::artifacts::repository("fixtures/issues/monday/track.jsonl.gz");
    let shown = call(
        folder.path(),
        &["issues", "show", "ea59", night.to_str().expect("text")],
    );
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    for part in [
        "session nightly-monday  rank 0  in ",
        "\n  allocated ",
        "\n  used ",
        " ^\n",
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
}

#[test]
fn every_format_of_every_command_that_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("old/sink"), 1);
    write_alerts(&folder.path().join("runs/sink"), 2);
    let id = ids(folder.path()).remove(0);
    let commands: [&[&str]; 4] = [
        &["issues", "list", "runs"],
        &["issues", "show", &id, "runs"],
        &["issues", "diff", "old", "runs"],
        &["issues", "check", "runs", "--baseline", "old"],
    ];
    for command in commands {
        let print = |format: &str| {
            let called = call(folder.path(), &[command, &["--format", format]].concat());
            assert!(matches!(called.code, Some(0 | 2)), "{}", called.err);
            called
        };
        let markdown = print("md").out;
        assert!(markdown.contains("|---|"), "{command:?}: {markdown}");
        let github = print("github").out;
        assert!(
            github.starts_with("::warning title="),
            "{command:?}: {github}"
        );
        assert!(print("text").out.contains("likely"), "{command:?}");
        print("json").json();
    }
}

#[test]
fn kinds_are_known_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("runs/sink"), 1);
    // The rules of stormlog 0.3.9 for hidden memory are not asked here.
    for unknown in ["leak", "hidden_memory_anomaly"] {
        let list = ["issues", "list", "runs", "--kind", unknown];
        let called = call(folder.path(), &list);
        assert_eq!(called.code, Some(1));
        assert!(called.err.contains("allocator_leak"), "{}", called.err);
    }
}

#[test]
fn a_file_of_telemetry_can_be_the_baseline() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("runs/sink"), 1);
    let line = record(&json!({"event_type": "warning", "context": "alert a"}));
    for (name, text) in [
        ("old.jsonl", format!("{line}\n{line}\n")),
        ("old.json", format!("[{line}]")),
    ] {
        std::fs::write(folder.path().join(name), text).expect("a file");
        let check = ["issues", "check", "runs", "--baseline", name];
        let checked = call(folder.path(), &check);
        assert_eq!(
            checked.code,
            Some(0),
            "{name}: {}{}",
            checked.out,
            checked.err
        );
    }
    std::fs::write(folder.path().join("issues.json"), "{").expect("a file");
    let check = ["issues", "check", "runs", "--baseline", "issues.json"];
    let checked = call(folder.path(), &check);
    assert_eq!(checked.code, Some(1));
    assert!(
        checked.err.contains("'issues.json' is damaged"),
        "{}",
        checked.err
    );
}

#[test]
fn resolved_on_the_baseline_s_side_is_a_regression_too() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("old/sink"), 1);
    let resolve = ["issues", "resolve", "", "old", "--reason", "fixed"];
    assert_eq!(call(folder.path(), &resolve).code, Some(0));
    let later = record(&json!({
        "event_type": "warning", "context": "alert a", "session_id": "s2",
        "timestamp_ns": FIRST_NS + 60_000_000_000_i64,
    }));
    let session = session(&json!({"session_id": "s2"}));
    write_sink(&folder.path().join("runs/sink"), &[session], &[later]);
    let check = [
        "issues",
        "check",
        "runs",
        "--baseline",
        "old/issues.json",
        "--json",
    ];
    let failed = call(folder.path(), &check);
    assert_eq!(failed.code, Some(2), "{}", failed.err);
    assert_eq!(failed.json()["failures"][0]["failed_on"], "regressed");
    let check = [&check[..], &["--fail-on", "new"]].concat();
    assert_eq!(call(folder.path(), &check).code, Some(0));
    let diff = call(folder.path(), &["issues", "diff", "old", "runs"]);
    assert!(diff.out.starts_with("regressed "), "{}", diff.out);
}

#[test]
fn the_gate_compares_with_a_baseline() {
    let folder = tempfile::tempdir().expect("a folder");
    write_alerts(&folder.path().join("old/sink"), 1);
    write_alerts(&folder.path().join("runs/sink"), 2);
    let saved = call(folder.path(), &["issues", "list", "old", "--save"]);
    assert_eq!(saved.code, Some(0), "{}", saved.err);
    for baseline in ["old/issues.json", "old"] {
        let check = ["issues", "check", "runs", "--baseline", baseline, "--json"];
        let failed = call(folder.path(), &check);
        assert_eq!(failed.code, Some(2), "{}", failed.err);
        let failures = failed.json()["failures"].clone();
        assert_eq!(failures.as_array().map(Vec::len), Some(1));
        assert_eq!(failures[0]["failed_on"], "new");
        assert_eq!(failures[0]["issue"]["title"], "Alert: alert b");
    }
    let check = [
        "issues",
        "check",
        "runs",
        "--baseline",
        "old",
        "--min-severity",
        "critical",
        "--fail-on",
        "open",
    ];
    let passed = call(folder.path(), &check);
    assert_eq!(
        (passed.code, passed.out.as_str()),
        (Some(0), "passed: no open issues\n")
    );
    let check = ["issues", "check", "runs", "--baseline", "nowhere.json"];
    assert_eq!(call(folder.path(), &check).code, Some(1));
    let diff = call(folder.path(), &["issues", "diff", "old", "runs", "--json"]).json();
    let changes: Vec<&Value> = diff
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| &change["change"])
        .collect();
    assert_eq!(changes, ["new", "same"]);
}
