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
use stormlog_capture::collect::tree::{Level, Levels};
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

/// The shortest time between the end of an inspection and the next request to the same process. It
/// doubles with each inspection, up to `LONGEST_PAUSE`, or `LONGEST_PAUSE_SETTLED` once the answers
/// name what grows.
const PAUSE: Duration = Duration::from_secs(8);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE_SETTLED: Duration = Duration::from_mins(10);

/// The processor time that inspections may take in a process: `START_BUDGET`, and 1 / `BUDGET` of
/// the time since the first request. A single inspection takes up to 300 ms.
const START_BUDGET: Duration = Duration::from_millis(300);
const BUDGET: u32 = 100;

/// The largest numbers of inspection requests: to all processes together, and open at one time.
const MOST_OF_RUN: u32 = 256;
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
    /// The processes that were inspected so far.
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

/// The inspections of one process so far.
struct Asked {
    pid: u32,
    first: Instant,
    /// When the last request was sent or, once it is answered, when it was answered.
    last: Instant,
    times: u32,
    /// The processor time that all finished inspections took, and the last one alone.
    cost: Duration,
    last_cost: Duration,
    /// Whether the last answer of the process named the container that grows.
    is_settled: bool,
    /// Whether it was recorded that the Python program in the process has ended.
    has_ended: bool,
}

impl Asked {
    /// Whether the process may be inspected again.
    fn is_due(&self, now: Instant) -> bool {
        let longest = if self.is_settled {
            LONGEST_PAUSE_SETTLED
        } else {
            LONGEST_PAUSE
        };
        let doublings = self.times.saturating_sub(1).min(16);
        let pause = PAUSE.saturating_mul(1 << doublings).min(longest);
        let since = |then: Instant| now.saturating_duration_since(then);
        let budget = START_BUDGET + since(self.first) / BUDGET;
        since(self.last) >= pause && self.cost + self.last_cost <= budget
    }
}

impl Work {
    fn look(&mut self, levels: &Receiver<Levels>) {
        let mut rising = Vec::new();
        for levels in levels.try_iter() {
            let unreclaimable = |one: &Level| (one.pid, one.anonymous.saturating_add(one.shared));
            let sums: Vec<(u32, u64)> = levels.iter().map(unreclaimable).collect();
            rising.extend(self.rising.observe(self.start.elapsed(), &sums));
            self.latest = levels;
        }
        for pid in rising {
            self.ask(pid);
        }
        self.take_answers();
        self.take_ends();
        self.take_survived(SURVIVED);
        self.drop_late();
    }

    /// Sends an inspection request to a process whose memory rises, unless the last inspection was
    /// too short a time ago or the run has already sent enough requests.
    fn ask(&mut self, pid: u32) {
        let now = Instant::now();
        let of_run = self.asked.iter().map(|one| one.times).sum::<u32>();
        let is_enough = self.open.len() >= MOST_OPEN
            || of_run >= MOST_OF_RUN
            || self.open.iter().any(|one| one.pid == pid)
            || self
                .asked
                .iter()
                .any(|one| one.pid == pid && !one.is_due(now));
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
        if let Some(asked) = self.asked.iter_mut().find(|one| one.pid == pid) {
            asked.times += 1;
            asked.last = now;
        } else {
            self.asked.push(Asked {
                pid,
                first: now,
                last: now,
                times: 1,
                cost: Duration::ZERO,
                last_cost: Duration::ZERO,
                is_settled: false,
                has_ended: false,
            });
        }
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
        let of_pid = self.latest.iter().find(|one| one.pid == pid);
        of_pid.map(|one| one.anonymous)
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
        // The process writes its answer before it removes the request, and removes the request
        // without an answer when its memory no longer grows.
        let is_over = !self.request(request.pid).exists();
        let Some(text) = inbox::read(&path) else {
            return is_over;
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
                asked.is_settled = answer.names_most();
                asked.last = Instant::now();
                if answer.is_final {
                    asked.last_cost = answer.cost();
                    asked.cost += asked.last_cost;
                }
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

    /// Records for the inspected processes when their Python programs end: the interpreter then frees
    /// all objects, and memory no longer grows.
    fn take_ends(&mut self) {
        for asked in self.asked.iter_mut().filter(|one| !one.has_ended) {
            if inbox::is_marked(&self.inbox, "ended", asked.pid) {
                asked.has_ended = true;
                let mut evidence = Map::new();
                evidence.insert("resource", "host");
                evidence.insert("pid", i64::from(asked.pid));
                evidence.insert("has_ended", Value::Bool(true));
                let mut metadata = Map::new();
                metadata.insert(metadata_keys::EVIDENCE, Value::Map(evidence));
                let context = format!("the program in process {} has ended", asked.pid);
                self.recorder.record(EVENT, 0, &context, metadata);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds after the first request at which a process is inspected again, when each
    /// inspection takes `cost_ms` of processor time, for `minutes` minutes.
    fn inspected_at(cost_ms: u64, minutes: u64, is_settled: bool) -> Vec<u64> {
        let first = Instant::now();
        let cost = Duration::from_millis(cost_ms);
        let mut asked = Asked {
            pid: 7,
            first,
            last: first,
            times: 1,
            cost,
            last_cost: cost,
            is_settled,
            has_ended: false,
        };
        let mut found = Vec::new();
        for second in 0..minutes * 60 {
            let now = first + Duration::from_secs(second);
            if asked.is_due(now) {
                found.push(second);
                asked.times += 1;
                asked.last = now;
                asked.cost += cost;
            }
        }
        found
    }

    #[test]
    fn a_process_is_inspected_as_long_as_its_memory_grows() {
        let found = inspected_at(40, 60, false);
        assert_eq!(found[..3], [8, 24, 56]);
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] <= 60));
        // Once the answers name what grows, later ones only confirm it.
        assert_eq!(inspected_at(40, 60, true).len(), 11);
    }

    #[test]
    fn costly_inspections_are_rare() {
        for cost_ms in [100, 280] {
            let spent = inspected_at(cost_ms, 60, false).len() as u64 * cost_ms;
            // One percent of a core for an hour, and 300 ms at the start.
            assert!(spent <= 36_000 + 300, "{cost_ms}: {spent}");
        }
    }
}
