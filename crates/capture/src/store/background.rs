//! A sink with a bounded queue and its own writing thread, so that recording never waits for a
//! disk.

mod thread;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use stormlog_format::{Event, SessionStatus, SessionSummary};

use self::thread::write_in_background;
use super::config::SinkConfig;
use super::diagnostics::Diagnostics;
use super::fork::{self, HAND_OVER_PATIENCE, Holder};
use super::writer::Writer;
use crate::memory::is_short;
use crate::mutex::lock;

/// How many events may wait for the writing thread by default. At about half a kilobyte for each
/// event, a full queue takes some four megabytes.
pub const DEFAULT_QUEUE_CAPACITY: usize = 8192;

/// A sink that writes the events of one session to a directory, from a queue and on its own thread,
/// so that the caller never waits for a disk.
#[derive(Debug)]
pub struct BackgroundSink {
    pid: u32,
    shared: Arc<Shared>,
}

/// What a [`BackgroundSink`] has written, dropped and failed to write so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkStatus {
    /// The directory of the sink: the requested one, or one beside it if another process uses the
    /// requested one; `None` until a directory could be opened.
    pub directory: Option<PathBuf>,
    /// The status of the session. Until the sink is finished, the status is `Running` if all events
    /// are recorded, and `Incomplete` if events are missing or cannot be written.
    pub session_status: SessionStatus,
    /// The number of events that were written to segments or still wait to be written.
    pub recorded_events: u64,
    /// The number of dropped events: the queue or the writer's buffer was full, or the events were
    /// not yet written when the sink ended.
    pub dropped_events: u64,
    /// Why events cannot be written to disk at the moment; `None` when they can.
    pub problem: Option<String>,
    /// Whether the session has ended and its files are closed.
    pub is_finished: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The writer of the sink, which only the writing thread uses; it is a field of the shared
    /// state so that a forked child can release it.
    writer: Mutex<Option<Writer>>,
    /// Wakes the writing thread when there are events to write, or when a flush or the end of the
    /// session is requested.
    wake: Condvar,
    /// Wakes threads that wait for a flush or for the end of the session.
    done: Condvar,
    capacity: usize,
    /// The number of waiting events at which the writing thread is woken; fewer events wait until
    /// the thread wakes up by itself.
    batch: usize,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Event>,
    session: SessionSummary,
    directory: Option<PathBuf>,
    recorded_events: u64,
    /// The number of events that were dropped because the queue was full and that the writing
    /// thread does not know of yet.
    overflow: u64,
    /// The number of events that were dropped for another reason than a full queue.
    dropped_events: u64,
    problem: Option<String>,
    diagnostics: Diagnostics,
    notices: Vec<String>,
    /// How many flushes were requested so far; `flushes_done` counts the finished ones.
    flushes_wanted: u64,
    flushes_done: u64,
    finish: Option<SessionStatus>,
    /// Whether another sink of this process was opened on the same directory, which ends this
    /// session.
    is_taken_over: bool,
    is_finished: bool,
}

impl BackgroundSink {
    /// Starts the sink and never fails: a problem shows in the [`status`](Self::status), and the
    /// sink tries again.
    pub fn start(config: SinkConfig, session: SessionSummary) -> Self {
        Self::with_capacity(config, session, DEFAULT_QUEUE_CAPACITY)
    }

    /// Starts the sink like [`start`](Self::start), with a queue for the given number of events.
    pub fn with_capacity(config: SinkConfig, session: SessionSummary, capacity: usize) -> Self {
        let batch = usize::try_from(config.flush_every_events).unwrap_or(usize::MAX);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                session: session.clone(),
                directory: None,
                recorded_events: 0,
                overflow: 0,
                dropped_events: 0,
                problem: None,
                diagnostics: Diagnostics::default(),
                notices: Vec::new(),
                flushes_wanted: 0,
                flushes_done: 0,
                finish: None,
                is_taken_over: false,
                is_finished: false,
            }),
            writer: Mutex::new(None),
            wake: Condvar::new(),
            done: Condvar::new(),
            capacity: capacity.max(1),
            batch: batch.clamp(1, (capacity / 2).max(1)),
        });
        let weak = Arc::downgrade(&shared);
        fork::register(weak);
        let thread_shared = Arc::clone(&shared);
        let write = move || write_in_background(&thread_shared, config, session);
        if let Err(error) = crate::thread::start("stormlog-store", write) {
            let problem = format!("cannot start a thread to write events: {error}");
            let mut state = lock(&shared.state);
            state.notices.push(problem.clone());
            state.problem = Some(problem);
            state.is_finished = true;
        }
        Self {
            pid: fork::process_id(),
            shared,
        }
    }

    /// Queues an event; returns false when the event was dropped because the queue is full, the
    /// session has ended, or this process is a forked child. The call holds a lock only while it
    /// adds the event to the queue, and it never waits for a disk.
    pub fn record(&self, event: Event) -> bool {
        if self.is_foreign() {
            return false;
        }
        let mut state = lock(&self.shared.state);
        if state.is_finished || state.finish.is_some() {
            return false;
        }
        if state.queue.len() >= self.shared.capacity || is_short() {
            state.overflow += 1;
            return false;
        }
        state.queue.push_back(event);
        if state.queue.len() == self.shared.batch {
            self.shared.wake.notify_one();
        }
        true
    }

    /// The current state of the sink. In a forked child the sink is finished, because only the
    /// parent records.
    pub fn status(&self) -> SinkStatus {
        if self.is_foreign() {
            return SinkStatus {
                directory: None,
                session_status: SessionStatus::Interrupted,
                recorded_events: 0,
                dropped_events: 0,
                problem: Some("this process is a forked child; only its parent records".into()),
                is_finished: true,
            };
        }
        lock(&self.shared.state).status()
    }

    /// The current summary of the session; its status is `incomplete` as soon as events are
    /// missing.
    pub fn session(&self) -> Option<SessionSummary> {
        if self.is_foreign() {
            return None;
        }
        let state = lock(&self.shared.state);
        let mut session = state.session.clone();
        if !state.is_finished {
            session.status = state.status().session_status;
        }
        Some(session)
    }

    /// How many times the sink started a new segment, how many segments and bytes it deleted, and
    /// how many segments and bytes remain.
    pub fn diagnostics(&self) -> Diagnostics {
        if self.is_foreign() {
            return Diagnostics::default();
        }
        lock(&self.shared.state).diagnostics
    }

    /// Removes and returns the log messages of the sink that were not fetched yet. Each problem is
    /// one message, when it begins.
    pub fn take_notices(&self) -> Vec<String> {
        if self.is_foreign() {
            return Vec::new();
        }
        std::mem::take(&mut lock(&self.shared.state).notices)
    }

    /// Waits until all events recorded so far are on disk; returns false when that took longer than
    /// `patience`.
    pub fn flush(&self, patience: Duration) -> bool {
        if self.is_foreign() {
            return false;
        }
        let mut state = lock(&self.shared.state);
        state.flushes_wanted += 1;
        let wanted = state.flushes_wanted;
        self.shared.wake.notify_one();
        self.shared.wait_for(state, patience, |state| {
            state.flushes_done >= wanted || state.is_finished
        });
        let state = lock(&self.shared.state);
        state.flushes_done >= wanted && state.problem.is_none()
    }

    /// Ends the session with the given status, and waits at most `patience` for the disk. The
    /// status `Completed` becomes `Incomplete` when events are missing. Returns the final state.
    pub fn finish(&self, status: SessionStatus, patience: Duration) -> SinkStatus {
        if !self.is_foreign() {
            let mut state = lock(&self.shared.state);
            state.finish.get_or_insert(status);
            self.shared.wake.notify_one();
            self.shared
                .wait_for(state, patience, |state| state.is_finished);
        }
        self.status()
    }

    /// Whether this process is a forked child of the process that started the sink. A forked child
    /// does not use the sink, because a thread that only the parent has may hold the sink's lock.
    fn is_foreign(&self) -> bool {
        self.pid != fork::process_id()
    }
}

impl Drop for BackgroundSink {
    /// A sink that is dropped without [`finish`](Self::finish) writes the queued events and marks
    /// the session as interrupted. In a forked child, nothing happens.
    fn drop(&mut self) {
        if self.is_foreign() {
            // The parent may have been changing the event queue during the fork, so the child must
            // not free the queue.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        let mut state = lock(&self.shared.state);
        state.finish.get_or_insert(SessionStatus::Interrupted);
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn wait_for(
        &self,
        state: MutexGuard<'_, State>,
        patience: Duration,
        is_done: impl Fn(&State) -> bool,
    ) {
        let waits = |state: &mut State| !is_done(state);
        let _ = self.done.wait_timeout_while(state, patience, waits);
    }
}

impl Holder for Shared {
    fn abandon(&self) {
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = None;
        }
    }

    fn hand_over(&self) {
        let mut state = lock(&self.state);
        if state.is_finished {
            return;
        }
        state.is_taken_over = true;
        state.finish.get_or_insert(SessionStatus::Interrupted);
        self.wake.notify_one();
        self.wait_for(state, HAND_OVER_PATIENCE, |state| state.is_finished);
    }
}

impl State {
    fn status(&self) -> SinkStatus {
        let dropped_events = self.dropped_events + self.overflow;
        let session_status = if self.is_finished {
            self.session.status
        } else if dropped_events > 0 || self.problem.is_some() {
            SessionStatus::Incomplete
        } else {
            SessionStatus::Running
        };
        SinkStatus {
            directory: self.directory.clone(),
            session_status,
            recorded_events: self.recorded_events,
            dropped_events,
            problem: self.problem.clone(),
            is_finished: self.is_finished,
        }
    }
}
