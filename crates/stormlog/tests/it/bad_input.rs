//! Runs whole commands on input that is unusual, empty or contradictory: there is an answer or a
//! clear error, never a panic or an invented finding.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use stormlog::{Console, Dialect};

const SECOND: i64 = 1_000_000_000;
const GIB: i64 = 1 << 30;

/// One sample or mark, before it becomes a record.
#[derive(Clone, Debug)]
struct Moment {
    at_ns: i64,
    event_type: &'static str,
    rank: i64,
    world_size: i64,
    allocated: i64,
    reserved: i64,
    used: i64,
    total: Option<i64>,
}

impl Moment {
    fn sample(at_ns: i64, bytes: i64) -> Self {
        Self {
            at_ns,
            event_type: "sample",
            rank: 0,
            world_size: 1,
            allocated: bytes,
            reserved: bytes,
            used: bytes,
            total: None,
        }
    }

    fn record(&self) -> Value {
        json!({
            "schema_version": 3, "session_id": format!("s{}", self.rank), "event_type": self.event_type,
            "timestamp_ns": self.at_ns, "collector": "c", "sampling_interval_ms": 100, "pid": 1, "host": "h",
            "job_id": "j", "rank": self.rank, "local_rank": self.rank, "world_size": self.world_size, "device_id": 0,
            "allocator_allocated_bytes": self.allocated, "allocator_reserved_bytes": self.reserved,
            "allocator_active_bytes": null, "allocator_inactive_bytes": null, "allocator_change_bytes": 0,
            "device_used_bytes": self.used, "device_free_bytes": null, "device_total_bytes": self.total,
            "context": null, "metadata": {},
        })
    }
}

fn write(folder: &Path, name: &str, moments: &[Moment]) -> PathBuf {
    let file = folder.join(name);
    let lines = moments
        .iter()
        .map(|moment| format!("{}\n", moment.record()));
    std::fs::write(&file, lines.collect::<String>()).expect("a file");
    file
}

struct Answer {
    code: u8,
    out: String,
    err: String,
}

fn stormlog(arguments: &[&str]) -> Answer {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        out_is_terminal: false,
        err_is_terminal: false,
        services: None,
        decided: None,
    };
    let arguments = arguments.iter().map(Into::into);
    let exit = stormlog::run(Dialect::Stormlog, arguments, &mut console);
    Answer {
        code: exit.code(),
        out: String::from_utf8(out).expect("text"),
        err: String::from_utf8(err).expect("text"),
    }
}

/// The document of a command that must succeed; `None` when it explains why it cannot.
fn document(arguments: &[&str]) -> Option<Value> {
    let answer = stormlog(&[arguments, &["--format", "json"]].concat());
    match answer.code {
        0 => Some(serde_json::from_str(&answer.out).expect("JSON")),
        1 => {
            assert!(answer.err.starts_with("error: "), "{}", answer.err);
            assert!(answer.out.is_empty());
            None
        }
        code => panic!("exit code {code}: {}", answer.err),
    }
}

/// Events in which nothing can be found, whatever their numbers.
fn dull() -> impl Strategy<Value = Vec<Moment>> {
    let bytes = prop_oneof![Just(0), 1..80 * GIB, Just(i64::MAX / 4)];
    let step = prop_oneof![Just(1), Just(SECOND), 1..3600 * SECOND];
    let start = prop_oneof![Just(0), Just(1_700_000_000 * SECOND), Just(i64::MAX / 2)];
    let constant =
        (1_i64..200, bytes.clone(), step.clone(), start).prop_map(|(n, bytes, step, start)| {
            (0..n)
                .map(|k| Moment::sample(start + k * step, bytes))
                .collect()
        });
    let marks_only = (0_i64..20).prop_map(|n| {
        let mark = |k| Moment {
            event_type: "start",
            ..Moment::sample(k, 0)
        };
        (0..n).map(mark).collect()
    });
    let negative_gaps = (50_i64..200, 1..80 * GIB).prop_map(|(n, bytes)| {
        let below = |k| Moment {
            used: bytes / 2,
            ..Moment::sample(k * SECOND, bytes)
        };
        (0..n).map(below).collect()
    });
    let jumping_clock = (60_i64..200, 1_i64..59, bytes.clone()).prop_map(|(n, back, bytes)| {
        let at = |k: i64| if k < n / 2 { k } else { k - back };
        (0..n)
            .map(|k| Moment::sample(at(k) * SECOND, bytes))
            .collect()
    });
    let one_time = (1_i64..200, 1..GIB)
        .prop_map(|(n, bytes)| (0..n).map(|k| Moment::sample(7, bytes + k)).collect());
    let twice = (50_i64..150, bytes.clone()).prop_map(|(n, bytes)| {
        (0..n)
            .map(|k| Moment::sample(k / 2 * SECOND, bytes))
            .collect()
    });
    let worlds = (2_i64..5, 50_i64..100, bytes).prop_map(|(ranks, n, bytes)| {
        let all = (0..n).flat_map(move |k| (0..ranks).map(move |rank| (k, rank)));
        all.map(|(k, rank)| Moment {
            rank,
            world_size: rank + 2,
            ..Moment::sample(k * SECOND, bytes)
        })
        .collect()
    });
    prop_oneof![
        constant,
        marks_only,
        negative_gaps,
        jumping_clock,
        one_time,
        twice,
        worlds
    ]
}

/// Any events that the rules of records allow.
fn wild() -> impl Strategy<Value = Vec<Moment>> {
    let time = prop_oneof![Just(0), 0..1000 * SECOND, 0..i64::MAX];
    let bytes = prop_oneof![Just(0), 0..80 * GIB, Just(i64::MAX)];
    let kind = prop_oneof![8 => Just("sample"), 1 => Just("error"), 1 => Just("phase_enter")];
    let moment = (time, kind, 0_i64..4, bytes.clone(), bytes.clone(), bytes).prop_map(
        |(at_ns, event_type, rank, allocated, reserved, used)| Moment {
            event_type,
            rank,
            world_size: rank + 1,
            reserved,
            used,
            ..Moment::sample(at_ns, allocated)
        },
    );
    prop::collection::vec(moment, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_made_up(moments in dull()) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = write(folder.path(), "events.jsonl", &moments);
        let file = file.to_str().expect("a path");
        if let Some(report) = document(&["analyze", file]) {
            prop_assert_eq!(&report["findings"], &json!([]));
            let status = &report["verdict"]["status"];
            prop_assert!(status == "clear" || status == "not_enough_evidence");
        }
        if let Some(same) = document(&["compare", file, file]) {
            let status = &same["verdict"]["status"];
            prop_assert!(status == "unchanged" || status == "not_enough_evidence", "{}", status);
            prop_assert_eq!(&same["findings"]["new"], &json!([]));
        }
    }

    #[test]
    fn anything_gets_an_answer(base in wild(), new in wild()) {
        let folder = tempfile::tempdir().expect("a folder");
        let base = write(folder.path(), "base.jsonl", &base);
        let new = write(folder.path(), "new.jsonl", &new);
        let (base, new) = (base.to_str().expect("a path"), new.to_str().expect("a path"));
        document(&["analyze", base]);
        document(&["compare", base, new]);
        for format in ["text", "md", "github"] {
            let gates = ["--max-peak-growth", "20%", "--max-slope", "10MB/min", "--fail-on", "new-findings,higher"];
            let answer = stormlog(&[&["compare", base, new, "--format", format], &gates[..]].concat());
            prop_assert!(answer.code <= 2);
            prop_assert!(answer.code != 1 || answer.err.starts_with("error: "), "{}", answer.err);
        }
        for format in ["txt", "md"] {
            prop_assert!(stormlog(&["analyze", new, "--format", format]).code <= 1);
        }
    }
}

#[test]
fn an_empty_file_is_an_error_or_an_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["empty.json", "empty.jsonl", "empty.csv"] {
        let file = folder.path().join(name);
        std::fs::write(&file, "").expect("a file");
        let file = file.to_str().expect("a path");
        if let Some(report) = document(&["analyze", file]) {
            assert_eq!(report["verdict"]["status"], "not_enough_evidence", "{name}");
        }
        if let Some(comparison) = document(&["compare", file, file]) {
            assert_eq!(
                comparison["verdict"]["status"], "not_enough_evidence",
                "{name}"
            );
        }
    }
}
