//! `stormlog query`: rows for people, for pipes and for spreadsheets.

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::artifacts::{FIRST_NS, call, record, session, write_oom_bundle, write_sink};

#[test]
fn a_missing_path_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sink(&folder.path().join("sink"), &[session(&json!({}))], &[]);
    let missing = call(folder.path(), &["query", "sessions", "nowhere", "--json"]);
    assert_eq!((missing.code, missing.out.as_str()), (Some(1), ""));
    assert!(missing.err.contains("'nowhere'"), "{}", missing.err);
    let strict = call(folder.path(), &["query", "sessions", "sink", "nowhere"]);
    assert_eq!(strict.code, Some(1));
    let lenient = call(
        folder.path(),
        &[
            "query",
            "sessions",
            "sink",
            "nowhere",
            "--lenient",
            "--json",
        ],
    );
    assert_eq!(lenient.code, Some(0), "{}", lenient.err);
    assert_eq!(lenient.json().as_array().map(Vec::len), Some(1));
    assert!(lenient.err.contains("nowhere"), "{}", lenient.err);
    let nothing = call(
        folder.path(),
        &["query", "sessions", "nowhere", "--lenient", "--json"],
    );
    assert_eq!(nothing.code, Some(1));
}

#[test]
fn hostile_text_is_shown_not_obeyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let escape = "\u{1b}[2J\u{202e}\u{9b}31m";
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({"host": escape}))],
        &[record(&json!({
            "context": escape, "host": escape, "event_type": "warning",
            "metadata": {"note": escape},
        }))],
    );
    let questions: [&[&str]; 7] = [
        &["query", "sessions", "sink"],
        &["query", "events", "sink"],
        &["query", "issues", "sink"],
        &[
            "query",
            "correlate",
            "sink",
            "--at-ns",
            "1762000000000000000",
        ],
        &["query", "watch", "sink", "--from-start", "--for", "0"],
        &["issues", "list", "sink"],
        &["query", "events", "sink", "--json"],
    ];
    for question in questions {
        let shown = call(folder.path(), question);
        assert_eq!(shown.code, Some(0), "{question:?}: {}", shown.err);
        for active in ['\u{1b}', '\u{202e}', '\u{9b}'] {
            assert!(!shown.out.contains(active), "{question:?}: {}", shown.out);
        }
    }
    let events = call(folder.path(), &["query", "events", "sink"]);
    assert!(events.out.contains("\\u{1b}[2J"), "{}", events.out);
}

#[test]
fn spreadsheets_run_no_cell() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = ["=1+1", "+1", "-1", "@x", "\tx", "\rx"];
    let records: Vec<Value> = commands
        .iter()
        .enumerate()
        .map(|(place, text)| {
            record(&json!({
                "context": text, "timestamp_ns": FIRST_NS + i64::try_from(place).expect("small"),
                "allocator_change_bytes": -5,
            }))
        })
        .collect();
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({}))],
        &records,
    );
    let cells = |arguments: &[&str]| {
        let table = call(folder.path(), arguments).out;
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let header = reader.headers().expect("a header").clone();
        let column = |name: &str| {
            header
                .iter()
                .position(|cell| cell == name)
                .expect("a column")
        };
        let (context, change) = (column("context"), column("allocator_change_bytes"));
        let rows = reader.records().map(|row| row.expect("a row"));
        rows.map(|row| (row[context].to_owned(), row[change].to_owned()))
            .collect::<Vec<_>>()
    };
    let guarded = cells(&["query", "events", "sink", "--csv"]);
    let expected = commands.map(|text| (format!("'{text}"), "-5".to_owned()));
    assert_eq!(guarded, expected);
    let raw = cells(&["query", "events", "sink", "--csv", "--raw"]);
    assert_eq!(raw, commands.map(|text| (text.to_owned(), "-5".to_owned())));
}

#[test]
fn one_damaged_line_hides_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("sink");
    write_sink(
        &sink,
        &[session(&json!({}))],
        &[
            record(&json!({})),
            record(&json!({"timestamp_ns": FIRST_NS + 1})),
        ],
    );
    let segment = sink.join("segment-000001.jsonl");
    let text = std::fs::read_to_string(&segment).expect("a segment");
    std::fs::write(&segment, text.replacen('\n', "\n{broken\n", 1)).expect("a segment");
    let events = call(folder.path(), &["query", "events", "sink", "--jsonl"]);
    assert_eq!(events.out.lines().count(), 2);
    assert!(events.err.contains("line 2"), "{}", events.err);
}

#[test]
fn a_session_whose_process_is_gone_was_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let started = json!({"status": "running", "ended_at_ns": null, "host": host});
    let mut gone = session(&started);
    gone["pid"] = json!(i32::MAX);
    let mut alive = session(&started);
    alive["session_id"] = json!("s2");
    alive["pid"] = json!(std::process::id());
    alive["started_at_ns"] = json!(i64::MAX / 2);
    write_sink(&folder.path().join("sink"), &[gone, alive], &[]);
    let rows = call(folder.path(), &["query", "sessions", "sink", "--json"]).json();
    let statuses: Vec<(&str, &str)> = rows
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().expect("text");
            (text("status"), text("effective_status"))
        })
        .collect();
    assert_eq!(
        statuses,
        [("running", "running"), ("running", "interrupted")]
    );
}

/// All commands agree, and a copy of a recording does not look like a job that runs.
#[test]
fn the_last_event_decides_whether_a_job_on_another_host_runs() {
    let started = json!({"status": "running", "ended_at_ns": null, "source": "stormlog.run"});
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("a time").as_nanos()).expect("a time");
    for (last_event_ns, status, answer) in [
        (now, "running", "no answer from 'run' within 0 s"),
        (FIRST_NS + 1, "interrupted", "the run has ended"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = folder.path().join("run");
        let last = record(&json!({"timestamp_ns": last_event_ns}));
        write_sink(&sink, &[session(&started)], &[record(&json!({})), last]);
        let rows = call(folder.path(), &["query", "sessions", "run", "--json"]).json();
        assert_eq!(rows[0]["effective_status"], status);
        let shown = call(folder.path(), &["show", "run", "--json"]).json();
        assert_eq!(shown["sessions"][0]["status"], status);
        let evidence = call(folder.path(), &["evidence", "run", "--timeout", "0"]);
        assert!(evidence.err.contains(answer), "{}", evidence.err);
    }
}

#[test]
fn rows_go_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({}))],
        &[record(&json!({}))],
    );
    let called = call(
        folder.path(),
        &[
            "query",
            "events",
            "sink",
            "--jsonl",
            "--output",
            "events.jsonl",
        ],
    );
    assert_eq!((called.code, called.out.as_str()), (Some(0), ""));
    let written = std::fs::read_to_string(folder.path().join("events.jsonl")).expect("a file");
    let event: Value = serde_json::from_str(written.trim()).expect("one line of JSON");
    assert_eq!(event["session_status"], "completed");
}

#[test]
fn watching_tells_of_what_arrives() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("sink");
    write_sink(
        &sink,
        &[session(&json!({}))],
        &[record(&json!({"event_type": "error"}))],
    );
    let mut watching = crate::artifacts::program(folder.path());
    let mut watching = watching
        .args(["query", "watch", ".", "--json", "--interval", "0.05"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let out = BufReader::new(watching.stdout.take().expect("a pipe"));
    let (sender, sightings) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let sighting: Value = serde_json::from_str(&line).expect("JSON");
            if sender.send(sighting).is_err() {
                return;
            }
        }
    });
    let mut segment = std::fs::OpenOptions::new()
        .append(true)
        .open(sink.join("segment-000001.jsonl"))
        .expect("a segment");
    let late = record(&json!({"event_type": "warning", "context": "late"}));
    // What is there at the first look is not printed, and only the program knows when that was.
    let mut next = None;
    for _ in 0..600 {
        writeln!(segment, "{late}").expect("a line");
        next = sightings.recv_timeout(Duration::from_millis(100)).ok();
        if next.is_some() {
            break;
        }
    }
    write_oom_bundle(&folder.path().join("oom"), "s1");
    let mut kinds = Vec::new();
    while let Some(sighting) = next {
        let kind = sighting["kind"].as_str().expect("a kind").to_owned();
        assert!(kind == "oom_bundle" || sighting["message"] == "late");
        kinds.push(kind);
        if kinds.last().is_some_and(|kind| kind == "oom_bundle") {
            break;
        }
        next = sightings.recv_timeout(Duration::from_mins(1)).ok();
    }
    watching.kill().expect("it runs until it is killed");
    watching.wait().expect("it ended");
    reader.join().expect("whole lines");
    kinds.dedup();
    assert_eq!(kinds, ["alert", "oom_bundle"]);
}

#[test]
fn watching_tells_people_and_ends_with_its_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sink(
        &folder.path().join("sink"),
        &[session(&json!({}))],
        &[
            record(&json!({"event_type": "collector_degraded", "context": "nvml lost"})),
            record(&json!({"event_type": "critical", "context": "\u{1b}[2Jfull", "device_id": 3})),
            record(&json!({"metadata": {"severity": "warning"}, "context": "odd"})),
            record(&json!({"context": "nothing special"})),
            record(&json!({"event_type": "error", "rank": 3, "world_size": 1})),
        ],
    );
    let watch = ["query", "watch", "sink", "--from-start", "--for", "0"];
    let called = call(folder.path(), &watch);
    assert!(called.err.contains("damaged line: "), "{}", called.err);
    let transcript = called.out;
    let lines: Vec<&str> = transcript.lines().collect();
    assert_eq!(lines.len(), 3, "{transcript}");
    assert!(
        lines[0].ends_with("warning   s1 rank 0  nvml lost"),
        "{transcript}"
    );
    assert!(
        lines[1].ends_with("critical  s1 rank 0  \\u{1b}[2Jfull"),
        "{transcript}"
    );
    let mut watching = crate::artifacts::program(folder.path())
        .args([
            "query",
            "watch",
            "sink",
            "--from-start",
            "--json",
            "--interval",
            "0.01",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(watching.stdout.take());
    let ended = watching
        .wait_with_output()
        .expect("it ends with its reader");
    assert_eq!(ended.status.code(), Some(0));
    let nowhere = call(folder.path(), &["query", "watch", "nowhere", "--for", "0"]);
    assert_eq!(nowhere.code, Some(1));
}

#[test]
fn cells_of_spreadsheets_are_a_usage_error_where_rows_are_nested() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sink(&folder.path().join("sink"), &[session(&json!({}))], &[]);
    for question in [
        &["query", "issues", "sink", "--csv"][..],
        &[
            "query",
            "summary",
            "sink",
            "--metric",
            "alert_count",
            "--csv",
        ],
        &["query", "correlate", "sink", "--at-ns", "1", "--csv"],
        &["query", "sessions", "sink", "--csv", "--json"],
    ] {
        let called = call(folder.path(), question);
        assert_eq!(
            (called.code, called.out.as_str()),
            (Some(1), ""),
            "{question:?}"
        );
        assert!(called.err.contains("--csv"), "{}", called.err);
    }
}

#[test]
fn a_missing_segment_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("sink");
    write_sink(&sink, &[session(&json!({}))], &[record(&json!({}))]);
    std::fs::remove_file(sink.join("segment-000001.jsonl")).expect("it was there");
    let listed = call(folder.path(), &["query", "sessions", "sink", "--json"]);
    assert_eq!(listed.code, Some(0));
    assert_eq!(listed.json().as_array().map(Vec::len), Some(1));
    assert!(
        listed.err.contains("segment is missing; 1 events"),
        "{}",
        listed.err
    );
}

#[test]
fn reading_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("sink");
    let running = session(&json!({"status": "running", "ended_at_ns": null, "pid": i32::MAX}));
    write_sink(
        &sink,
        &[running],
        &[record(&json!({"event_type": "warning"}))],
    );
    let state = || -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(&sink)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| {
                let bytes = std::fs::read(&path).expect("a file");
                (path.to_string_lossy().into_owned(), bytes)
            })
            .collect();
        files.sort();
        files
    };
    let before = state();
    for question in [
        &["query", "sessions", "sink"][..],
        &["query", "events", "sink"],
        &["query", "summary", "sink", "--metric", "alert_count"],
        &["issues", "list", "sink"],
        &["issues", "check", "sink"],
    ] {
        call(folder.path(), question);
    }
    assert_eq!(state(), before);
}

#[test]
fn many_sinks_are_listed_by_their_manifests() {
    let folder = tempfile::tempdir().expect("a folder");
    for sink in 0..60 {
        let directory = folder.path().join(format!("sink{sink:03}"));
        let sessions: Vec<Value> = (0..4)
            .map(|place| session(&json!({"session_id": format!("s{sink}-{place}")})))
            .collect();
        write_sink(&directory, &sessions, &[]);
        // A segment that would fail to load shows that none is read.
        std::fs::write(directory.join("segment-000001.jsonl"), b"\xff\xfe broken").expect("a file");
    }
    for bundle in 0..5 {
        let directory = folder.path().join(format!("oom{bundle}"));
        write_oom_bundle(&directory, &format!("s{bundle}-0"));
    }
    let listed = call(folder.path(), &["query", "sessions", ".", "--json"]);
    assert_eq!(listed.err, "");
    let rows = listed.json();
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 240);
    let with_bundle = rows.iter().filter(|row| row["oom_bundle_count"] == 1);
    assert_eq!(with_bundle.count(), 5);
}
