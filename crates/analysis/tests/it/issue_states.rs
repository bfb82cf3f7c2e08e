//! `issues.json` on disk: never half, never through a link, nothing of others lost.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use stormlog_analysis::issue::{
    DecidedState, Decision, EvidenceLink, Issue, States, change_states, read_states,
};
use stormlog_format::{Map, Value};

use crate::support::{folder, write};

/// Where a copy of this program that only writes finds its file.
const FILE: &str = "STORMLOG_TEST_WRITES_STATES_TO";

fn issue(number: usize) -> Issue {
    Issue {
        fingerprint_id: format!("issue:{number}").into(),
        kind: "alert".into(),
        dimensions: Map::new(),
        state: "open",
        severity: "warning".into(),
        title: "an alert".into(),
        first_seen_ns: None,
        last_seen_ns: None,
        affected_sessions: Vec::new(),
        evidence: vec![EvidenceLink::default()],
        details: Map::new(),
        state_info: None,
        former_ids: Vec::new(),
    }
}

fn ignore(states: &mut States, number: usize) {
    let decision = Decision {
        state: DecidedState::Ignored { until_ns: None },
        by: "me".into(),
        at_ns: 1,
        reason: None,
    };
    states.decide(&issue(number), &decision);
}

/// Not a test of its own: what the next one starts and kills.
#[test]
fn writes_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else {
        return;
    };
    loop {
        let changed = change_states(Path::new(&file), |states| {
            for number in 0..200 {
                ignore(states, number);
            }
        });
        changed.expect("a writer writes");
    }
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_file() {
    let folder = folder();
    let file = folder.path().join("issues.json");
    let mut written = 0;
    for round in 0..25_u64 {
        let mut writer = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "issue_states::writes_until_it_is_killed"])
            .env(FILE, &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a writer");
        // Once there is a file, the writer is killed in the middle of replacing it.
        for _ in 0..4000 {
            if file.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_micros(20_000 + 1_700 * round));
        writer.kill().expect("it can be killed");
        writer.wait().expect("it ended");
        let states = read_states(&file).expect("a whole file");
        written += usize::from(states.is_some_and(|states| states.knows(&"issue:199".into())));
    }
    assert_eq!(written, 25);
}

#[test]
fn links_in_the_folder_lead_nowhere() {
    let (folder, outside) = (folder(), folder());
    let precious = write(&outside, "precious", "do not touch");
    let file = folder.path().join("issues.json");
    symlink(&precious, folder.path().join("issues.json.tmp")).expect("a link");
    change_states(&file, |states| ignore(states, 1)).expect("written");
    let kept = std::fs::read_to_string(&precious).expect("still there");
    assert_eq!(kept, "do not touch");
    std::fs::remove_file(folder.path().join("issues.json.lock")).expect("a lock");
    let elsewhere = outside.path().join("made");
    symlink(&elsewhere, folder.path().join("issues.json.lock")).expect("a link");
    change_states(&file, |states| ignore(states, 2)).expect_err("the lock is a link");
    assert!(!elsewhere.exists());
}

#[test]
fn what_others_keep_in_the_file_stays() {
    let folder = folder();
    let file = write(
        &folder,
        "issues.json",
        r#"{"tool": {"x": [1, 2.5]}, "schema_version": 1, "format": "stormlog.issues",
            "issues": {"issue:1": {"state": "open", "ticket": "ABC-1"}}, "last": null}"#,
    );
    change_states(&file, |states| ignore(states, 1)).expect("written");
    let text = std::fs::read_to_string(&file).expect("a file");
    let states = read_states(&file).expect("readable").expect("a file");
    let entry = states.entry(&"issue:1".into()).expect("an entry");
    assert_eq!(entry.get("ticket"), Some(&Value::text("ABC-1")));
    assert_eq!(entry.get("state"), Some(&Value::text("ignored")));
    let document = states.to_value();
    let tool = document.as_map().and_then(|document| document.get("tool"));
    let kept = Value::List(vec![Value::Int(1), Value::Float(2.5)]);
    let tool = tool.and_then(Value::as_map).expect("an object");
    assert_eq!(tool.get("x"), Some(&kept));
    let keys: Vec<&str> = text.lines().filter_map(top_level_key).collect();
    assert_eq!(keys, ["tool", "schema_version", "format", "issues", "last"]);
}

/// The key of a line that is indented once.
fn top_level_key(line: &str) -> Option<&str> {
    let key = line.strip_prefix("  \"")?;
    key.split_once('"').map(|(key, _)| key)
}
