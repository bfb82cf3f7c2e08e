//! The two forms of an alert.

use serde_json::Value;
use stormlog_analysis::detect::{Finding, Kind, Severity};
use stormlog_export::alert::Subject;
use stormlog_export::{Address, Alert, AlertFormat};

fn finding() -> Finding {
    Finding {
        kind: Kind::HostLeak,
        severity: Severity::Warning,
        rank: Some(3),
        device_id: -1,
        session_id: "s".into(),
        onset_ns: Some(5),
        end_ns: None,
        magnitude_bytes: Some(1 << 30),
        rate_bytes_per_s: Some(2.5),
        time_to_full_s: None,
        confidence: 0.9,
        phase: None,
        evidence: vec![("steps", 7.0)],
        headline: "LIKELY LEAK  `x`  a.py:3  +2.5 B/s of <host> memory".into(),
        also: Vec::new(),
        size_words: String::new(),
        whose: String::new(),
        may_go_on: true,
        explanation: "grows <!channel> in a&b; token=ghp_abcdefghijklmnopqrstuvwxyz0123456789"
            .into(),
        advice: "look at `x`\n<https://evil|here>".into(),
        cause: None,
    }
}

fn subject() -> Subject {
    Subject {
        program: Some("train.py".into()),
        host: Some("node7".into()),
        job_id: Some("job-1".into()),
        recording: Some("runs/a".into()),
        run_id: None,
    }
}

fn rendered(format: AlertFormat) -> Value {
    let (finding, subject) = (finding(), subject());
    let alert = Alert {
        subject: &subject,
        finding: &finding,
        at_ns: 9,
    };
    let body = alert.render(format);
    let text = String::from_utf8(body.clone()).unwrap();
    assert!(!text.contains("ghp_abcdefg"), "{text}");
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn json_has_the_finding_as_analyze_prints_it() {
    let alert = rendered(AlertFormat::Json);
    assert_eq!(
        (&alert["source"], &alert["version"]),
        (&"stormlog".into(), &1.into())
    );
    assert_eq!(alert["run"]["program"], "train.py");
    assert_eq!(alert["run"]["run_id"], Value::Null);
    let finding = &alert["finding"];
    assert_eq!(alert["text"], finding["headline"]);
    assert_eq!(finding["kind"], "host_leak");
    assert_eq!(finding["magnitude_bytes"], 1 << 30);
    assert_eq!(finding["time_to_full_s"], Value::Null);
    assert_eq!(finding["rank"], 3);
}

#[test]
fn in_slack_hostile_names_stay_text() {
    let alert = rendered(AlertFormat::Slack);
    let text = alert["text"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Stormlog: train.py on node7, job job-1");
    assert_eq!(
        lines[1],
        "LIKELY LEAK  `x`  a.py:3  +2.5 B/s of &lt;host&gt; memory"
    );
    assert!(
        lines[2].starts_with("grows &lt;!channel&gt; in a&amp;b"),
        "{text}"
    );
    assert_eq!(lines[3], "look at `x` &lt;https://evil|here&gt;");
    assert_eq!(lines[4..], ["stormlog analyze runs/a"]);
    assert_eq!(alert.as_object().unwrap().len(), 1);
}

#[test]
fn the_form_follows_the_receiver() {
    let of = |url: &str| AlertFormat::of(&Address::parse(url).unwrap());
    assert_eq!(
        of("https://hooks.slack.com/services/a/b/c"),
        AlertFormat::Slack
    );
    assert_eq!(of("https://example.com/slack"), AlertFormat::Json);
}
