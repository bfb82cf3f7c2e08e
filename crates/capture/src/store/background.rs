//! A sink behind a bounded queue and a thread of its own: recording never waits.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stormlog_format::rollup::Observation;
use stormlog_format::{Event, SessionStatus, SessionSummary};

use super::clock::now_ns;
use super::config::SinkConfig;
use super::diagnostics::Diagnostics;
use super::error::SinkError;
use super::fork::{self, Holder};
use super::writer::{CATCH_UP, Flush, Writer};

/// How many events may wait for the writing thread unless told otherwise; at about half a
/// kilobyte each, some four megabytes.
pub const DEFAULT_QUEUE_CAPACITY: usize = 8192;

/// The writing thread looks at the queue at least this often.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// It does not look more often than this.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);

/// How long it goes on trying to end a session on a disk that takes nothing.
const LAST_TRIES: Duration = Duration::from_secs(2);

/// After it could not be opened, a sink is left alone for this long.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Records events of one session without ever making the caller wait for a disk.
#[derive(Debug)]
pub struct BackgroundSink {
    pid: u32,
    shared: Arc<Shared>,
}

/// How a [`BackgroundSink`] is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkStatus {
    /// Where events go: the directory asked for, or the sibling that another process made
    /// us take. `None` until it could be opened.
    pub directory: Option<PathBuf>,
    /// What the session would be called if it ended now: `Running` while all is well,
    /// `Incomplete` once events are missing or cannot be written.
    pub session_status: SessionStatus,
    /// Events given to the sink's segments or waiting to be.
    pub recorded_events: u64,
    /// Events that could not be kept: the queue or the buffer was full, or they were not
    /// written when the sink ended.
    pub dropped_events: u64,
    /// Why nothing can be written at the moment.
    pub problem: Option<String>,
    /// Whether the session has ended.
    pub is_finished: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The writing thread's own, here so that a child can let go of it.
    writer: Mutex<Option<Writer>>,
    /// Wakes the writing thread.
    wake: Condvar,
    /// Wakes those who wait for it.
    done: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Event>,
    session: SessionSummary,
    directory: Option<PathBuf>,
    recorded_events: u64,
    /// Dropped because the queue was full; not yet told to the writing thread.
    overflow: u64,
    /// All others that were dropped.
    dropped_events: u64,
    problem: Option<String>,
    diagnostics: Diagnostics,
    notices: Vec<String>,
    /// Flushes asked for, and flushes done.
    flushes_wanted: u64,
    flushes_done: u64,
    finish: Option<SessionStatus>,
    is_finished: bool,
}

impl BackgroundSink {
    /// Starts recording a session. Nothing fails here: what goes wrong shows in the
    /// [`status`](Self::status) and is tried again.
    pub fn start(config: SinkConfig, session: SessionSummary) -> Self {
        Self::with_capacity(config, session, DEFAULT_QUEUE_CAPACITY)
    }

    /// The same with room for the given number of waiting events.
    pub fn with_capacity(config: SinkConfig, session: SessionSummary, capacity: usize) -> Self {
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
                is_finished: false,
            }),
            writer: Mutex::new(None),
            wake: Condvar::new(),
            done: Condvar::new(),
            capacity: capacity.max(1),
        });
        let weak = Arc::downgrade(&shared);
        fork::register(weak);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("stormlog-store".into());
        if let Err(error) = thread.spawn(move || write_in_background(&theirs, config, session)) {
            let mut state = shared.lock();
            state.problem = Some(format!("cannot start a thread to write events: {error}"));
            state.is_finished = true;
        }
        Self {
            pid: fork::process_id(),
            shared,
        }
    }

    /// Gives an event to the sink; false when it was dropped instead, because the queue is
    /// full, the session has ended, or this is a child of the process that records. Takes a
    /// lock for as long as a push takes, and never waits for a disk.
    pub fn record(&self, event: Event) -> bool {
        if self.is_foreign() {
            return false;
        }
        let mut state = self.shared.lock();
        if state.is_finished || state.finish.is_some() {
            return false;
        }
        if state.queue.len() >= self.shared.capacity {
            state.overflow += 1;
            return false;
        }
        state.queue.push_back(event);
        if state.queue.len() == 1 {
            self.shared.wake.notify_one();
        }
        true
    }

    /// How the sink is doing.
    pub fn status(&self) -> SinkStatus {
        if self.is_foreign() {
            return SinkStatus {
                directory: None,
                session_status: SessionStatus::Interrupted,
                recorded_events: 0,
                dropped_events: 0,
                problem: Some("recorded by the parent process".into()),
                is_finished: true,
            };
        }
        self.shared.lock().status()
    }

    /// The session as it stands, `incomplete` as soon as something of it is missing.
    pub fn session(&self) -> Option<SessionSummary> {
        if self.is_foreign() {
            return None;
        }
        let state = self.shared.lock();
        let mut session = state.session.clone();
        if !state.is_finished {
            session.status = state.status().session_status;
        }
        Some(session)
    }

    /// What was done to the segments.
    pub fn diagnostics(&self) -> Diagnostics {
        if self.is_foreign() {
            return Diagnostics::default();
        }
        self.shared.lock().diagnostics
    }

    /// Lines for a log that have not been taken yet.
    pub fn take_notices(&self) -> Vec<String> {
        if self.is_foreign() {
            return Vec::new();
        }
        std::mem::take(&mut self.shared.lock().notices)
    }

    /// Waits until everything recorded so far is on the disk; false when that did not
    /// happen in time.
    pub fn flush(&self, patience: Duration) -> bool {
        if self.is_foreign() {
            return false;
        }
        let mut state = self.shared.lock();
        state.flushes_wanted += 1;
        let wanted = state.flushes_wanted;
        self.shared.wake.notify_one();
        self.wait_for(state, patience, |state| {
            state.flushes_done >= wanted || state.is_finished
        });
        let state = self.shared.lock();
        state.flushes_done >= wanted && state.problem.is_none()
    }

    /// Ends the session with a status, waiting at most so long for the disk. `Completed`
    /// becomes `Incomplete` when events are missing. Gives the status at the end.
    pub fn finish(&self, status: SessionStatus, patience: Duration) -> SinkStatus {
        if !self.is_foreign() {
            let mut state = self.shared.lock();
            state.finish.get_or_insert(status);
            self.shared.wake.notify_one();
            self.wait_for(state, patience, |state| state.is_finished);
        }
        self.status()
    }

    /// Whether this is a child of the process that started the sink. A child touches
    /// nothing of it: the lock may be held by a thread that only the parent has.
    fn is_foreign(&self) -> bool {
        self.pid != fork::process_id()
    }

    fn wait_for(
        &self,
        mut state: MutexGuard<'_, State>,
        patience: Duration,
        is_done: impl Fn(&State) -> bool,
    ) {
        let end = Instant::now() + patience;
        while !is_done(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for BackgroundSink {
    /// Without [`finish`](Self::finish) the session was not ended by anybody: what is
    /// queued is written, and the session is interrupted.
    fn drop(&mut self) {
        if self.is_foreign() {
            // Freed in a child, a queue that the parent was just changing could be anything.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        let mut state = self.shared.lock();
        state.finish.get_or_insert(SessionStatus::Interrupted);
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder for Shared {
    fn abandon(&self) {
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = None;
        }
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

/// What the writing thread was asked for since it last looked.
struct Work {
    overflow: u64,
    flushes_wanted: u64,
    finish: Option<SessionStatus>,
}

/// The writing thread: takes what is queued, writes it, and tells how it went.
struct Thread<'a> {
    shared: &'a Shared,
    config: SinkConfig,
    session: SessionSummary,
    open_again: Instant,
    /// Taken from the queue, not yet given to the writer.
    waiting: VecDeque<Event>,
    recorded_events: u64,
    /// Dropped before there was a writer to count them.
    untold_drops: u64,
    flushes_done: u64,
    problem: Option<String>,
    was_taken_over: bool,
}

fn write_in_background(shared: &Shared, config: SinkConfig, session: SessionSummary) {
    let mut thread = Thread {
        shared,
        config,
        session,
        open_again: Instant::now(),
        waiting: VecDeque::new(),
        recorded_events: 0,
        untold_drops: 0,
        flushes_done: 0,
        problem: None,
        was_taken_over: false,
    };
    let mut sleep = Duration::ZERO;
    loop {
        let work = thread.take_work(sleep);
        sleep = thread.write(&work);
        let ended = work
            .finish
            .or_else(|| thread.was_taken_over.then_some(SessionStatus::Interrupted));
        if let Some(status) = ended {
            thread.finish(status);
            return;
        }
        thread.report();
    }
}

impl Thread<'_> {
    /// Waits until there is something to do, at most so long, and takes all of it.
    fn take_work(&mut self, sleep: Duration) -> Work {
        let mut state = self.shared.lock();
        let is_idle = state.queue.is_empty()
            && state.finish.is_none()
            && state.flushes_wanted == self.flushes_done;
        if is_idle && !sleep.is_zero() {
            let waited = self.shared.wake.wait_timeout(state, sleep);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.waiting.append(&mut state.queue);
        Work {
            overflow: std::mem::take(&mut state.overflow),
            flushes_wanted: state.flushes_wanted,
            finish: state.finish,
        }
    }

    /// Writes what waits; gives how long nothing needs to be done.
    fn write(&mut self, work: &Work) -> Duration {
        self.untold_drops += work.overflow;
        let mut writer = self.shared.writer();
        self.open(&mut writer);
        let Some(writer) = &mut *writer else {
            self.drop_what_is_too_much();
            self.flushes_done = work.flushes_wanted;
            return OPEN_AGAIN_AFTER.min(LONGEST_SLEEP);
        };
        writer.count_dropped(std::mem::take(&mut self.untold_drops));
        for event in self.waiting.drain(..) {
            let appended = writer
                .enter_session(Some(event.session_id.as_bytes()))
                .and_then(|()| writer.append(&event.to_line(), Some(Observation::of(&event))));
            match appended {
                // What could not be written yet stays in the writer's buffer.
                Ok(()) | Err(SinkError::Io { .. }) => self.recorded_events += 1,
                Err(SinkError::BufferFull { .. }) => {}
                Err(SinkError::TakenOver { .. }) => self.was_taken_over = true,
                Err(_) => writer.count_dropped(1),
            }
        }
        if work.flushes_wanted > self.flushes_done {
            // A failure is kept by the writer and reported with the rest.
            let _ = writer.flush(Flush::Now);
            self.flushes_done = work.flushes_wanted;
        }
        let unsynced = writer.tick().unwrap_or_default();
        for file in &unsynced {
            let _ = file.sync_data();
        }
        self.problem = writer.failure().map(str::to_owned);
        let shortest = if unsynced.is_empty() {
            SHORTEST_SLEEP
        } else {
            CATCH_UP
        };
        writer.idle_for().clamp(shortest, LONGEST_SLEEP)
    }

    /// Opens the sink and begins the session, unless that was just tried.
    fn open(&mut self, slot: &mut Option<Writer>) {
        if slot.is_some() || Instant::now() < self.open_again {
            return;
        }
        let opened = Writer::open(self.config.clone()).and_then(|mut writer| {
            writer.start_session(Some(self.session.clone()))?;
            Ok(writer)
        });
        match opened {
            Ok(writer) => {
                self.problem = None;
                *slot = Some(writer);
            }
            Err(error) => {
                self.problem = Some(error.to_string());
                self.open_again = Instant::now() + OPEN_AGAIN_AFTER;
            }
        }
    }

    fn drop_what_is_too_much(&mut self) {
        let too_many = self.waiting.len().saturating_sub(self.shared.capacity);
        // The oldest go: what happened last is what the user will ask for.
        self.waiting.drain(..too_many);
        self.untold_drops += too_many as u64;
    }

    /// Ends the session, whatever the disk says.
    fn finish(mut self, status: SessionStatus) {
        let end = Instant::now() + LAST_TRIES;
        let mut slot = self.shared.writer();
        while let Some(writer) = &mut *slot {
            let is_whole = writer.missing_events() == 0;
            let status = match status {
                SessionStatus::Completed if !is_whole => SessionStatus::Incomplete,
                status => status,
            };
            match writer.close(status) {
                Ok(()) => self.session.status = status,
                Err(_) if Instant::now() < end => {
                    std::thread::sleep(LAST_TRIES / 8);
                    continue;
                }
                Err(error) => {
                    self.problem = Some(error.to_string());
                    self.session.status = SessionStatus::Incomplete;
                    let _ = writer.give_up(SessionStatus::Incomplete);
                }
            }
            break;
        }
        if slot.is_none() {
            self.untold_drops += self.waiting.len() as u64;
            self.session.status = SessionStatus::Incomplete;
        }
        if self.was_taken_over {
            self.session.status = SessionStatus::Interrupted;
            self.problem = Some("another sink of this process has taken over".into());
        }
        self.session.ended_at_ns = Some(now_ns());
        drop(slot);
        self.report();
        // Closes the files and gives the directory free.
        *self.shared.writer() = None;
        let mut state = self.shared.lock();
        state.session = self.session;
        state.is_finished = true;
        self.shared.done.notify_all();
    }

    fn report(&self) {
        let mut writer = self.shared.writer();
        let mut state = self.shared.lock();
        state.recorded_events = self.recorded_events;
        state.problem.clone_from(&self.problem);
        state.flushes_done = self.flushes_done;
        state.dropped_events = self.untold_drops;
        if let Some(writer) = &mut *writer {
            state.notices.extend(writer.take_notices());
            state.dropped_events += writer.missing_events();
            state.diagnostics = writer.diagnostics();
            if state.directory.as_deref() != Some(writer.directory()) {
                state.directory = Some(writer.directory().to_path_buf());
            }
        }
        self.shared.done.notify_all();
    }
}
