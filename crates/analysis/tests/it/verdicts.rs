//! Tests the verdicts on whole runs: recordings of real programs by version 0.4.0, and recordings
//! in the form that `stormlog run` writes now.

use std::collections::HashMap;

use stormlog_analysis::analyze::Report;
use stormlog_analysis::detect::{Finding, Kind, Severity};
use stormlog_analysis::issue::{DecidedState, Decision, IssueFilter, States};
use stormlog_analysis::query::Store;
use stormlog_analysis::{Loaded, gather};
use stormlog_format::Value;
use stormlog_format::json::parse;

use crate::recording::{PROGRAM, Sample, a_run, gib, mib, verdict_on};
use crate::support::{fixture, raise};

fn of_fixture(name: &str) -> Report {
    let path = fixture(name);
    verdict_on(&gather(&[path], &raise()).expect("it loads").loaded)
}

fn serious(report: &Report) -> Vec<(Kind, Option<u32>)> {
    let findings = report.findings().filter(|f| f.severity > Severity::Info);
    findings.map(|f| (f.kind, f.rank)).collect()
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.findings().map(|finding| finding.kind).collect()
}

fn headline(report: &Report) -> String {
    report.runs[0].diagnosis.headline()
}

fn only(report: &Report) -> &Finding {
    let mut findings = report.findings();
    let first = findings.next().expect("a finding");
    assert!(findings.next().is_none(), "{:?}", kinds(report));
    first
}

#[test]
fn clean_programs_are_clean() {
    for name in ["clean_gpt", "clean_serving", "hf_trainer"] {
        let report = of_fixture(&format!("v040_{name}"));
        assert_eq!(kinds(&report), [], "{name}");
        assert_eq!(report.runs.len(), 1, "{name}");
        let line = headline(&report);
        assert!(
            line.starts_with("No memory problem found: 1 process, GPU 0, "),
            "{line}"
        );
        assert!(line.ends_with("; ended normally"), "{line}");
    }
}

#[test]
fn issues_are_judged_by_the_detectors_alone() {
    let report = of_fixture("h200_shared_gpu");
    let mut found: Vec<&str> = kinds(&report).into_iter().map(Kind::as_str).collect();
    found.sort_unstable();
    let store = Store::open(&[fixture("h200_shared_gpu")]);
    let issues = store.issues_with_findings(&IssueFilter::default(), &HashMap::new());
    let mut kinds: Vec<String> = issues.iter().map(|one| one.kind.to_string()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, found);
}

#[test]
fn what_was_not_recorded_is_named() {
    let report = of_fixture("v040_host_leak");
    assert_eq!(kinds(&report), []);
    assert!(headline(&report).contains("(host memory was recorded only up to 6.4 s)"));
}

#[test]
fn faults_are_named_and_nothing_else() {
    for (name, kind, rank) in [
        ("kv_cache", Kind::AllocatorLeak, 0),
        ("outputs_list", Kind::AllocatorLeak, 0),
        ("native_malloc", Kind::HiddenDrift, 0),
        ("rank_leak", Kind::AllocatorLeak, 1),
    ] {
        let report = of_fixture(&format!("v040_{name}"));
        assert_eq!(serious(&report), [(kind, Some(rank))], "{name}");
        assert_eq!(report.findings().count(), 1, "{name}");
    }
    let device = headline(&of_fixture("v040_kv_cache"));
    assert!(
        device.starts_with("LIKELY LEAK  GPU 0  +56.0 MiB/s ("),
        "{device}"
    );
    let rank = headline(&of_fixture("v040_rank_leak"));
    assert!(rank.starts_with("LIKELY LEAK  rank 1  +55"), "{rank}");
}

#[test]
fn growth_below_a_load_that_was_freed_is_dated_to_its_beginning() {
    // The growth begins at 290 MiB, after a load of 509 MiB was freed.
    for (name, began_ns) in [
        (
            "../recordings/shared_kv_cache",
            1_794_800_918_425_000_000_i64,
        ),
        ("../causes/kv_cache", 1_794_813_654_925_000_000),
    ] {
        let report = of_fixture(name);
        let leak = report.findings().find(|f| f.kind == Kind::AllocatorLeak);
        let onset = leak.and_then(|f| f.onset_ns).expect("a leak with an onset");
        let off_ms = (onset - began_ns) / 1_000_000;
        assert!(off_ms.abs() < 800, "{name}: {off_ms} ms off");
    }
}

#[test]
fn a_run_that_ran_out_of_memory_has_that_as_its_headline() {
    let report = of_fixture("v040_leak_to_oom");
    let found = serious(&report);
    assert_eq!(
        found,
        [(Kind::OomRisk, Some(0)), (Kind::AllocatorLeak, Some(0))]
    );
    let oom = report.findings().next().expect("a finding");
    assert_eq!(
        (oom.severity, oom.magnitude_bytes),
        (Severity::Critical, Some(262_144_000))
    );
    assert_eq!(
        oom.explanation,
        "GPU 0 ran out of memory at 22.9 s: tried to allocate 250 MiB with 20.0 GiB in use and \
         975 MiB cached but unusable; the process is limited to 21.0 GiB"
    );
    let end = report.runs[0].diagnosis.end.clause();
    assert_eq!(end, "ended by an out-of-memory error");
}

#[test]
fn a_folder_that_was_recorded_into_twice_holds_two_runs() {
    let mut first = gather(&[fixture("v040_kv_cache")], &raise())
        .expect("it loads")
        .loaded;
    let mut second = gather(&[fixture("v040_clean_gpt")], &raise())
        .expect("it loads")
        .loaded;
    let mut joined: Loaded = first.remove(0);
    joined.sessions.append(&mut second.remove(0).sessions);
    let report = verdict_on(&[joined]);
    let found: Vec<usize> = report
        .runs
        .iter()
        .map(|run| {
            run.diagnosis
                .findings()
                .iter()
                .filter(|f| f.severity > Severity::Info)
                .count()
        })
        .collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found.iter().sum::<usize>(), 1);
}

/// The level between two steps of a loop with ten steps a second.
fn between_steps(t: f64, allocated: i64, reserved: i64) -> Sample {
    Sample {
        allocated,
        reserved,
        hidden: mib(700),
        step: Some((steps(t), 0)),
        pinned: 0,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "test data")]
fn steps(t: f64) -> i64 {
    (t * 10.0).round() as i64
}

fn calm_host(_: f64) -> Vec<(i64, i64, i64)> {
    vec![(PROGRAM, gib(2), 0)]
}

/// The memory of imports, which take three seconds.
fn imports(t: f64) -> i64 {
    steps(t.min(3.0)) * mib(40)
}

#[test]
fn a_clean_loop_has_one_level() {
    let report = a_run(60)
        .host(|t| vec![(PROGRAM, imports(t), 0)])
        .device(|t| between_steps(t, mib(1500), mib(4000)))
        .exits(0)
        .verdict();
    assert_eq!(kinds(&report), []);
    assert_eq!(
        headline(&report),
        "No memory problem found: 1 process, GPU 0, 59.9 s; ended with exit code 0"
    );
}

#[test]
fn a_leak_is_counted_per_step_from_the_first_step_on() {
    let report = a_run(60)
        .host(calm_host)
        .device(|t| {
            between_steps(
                t,
                mib(1500) + steps(t) * mib(1),
                mib(4000) + steps(t) * mib(1),
            )
        })
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), [(Kind::AllocatorLeak, Some(0))]);
    let leak = report
        .findings()
        .find(|f| f.kind == Kind::AllocatorLeak)
        .expect("a leak");
    let per_step = leak
        .evidence
        .iter()
        .find(|(name, _)| *name == "bytes_per_step");
    let per_step = per_step.expect("steps were counted").1 / 1_048_576.0;
    assert!((per_step - 1.0).abs() < 0.02, "{per_step}");
    assert!(
        leak.explanation
            .starts_with("GPU 0 leaks 10.0 MiB/s (+1.00 MiB per step) since 0 s: "),
        "{}",
        leak.explanation
    );
}

#[test]
fn a_small_leak_that_began_late_is_placed() {
    let leaked = |t: f64| (steps(t) - 200).max(0) * mib(1) / 10;
    let report = a_run(60)
        .host(calm_host)
        .device(|t| {
            between_steps(
                t,
                mib(1500) + leaked(t),
                mib(4000) + leaked(t) / mib(2) * mib(2),
            )
        })
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), [(Kind::AllocatorLeak, Some(0))]);
    let leak = report
        .findings()
        .find(|f| f.kind == Kind::AllocatorLeak)
        .expect("a leak");
    assert!(
        leak.explanation.contains("since 2") || leak.explanation.contains("since 19"),
        "{}",
        leak.explanation
    );
}

#[test]
fn two_optimizers_alternate_with_floors_of_their_own() {
    let gan = |leaked: fn(f64) -> i64| {
        a_run(60)
            .host(calm_host)
            .device(move |t| {
                let optimizer = steps(t) % 2;
                let floor = [mib(900), mib(1700)][usize::try_from(optimizer).expect("small")];
                Sample {
                    step: Some((steps(t), optimizer)),
                    ..between_steps(t, floor + leaked(t), mib(3000) + leaked(t))
                }
            })
            .exits(0)
            .verdict()
    };
    assert_eq!(kinds(&gan(|_| 0)), []);
    assert_eq!(
        serious(&gan(|t| steps(t) * mib(1) / 2)),
        [(Kind::AllocatorLeak, Some(0))]
    );
}

#[test]
fn longer_and_longer_sequences_are_no_leak() {
    // The last batch is still referenced at the end of a step; activations grow twenty times as fast.
    let report = a_run(60)
        .host(calm_host)
        .device(|t| {
            between_steps(
                t,
                mib(1500) + steps(t) * mib(1) / 4,
                mib(3000) + steps(t) * mib(5),
            )
        })
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), []);
}

#[test]
fn a_sweep_of_growing_models_is_no_leak() {
    let report = a_run(60)
        .host(calm_host)
        .device(|t| {
            let model = steps(t) / 60;
            let sample = between_steps(t, mib(300) * (model + 1), mib(600) * (model + 1));
            Sample {
                step: Some((steps(t), model)),
                ..sample
            }
        })
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), []);
}

#[test]
fn a_load_that_exits_is_no_leak() {
    let report = a_run(30)
        .host(|t| vec![(PROGRAM, imports(t) + steps(t) * mib(20), 0)])
        .device(|t| Sample {
            allocated: steps(t) * mib(40),
            reserved: steps(t) * mib(40) + mib(2),
            hidden: mib(600),
            ..Sample::default()
        })
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), []);
}

#[test]
fn buffers_that_fill_up_are_no_leak() {
    let host = |level: fn(f64) -> i64| {
        a_run(60)
            .host(move |t| vec![(PROGRAM, imports(t) + level(t), 0)])
            .exits(0)
            .verdict()
    };
    // Three buffers: one that is full after a while, one that is not full yet, and one that grows
    // ever more slowly.
    assert_eq!(kinds(&host(|t| steps(t.min(40.0)) * mib(4))), []);
    let almost_full = host(|t| steps(t) * mib(4));
    assert_eq!(serious(&almost_full), []);
    let note = only(&almost_full);
    assert_eq!((note.kind, note.severity), (Kind::HostLeak, Severity::Info));
    assert!(
        note.explanation
            .contains("caused by a leak or by a buffer that is not full yet")
    );
    let slower = host(|t| gib(2) * steps(1.0 - (-t / 50.0).exp()) / 10);
    assert_eq!(serious(&slower), []);
}

#[test]
fn mapped_files_are_no_leak() {
    // The builder gives every process 1 GiB of file-backed memory, which does not count.
    let report = a_run(60).host(calm_host).exits(0).verdict();
    assert_eq!(kinds(&report), []);
    assert_eq!(
        headline(&report),
        "No memory problem found: 1 process, host memory, 59.9 s; ended with exit code 0"
    );
}

#[test]
fn a_leaking_worker_is_named() {
    let report = a_run(60)
        .host(|t| {
            vec![
                (PROGRAM, imports(t), mib(10)),
                (101, mib(300), 0),
                (102, mib(300) + steps(t) * mib(1), 0),
            ]
        })
        .process(101, "pt_data_worker", "worker")
        .process(102, "pt_data_worker", "worker")
        .exits(0)
        .verdict();
    let leak = only(&report);
    assert_eq!(leak.kind, Kind::HostLeak);
    assert!(
        leak.explanation
            .starts_with("Worker 102 (pt_data_worker): anonymous host memory grew by 59"),
        "{}",
        leak.explanation
    );
    let line = headline(&report);
    assert!(
        line.starts_with("NOTE: GROWTH  worker 102 (pt_data_worker)  +10.0 MiB/s of anonymous"),
        "{line}"
    );
}

#[test]
fn a_training_that_leaks_host_memory_fast_is_warned_of() {
    let leaked = |t: f64| (steps(t) - 60).max(0) * mib(70);
    let report = a_run(30)
        .host(|t| vec![(PROGRAM, imports(t) + leaked(t), 0)])
        .device(|t| between_steps(t, mib(1500), mib(4000)))
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), [(Kind::HostLeak, Some(0))]);
    let line = headline(&report);
    assert!(
        line.starts_with("LIKELY LEAK  train.py  +70.0 MiB/step of anonymous host memory ("),
        "{line}"
    );
}

/// An inspection of 4 s in which a list of the program gained `bytes` bytes.
fn list_gained(bytes: i64) -> String {
    format!(
        r#""is_python": true, "is_complete": true, "seconds": 4.0, "objects_bytes": {bytes},
        "holders": [{{"name": "`kept` in `__main__`", "kind": "list", "items": 1204,
        "items_gained": 40, "bytes": {}, "bytes_gained": {bytes}, "file": "/a/train.py",
        "line": 31, "function": "main"}}],
        "mapped_seconds": 5.0, "mapped_bytes": {}, "anonymous_bytes": {},
        "mappings": [{{"name": "[heap]", "grown_bytes": {}}}]"#,
        gib(1),
        mib(48),
        mib(50),
        mib(48)
    )
}

#[test]
fn what_holds_the_memory_of_a_leak_is_named() {
    // Ten steps per second, which leak 1 MiB each.
    let leaking = |found: &str| {
        let run = a_run(60).host(|t| {
            vec![
                (PROGRAM, imports(t), 0),
                (102, mib(300) + steps(t) * mib(1), 0),
            ]
        });
        let run = run.process(102, "pt_data_worker", "worker");
        run.look(102, 20.0, found).exits(0).verdict()
    };
    let report = leaking(&list_gained(mib(38)));
    let leak = only(&report);
    assert_eq!((leak.kind, leak.severity), (Kind::HostLeak, Severity::Info));
    assert!(
        leak.explanation.contains(
            "; `kept` in `__main__` grows (1,204 items, 1.00 GiB at 20.0 s), items added at train.py:31"
        ),
        "{}",
        leak.explanation
    );
    let cause = leak.cause.as_ref().unwrap();
    assert_eq!(cause.holder.as_deref(), Some("`kept` in `__main__`"));
    assert_eq!(cause.site.as_ref().unwrap().place(), "train.py:31");
    assert!(cause.share > 0.9, "{}", cause.share);
    // A third of the growth is too little to be named as the cause, and too much for the rest to
    // count as native memory.
    assert_eq!(only(&leaking(&list_gained(mib(13)))).cause, None);
    let native = leaking(&list_gained(mib(1)));
    let cause = only(&native).cause.as_ref().unwrap();
    assert_eq!(cause.holder.as_deref(), Some("native memory ([heap])"));
    assert_eq!(only(&leaking(r#""holders": 3"#)).cause, None);
}

#[test]
fn a_look_does_not_make_a_leak() {
    let full = a_run(60)
        .host(|t| vec![(PROGRAM, imports(t) + steps(t.min(30.0)) * mib(1), 0)])
        .look(PROGRAM, 20.0, &list_gained(mib(40)))
        .exits(0)
        .verdict();
    assert_eq!(kinds(&full), []);
    let filling = a_run(60)
        .host(|t| vec![(PROGRAM, imports(t) + steps(t) * mib(1), 0)])
        .look(PROGRAM, 20.0, &list_gained(mib(40)))
        .exits(0)
        .verdict();
    assert_eq!(serious(&filling), []);
}

#[test]
fn pinned_memory_is_named() {
    let leaked = |t: f64| (steps(t) - 60).max(0) * mib(70);
    let report = a_run(30)
        .host(|t| vec![(PROGRAM, imports(t), leaked(t))])
        .device(|t| Sample {
            pinned: leaked(t),
            ..between_steps(t, mib(1500), mib(4000))
        })
        .exits(0)
        .verdict();
    assert!(only(&report).explanation.contains("pinned host memory"));
}

#[test]
fn an_error_that_was_survived_is_not_the_end() {
    let report = a_run(60)
        .host(calm_host)
        .device(|t| between_steps(t, mib(1500), mib(4000)))
        .runs_out_of_memory(20.0)
        .exits(0)
        .verdict();
    assert_eq!(serious(&report), [(Kind::OomRisk, Some(0))]);
    let finding = only(&report);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.explanation.starts_with(
            "GPU 0 ran out of memory and went on at 20.0 s: tried to allocate 8.00 GiB"
        ),
        "{}",
        finding.explanation
    );
}

#[test]
fn an_error_that_was_not_survived_is_the_headline() {
    let report = a_run(60)
        .host(calm_host)
        .device(|t| {
            between_steps(
                t,
                mib(1500) + steps(t) * mib(20),
                mib(4000) + steps(t) * mib(20),
            )
        })
        .runs_out_of_memory(59.9)
        .raises("torch.OutOfMemoryError", "CUDA out of memory")
        .exits(1)
        .verdict();
    let found = serious(&report);
    assert_eq!(
        found,
        [(Kind::OomRisk, Some(0)), (Kind::AllocatorLeak, Some(0))]
    );
    let line = headline(&report);
    assert!(
        line.starts_with("PROBLEM: OUT OF MEMORY  GPU 0  "),
        "{line}"
    );
}

#[test]
fn an_error_that_the_program_handles_and_raises_again_is_not_survived() {
    let ended = |kind: &str, message: &str, chain: &str| {
        // The program writes a checkpoint for 20 s before it raises the error again.
        let report = a_run(60)
            .host(calm_host)
            .device(|t| between_steps(t, mib(1500), mib(4000)))
            .runs_out_of_memory(40.0)
            .raises_from(kind, message, chain)
            .exits(1)
            .verdict();
        let finding = report.findings().next().expect("a finding").clone();
        assert_eq!(finding.kind, Kind::OomRisk);
        (finding.severity, finding.explanation)
    };
    for (kind, message, chain) in [
        ("torch.OutOfMemoryError", "CUDA out of memory", ""),
        ("torch.cuda.OutOfMemoryError", "CUDA out of memory", ""),
        (
            "RuntimeError",
            "training failed",
            r#""torch.OutOfMemoryError: CUDA out of memory""#,
        ),
        (
            "jaxlib.XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while allocating",
            "",
        ),
    ] {
        let (severity, explanation) = ended(kind, message, chain);
        assert_eq!(severity, Severity::Critical, "{kind}");
        assert!(
            explanation.starts_with("GPU 0 ran out of memory at 40.0 s"),
            "{explanation}"
        );
    }
    for (kind, chain) in [
        ("ValueError", ""),
        ("MemoryError", ""),
        ("ValueError", r#""KeyError: 1""#),
    ] {
        let (severity, explanation) = ended(kind, "x", chain);
        assert_eq!(severity, Severity::Warning, "{kind}");
        assert!(
            explanation.contains(" and went on at 40.0 s"),
            "{explanation}"
        );
    }
}

#[test]
fn a_kill_by_the_kernel_is_the_headline_and_the_leak_its_cause() {
    let report = a_run(60)
        .host(|t| vec![(PROGRAM, imports(t) + steps(t) * mib(100), 0)])
        .ends("kernel_oom_kill", None, Some(9))
        .verdict();
    let found = serious(&report);
    assert_eq!(found, [(Kind::OomRisk, Some(0)), (Kind::HostLeak, Some(0))]);
    let line = headline(&report);
    assert!(
        line.starts_with("PROBLEM: OUT OF MEMORY  train.py  killed by the kernel; host memory"),
        "{line}"
    );
}

#[test]
fn a_signal_and_an_exception_are_in_the_headline() {
    let clean = || {
        a_run(60)
            .host(calm_host)
            .device(|t| between_steps(t, mib(1500), mib(4000)))
    };
    let killed = clean().ends("signal", None, Some(9)).verdict();
    assert_eq!(
        headline(&killed),
        "No memory problem found: 1 process, GPU 0, 59.9 s; ended by SIGKILL (signal 9)"
    );
    let raised = clean().raises("ValueError", "bad shape").exits(1).verdict();
    assert_eq!(
        headline(&raised),
        "No memory problem found: 1 process, GPU 0, 59.9 s; ended by ValueError: bad shape at \
         train.py:12"
    );
    // An exception of another process does not end a program that exits with 0.
    let helper = clean().raises("ValueError", "bad shape").exits(0).verdict();
    assert!(headline(&helper).ends_with("ended with exit code 0"));
    let failed = clean().exits(3).verdict();
    assert!(
        headline(&failed).ends_with("ended with exit code 3"),
        "{}",
        headline(&failed)
    );
}

#[test]
fn a_run_in_progress_says_so_and_its_leak_is_a_risk() {
    let calm = a_run(60).host(calm_host).still_runs().verdict();
    assert!(
        headline(&calm).ends_with("; still running"),
        "{}",
        headline(&calm)
    );
    let leaking = a_run(60)
        .host(calm_host)
        .device(|t| {
            between_steps(
                t,
                mib(1500) + steps(t) * mib(20),
                mib(4000) + steps(t) * mib(20),
            )
        })
        .still_runs()
        .verdict();
    assert_eq!(serious(&leaking), [(Kind::AllocatorLeak, Some(0))]);
    let leak = only(&leaking);
    assert_eq!(leak.severity, Severity::Critical);
    assert!(leak.is_a(Kind::OomRisk));
    let line = headline(&leaking);
    assert!(
        line.starts_with("PROBLEM: LEAK  GPU 0  +20.0 MiB/step ("),
        "{line}"
    );
    assert!(line.ends_with("; still running"), "{line}");
}

/// The id that version 0.4.0 gave the drift of `native_malloc`.
const DRIFT_OF_V040: &str = "issue:0cd6ba8362f0a134cf37622c";

#[test]
fn what_people_decided_with_version_0_4_0_holds() {
    let document = format!(
        r#"{{"schema_version": 1, "format": "stormlog.issues", "issues": {{"{DRIFT_OF_V040}": {{"state": "ignored",
            "changed_at_ns": 5, "changed_by": "ana", "reason": "known", "ignored_until_ns": null, "ticket": 7}}}}}}"#
    );
    let document = parse(document.as_bytes()).expect("valid");
    let mut states = States::from_value(&document).expect("states");
    let mut report = of_fixture("v040_native_malloc");
    states.apply(&mut report.issues, 10);
    let drift = report
        .issues
        .iter()
        .find(|issue| issue.kind == "hidden_drift");
    let drift = drift.expect("an issue");
    assert_eq!(drift.state, "ignored");
    assert_ne!(drift.fingerprint_id, DRIFT_OF_V040);
    assert!(states.knows_issue(drift));
    // A new decision is stored under the new id, together with the other keys of the old one.
    let decision = Decision {
        state: DecidedState::Open,
        by: "ben".into(),
        at_ns: 20,
        reason: None,
    };
    states.decide(drift, &decision);
    assert_eq!(states.state_of(drift, 30), "open");
    let entry = states.entry(&drift.fingerprint_id).expect("an entry");
    assert_eq!(entry.get("ticket"), Some(&Value::Int(7)));
}

#[test]
fn severity_is_no_part_of_an_issue_and_the_program_is() {
    let leak = |seconds: i64, per_step: i64| {
        let report = a_run(seconds)
            .host(calm_host)
            .device(move |t| {
                let leaked = steps(t) * per_step;
                between_steps(t, mib(1500) + leaked, mib(4000) + leaked)
            })
            .exits(0)
            .verdict();
        let mut issues = report.issues.into_iter();
        let issue = issues.find(|issue| issue.kind == "allocator_leak");
        issue.expect("a leak")
    };
    let (fast, slow) = (leak(60, mib(1)), leak(600, 1024));
    assert_ne!(fast.severity, slow.severity);
    assert_eq!(fast.fingerprint_id, slow.fingerprint_id);
    assert_eq!(
        fast.dimensions.get("program"),
        Some(&Value::Text("train.py".into()))
    );
}
