//! Builds small recordings as `stormlog run` writes them: host memory by process, devices with steps,
//! and the end of the program. A test reads as a sentence:
//! `a_run(60).device(|t| between_steps(mib(500) + leaked(t))).verdict()`.

use std::fmt::Write as _;

use stormlog_analysis::analyze::{AnalyzeOptions, Report, analyze};
use stormlog_analysis::{Events, Loaded, LoadedSession};
use stormlog_format::{Event, SessionStatus, SessionSummary};

use crate::support::event;

/// The pid of the program.
pub(crate) const PROGRAM: i64 = 100;
const START_NS: i64 = 1_794_700_000_000_000_000;
const PER_SECOND: i64 = 10;
const HOST_LIMIT: i64 = gib(64);
const DEVICE_TOTAL: i64 = gib(140);

pub(crate) const fn mib(count: i64) -> i64 {
    count << 20
}

pub(crate) const fn gib(count: i64) -> i64 {
    count << 30
}

/// One sample of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) allocated: i64,
    pub(crate) reserved: i64,
    pub(crate) hidden: i64,
    /// The step that had just ended, and its optimizer.
    pub(crate) step: Option<(i64, i64)>,
    pub(crate) pinned: i64,
}

/// A recording under construction, which ends with a verdict.
pub(crate) struct Recording {
    seconds: i64,
    host: Vec<Event>,
    device: Vec<Event>,
    status: SessionStatus,
}

/// A run of `seconds` seconds.
pub(crate) fn a_run(seconds: i64) -> Recording {
    Recording {
        seconds,
        host: Vec::new(),
        device: Vec::new(),
        status: SessionStatus::Completed,
    }
}

fn at(t: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "test data")]
    let offset = (t * 1e9) as i64;
    START_NS + offset
}

impl Recording {
    fn times(&self) -> impl Iterator<Item = f64> + use<> {
        let samples = i32::try_from(self.seconds * PER_SECOND).expect("a short run");
        (0..samples).map(|k| f64::from(k) / 10.0)
    }

    /// Adds host memory: pid, anonymous and shared bytes of each process at each time.
    pub(crate) fn host(mut self, processes: impl Fn(f64) -> Vec<(i64, i64, i64)>) -> Self {
        if self.host.is_empty() {
            let run = r#"{"run": {"id": "run-1", "program": "train.py", "command": ["python", "train.py"]}}"#;
            self.host.push(host_event("start", 0.0, 0, run));
        }
        for t in self.times() {
            let all = processes(t);
            let level: i64 = all.iter().map(|one| one.1 + one.2).sum();
            let (anonymous, shared) = (
                all.iter().map(|one| one.1).sum::<i64>(),
                all.iter().map(|one| one.2).sum::<i64>(),
            );
            let mut rows = String::new();
            for (pid, anonymous, shared) in &all {
                let _ = write!(rows, "[{pid}, {anonymous}, {shared}, {}], ", gib(1));
            }
            let metadata = format!(
                r#"{{"host_memory": {{"anonymous": {anonymous}, "shared": {shared}, "file": {}}}, "processes": [{}]}}"#,
                gib(1),
                rows.trim_end_matches(", "),
            );
            self.host.push(host_event("sample", t, level, &metadata));
        }
        self
    }

    /// Adds a process that starts next to the program.
    pub(crate) fn process(mut self, pid: i64, name: &str, role: &str) -> Self {
        let metadata = format!(
            r#"{{"process": {{"pid": {pid}, "parent_pid": {PROGRAM}, "name": "{name}", "role": "{role}"}}}}"#
        );
        self.host
            .insert(1, host_event("process_start", 0.0, 0, &metadata));
        self
    }

    /// Adds an inspection of a process that ended at time `t`, with its result as JSON.
    pub(crate) fn look(mut self, pid: i64, t: f64, found: &str) -> Self {
        let metadata = format!(r#"{{"evidence": {{"resource": "host", "pid": {pid}, {found}}}}}"#);
        self.host
            .push(host_event("memory_evidence", t, 0, &metadata));
        self
    }

    /// Adds a device.
    pub(crate) fn device(mut self, sample: impl Fn(f64) -> Sample) -> Self {
        let start = r#"{"run_id": "run-1", "resource": "cuda:0"}"#;
        self.device
            .push(device_event("start", 0.0, Sample::default(), start));
        for t in self.times() {
            let sample = sample(t);
            let step = sample.step.map_or_else(String::new, |(step, optimizer)| {
                format!(r#""step": {step}, "optimizer": {optimizer}, "step_count": {step}, "#)
            });
            let own = sample.reserved + sample.hidden;
            let metadata = format!(
                r#"{{{step}"pinned_bytes": {}, "process_device_used_bytes": {own}}}"#,
                sample.pinned
            );
            self.device
                .push(device_event("sample", t, sample, &metadata));
        }
        self
    }

    /// Adds an out-of-memory error of the device at time `t`.
    pub(crate) fn runs_out_of_memory(mut self, t: f64) -> Self {
        let sample = Sample {
            allocated: gib(130),
            reserved: gib(135),
            hidden: gib(1),
            ..Sample::default()
        };
        let metadata = format!(
            r#"{{"oom_reason": "torch.OutOfMemoryError", "oom": {{"requested_bytes": {}, "limit_bytes": {DEVICE_TOTAL}, "free_bytes": {}}}}}"#,
            gib(8),
            gib(4),
        );
        self.device
            .push(device_event("error", t, sample, &metadata));
        self
    }

    /// Adds an uncaught exception at the end.
    pub(crate) fn raises(self, kind: &str, message: &str) -> Self {
        self.raises_from(kind, message, "")
    }

    /// Adds an uncaught exception at the end; `chain` has the exceptions that it was raised from, as
    /// the elements of a JSON list.
    pub(crate) fn raises_from(mut self, kind: &str, message: &str, chain: &str) -> Self {
        let metadata = format!(
            r#"{{"exception": {{"type": "{kind}", "message": "{message}", "file": "train.py", "line": 12, "function": "main", "chain": [{chain}]}}}}"#
        );
        let end = self.times().last().unwrap_or(0.0);
        self.device
            .push(device_event("exception", end, Sample::default(), &metadata));
        self
    }

    /// Adds the end of the program, as its parent process saw it.
    pub(crate) fn ends(mut self, kind: &str, code: Option<i64>, signal: Option<i64>) -> Self {
        let word = |number: Option<i64>| number.map_or("null".to_owned(), |n| n.to_string());
        let end = format!(
            r#"{{"end": {{"kind": "{kind}", "code": {}, "signal": {}}}{}}}"#,
            word(code),
            word(signal),
            if kind == "kernel_oom_kill" {
                r#", "oom_reason": "kernel_oom_kill""#
            } else {
                ""
            },
        );
        let event_type = if kind == "kernel_oom_kill" {
            "error"
        } else {
            "stop"
        };
        let last = self.times().last().unwrap_or(0.0);
        self.host.push(host_event(event_type, last, 0, &end));
        self
    }

    pub(crate) fn exits(self, code: i64) -> Self {
        self.ends("exit", Some(code), None)
    }

    /// The recording has not been closed.
    pub(crate) fn still_runs(mut self) -> Self {
        self.status = SessionStatus::Running;
        self
    }

    fn loaded(&self) -> Loaded {
        let session = |id: &str, source: &str, events: &[Event]| {
            (!events.is_empty()).then(|| LoadedSession {
                summary: SessionSummary {
                    session_id: id.into(),
                    status: self.status,
                    started_at_ns: START_NS,
                    ended_at_ns: Some(at(self.times().last().unwrap_or(0.0))),
                    host: "node-1".into(),
                    pid: PROGRAM,
                    job_id: None,
                    rank: 0,
                    local_rank: 0,
                    world_size: 1,
                    source: source.into(),
                    recorder: None,
                },
                events: Events::from_events(events),
                sources: Vec::new(),
                damage: Vec::new(),
                thinned_until_ns: None,
            })
        };
        let host = session("host", "stormlog.run.host", &self.host);
        let device = session("device", "stormlog.run", &self.device);
        Loaded {
            sessions: host.into_iter().chain(device).collect(),
            ..Loaded::default()
        }
    }

    pub(crate) fn verdict(&self) -> Report {
        verdict_on(&[self.loaded()])
    }
}

/// The report on the loaded artifacts.
pub(crate) fn verdict_on(loaded: &[Loaded]) -> Report {
    analyze(loaded, &AnalyzeOptions::default()).expect("analyzed")
}

fn host_event(event_type: &str, t: f64, level: i64, metadata: &str) -> Event {
    event(&format!(
        r#"{{"session_id": "host", "collector": "stormlog.host", "event_type": "{event_type}",
            "timestamp_ns": {}, "pid": {PROGRAM}, "host": "node-1", "device_id": -1,
            "allocator_allocated_bytes": {level}, "allocator_reserved_bytes": {level},
            "device_used_bytes": {level}, "device_free_bytes": {}, "device_total_bytes": {HOST_LIMIT},
            "metadata": {metadata}}}"#,
        at(t),
        HOST_LIMIT - level,
    ))
}

fn device_event(event_type: &str, t: f64, sample: Sample, metadata: &str) -> Event {
    let used = sample.reserved + sample.hidden;
    event(&format!(
        r#"{{"session_id": "device", "collector": "stormlog.cuda_tracker", "event_type": "{event_type}",
            "timestamp_ns": {}, "pid": {PROGRAM}, "host": "node-1", "device_id": 0,
            "allocator_allocated_bytes": {}, "allocator_reserved_bytes": {},
            "device_used_bytes": {used}, "device_free_bytes": {}, "device_total_bytes": {DEVICE_TOTAL},
            "metadata": {metadata}}}"#,
        at(t),
        sample.allocated,
        sample.reserved,
        DEVICE_TOTAL - used,
    ))
}
