//! Inspects processes whose host memory rises, to find what inside them grows.
//!
//! Only a process itself knows which objects it holds. A request file in the run's inbox makes the
//! process inspect its objects. The answer of the process is recorded as soon as it arrives, so
//! that it is not lost when the process is killed. The memory mappings of an inspected process are
//! read from outside the process. This module only collects evidence; the detectors decide later
//! whether memory leaks.

mod answer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stormlog_capture::clock::now_ns;
use stormlog_capture::collect::mappings::Mappings;
use stormlog_capture::collect::rising::Rising;
use stormlog_capture::collect::tree::Levels;
use stormlog_capture::record::Recorder;
use stormlog_format::classify::oom_reason;
use stormlog_format::json::map_of;
use stormlog_format::{EventType, Map, Value, metadata_keys};

use super::inbox;
use answer::Answer;

/// The type of the event that stores what was found in an inspected process.
pub(super) const EVENT: &str = EventType::MemoryEvidence.as_str();

/// The time between two checks for answers of inspected processes and for new readings of the
/// memory of all processes.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// If an out-of-memory error has not ended its process after this time, the process has caught the
/// error.
const SURVIVED: Duration = Duration::from_secs(2);

/// How long an inspection waits for the answer of a process before its request is withdrawn.
const PATIENCE: Duration = Duration::from_secs(150);

/// The shortest time between two inspection requests to one process. An inspection takes up to 300
/// ms of processor time in the process, so inspections take at most 300 ms of a minute.
const PAUSE: Duration = Duration::from_mins(1);

/// The largest numbers of inspection requests: to one process, to all processes together, and open
/// at one time.
const MOST_OF_PROCESS: u32 = 3;
const MOST_OF_RUN: u32 = 32;
const MOST_OPEN: usize = 4;

/// The memory mappings of a process that does not run Python are recorded when its memory has grown
/// by this number of bytes.
const ENOUGH_GROWTH: u64 = 16 << 20;

/// The largest number of grown memory mappings that an event lists.
const MOST_MAPPINGS: usize = 4;

/// Watches the host memory of a run's processes on a thread of its own, and inspects the processes
/// whose memory grows.
pub(super) struct Inspections {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Inspections {
    pub(super) fn start(
        levels: Receiver<Levels>,
        inbox: PathBuf,
        recorder: Arc<Recorder>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let work = move || {
            let mut work = Work {
                inbox,
                recorder,
                start: Instant::now(),
                rising: Rising::default(),
                latest: Levels::new(),
                open: Vec::new(),
                asked: Vec::new(),
            };
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(CHECK_EVERY) {
                work.look(&levels);
            }
            // The last answers of inspected processes are read before the inbox is deleted.
            work.take_answers();
            work.take_survived(Duration::ZERO);
        };
        let builder = std::thread::Builder::new().name("stormlog-inspect".into());
        Ok(Self {
            stop,
            thread: builder.spawn(work)?,
        })
    }

    /// Records the remaining answers of inspected processes and ends the thread.
    pub(super) fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Work {
    inbox: PathBuf,
    recorder: Arc<Recorder>,
    start: Instant,
    rising: Rising,
    latest: Levels,
    open: Vec<Request>,
    /// All inspections that were started so far, also those that are finished.
    asked: Vec<Asked>,
}

/// An inspection that is in progress. It waits for the answer of a process with Stormlog's hook or,
/// for a process that does not run Python, until its memory has grown enough.
struct Request {
    pid: u32,
    since: Instant,
    is_python: bool,
    anonymous: u64,
    mappings: Option<Mappings>,
}

struct Asked {
    pid: u32,
    at: Instant,
    /// Whether the answer of the process named the containers that grow; if so, no further request
    /// is sent to it.
    is_settled: bool,
}

impl Work {
    fn look(&mut self, levels: &Receiver<Levels>) {
        let mut rising = Vec::new();
        for levels in levels.try_iter() {
            rising.extend(self.rising.observe(self.start.elapsed(), &levels));
            self.latest = levels;
        }
        for pid in rising {
            self.ask(pid);
        }
        self.take_answers();
        self.take_survived(SURVIVED);
        self.drop_late();
    }

    /// Sends an inspection request to a process, unless the process or the run has already received
    /// enough requests.
    fn ask(&mut self, pid: u32) {
        let earlier = || self.asked.iter().filter(|one| one.pid == pid);
        let is_enough = earlier().count() >= MOST_OF_PROCESS as usize
            || earlier().any(|one| one.is_settled || one.at.elapsed() < PAUSE)
            || self.asked.len() >= MOST_OF_RUN as usize
            || self.open.len() >= MOST_OPEN;
        let Some(anonymous) = self.level(pid).filter(|_| !is_enough) else {
            return;
        };
        let mappings = Mappings::read(Path::new("/proc"), pid);
        let is_python = inbox::is_marked(&self.inbox, "python", pid);
        // A Python interpreter that has not loaded Stormlog's hook cannot answer a request, so it
        // is not inspected.
        let is_mute = mappings.as_ref().is_none_or(Mappings::has_interpreter) && !is_python;
        if is_mute || (is_python && fs::write(self.request(pid), b"").is_err()) {
            return;
        }
        let now = Instant::now();
        self.asked.push(Asked {
            pid,
            at: now,
            is_settled: false,
        });
        self.open.push(Request {
            pid,
            since: now,
            is_python,
            anonymous,
            mappings,
        });
    }

    fn request(&self, pid: u32) -> PathBuf {
        self.inbox.join(format!("inspect-{pid}"))
    }

    fn level(&self, pid: u32) -> Option<u64> {
        let of_pid = self.latest.iter().find(|(one, _)| *one == pid);
        of_pid.map(|(_, anonymous)| *anonymous)
    }

    /// Records the answers that have arrived from inspected processes, and the memory mappings of
    /// processes that cannot answer.
    fn take_answers(&mut self) {
        for request in std::mem::take(&mut self.open) {
            let is_done = if request.is_python {
                self.take_answer(&request)
            } else {
                self.take_mappings(&request)
            };
            if !is_done {
                self.open.push(request);
            }
        }
    }

    fn take_answer(&mut self, request: &Request) -> bool {
        let path = self.inbox.join(format!("evidence-{}", request.pid));
        let Some(text) = inbox::read(&path) else {
            return false;
        };
        let _ = fs::remove_file(&path);
        // The answer was written by the watched program, so it may contain anything and is
        // validated.
        let answer = Answer::parse(&text).filter(|answer| answer.pid == request.pid);
        let Some(answer) = answer else {
            return true;
        };
        for asked in &mut self.asked {
            if asked.pid == request.pid {
                asked.is_settled |= answer.names_most();
            }
        }
        self.record(request, map_of(&answer));
        answer.is_final
    }

    /// Records the memory mappings of a process that does not run Python, if its memory has grown
    /// enough; returns whether they were recorded.
    fn take_mappings(&mut self, request: &Request) -> bool {
        let level = self.level(request.pid).unwrap_or(0);
        if level < request.anonymous.saturating_add(ENOUGH_GROWTH) {
            return false;
        }
        self.record(request, Map::new());
        true
    }

    fn record(&self, request: &Request, mut evidence: Map) {
        evidence.insert("resource", "host");
        evidence.insert("pid", i64::from(request.pid));
        evidence.insert("is_python", Value::Bool(request.is_python));
        let now = Mappings::read(Path::new("/proc"), request.pid);
        let level = self.level(request.pid);
        if let (Some(before), Some(now), Some(level)) = (&request.mappings, now, level) {
            let grown = now.grown_since(before);
            let total: u64 = grown.iter().map(|(_, bytes)| bytes).sum();
            let listed = grown.iter().take(MOST_MAPPINGS).map(|(name, bytes)| {
                let mut one = Map::new();
                one.insert("name", &**name);
                one.insert("grown_bytes", signed(*bytes));
                Value::Map(one)
            });
            evidence.insert("mappings", Value::List(listed.collect()));
            evidence.insert("mapped_bytes", signed(total));
            let anonymous = level.saturating_sub(request.anonymous);
            evidence.insert("anonymous_bytes", signed(anonymous));
            let seconds = request.since.elapsed().as_secs_f64();
            evidence.insert("mapped_seconds", Value::Float(seconds));
        }
        let mut metadata = Map::new();
        metadata.insert(metadata_keys::EVIDENCE, Value::Map(evidence));
        let context = format!("looked at process {}", request.pid);
        self.recorder.record(EVENT, 0, &context, metadata);
    }

    /// Records the host out-of-memory errors that a process caught; an error is recorded only when
    /// it is at least `after` old.
    fn take_survived(&self, after: Duration) {
        for (path, error) in inbox::survived(&self.inbox) {
            let age = now_ns().saturating_sub(error.time_ns);
            if u128::from(age.unsigned_abs()) < after.as_nanos() {
                continue;
            }
            let _ = fs::remove_file(path);
            if let Some(reason) = oom_reason(&error.facts()) {
                let mut request = error.failed_request();
                request.insert("caught", Value::Bool(true));
                self.recorder.record_oom(&reason, request);
            }
        }
    }

    /// Withdraws requests that were not answered in time, or whose process has ended.
    fn drop_late(&mut self) {
        for request in std::mem::take(&mut self.open) {
            let lives = self.level(request.pid).is_some();
            if request.since.elapsed() > PATIENCE || !lives {
                let _ = fs::remove_file(self.request(request.pid));
            } else {
                self.open.push(request);
            }
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
