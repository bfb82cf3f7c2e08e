//! A sink whose functions may be called on any thread. A [`Sink`] flushes on a thread of its own
//! and is safe across a fork.
//!
//! A forked child releases its copy of the parent's sink ([`super::fork`]) and records into a sink
//! of its own.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use stormlog_format::rollup::Observation;
use stormlog_format::{Event, SessionStatus, SessionSummary};

use super::config::SinkConfig;
use super::diagnostics::Diagnostics;
use super::error::SinkError;
use super::fork::{self, HAND_OVER_PATIENCE, Holder};
use super::thinning::thinner::Thinner;
use super::writer::{Flush, Writer};
use crate::mutex::lock;
use crate::thread;

/// Stores events in a directory: in segments, which are files with one event per line, and a
/// manifest, which lists the segments and sessions.
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    life: Life,
}

/// The state of a sink in one process; each forked child makes a state of its own.
#[derive(Debug)]
struct Life {
    pid: u32,
    shared: Arc<Shared>,
    child: OnceLock<Box<Life>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    writer: Option<Writer>,
    /// Whether the flushing thread is running, which writes buffered events when a flush is due.
    has_thread: bool,
    /// Whether the flushing thread sleeps until the next flush is due.
    is_asleep: bool,
    /// Whether the flushing thread must end.
    stop: bool,
}

/// The least time that the flushing thread sleeps between two flushes, even when the next flush is
/// due.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);

impl Holder for Shared {
    fn abandon(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.writer = None;
            state.has_thread = false;
        }
    }

    fn hand_over(&self) {
        let end = Instant::now() + HAND_OVER_PATIENCE;
        loop {
            // Another thread may hold the lock of the sink's state while it waits for the current
            // thread, so the current thread does not wait for the lock.
            match self.state.try_lock() {
                Ok(mut state) => {
                    state.writer.iter_mut().for_each(Writer::hand_over);
                    return;
                }
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return,
            }
        }
    }
}

impl Life {
    fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let weak = Arc::downgrade(&shared);
        fork::register(weak);
        Self {
            pid: fork::process_id(),
            shared,
            child: OnceLock::new(),
        }
    }
}

impl Sink {
    /// Opens a sink on its directory, which is created when it is missing. When another process
    /// records into the directory, the sink uses a sibling directory and adds a log message
    /// ([`take_notices`](Self::take_notices)).
    pub fn open(config: SinkConfig) -> Result<Self, SinkError> {
        let sink = Self {
            config,
            life: Life::new(),
        };
        sink.with_writer(|_| Ok(()))?;
        Ok(sink)
    }

    /// Makes a session the active one and returns the active session. If a session is already
    /// active, it stays the active one.
    pub fn start_session(
        &self,
        summary: Option<SessionSummary>,
    ) -> Result<SessionSummary, SinkError> {
        self.with_writer(|writer| writer.start_session(summary))
    }

    /// The session that the sink records at the moment; `None` when there is none.
    pub fn current_session(&self) -> Option<SessionSummary> {
        self.look(|writer| writer.current_session().cloned())
            .flatten()
    }

    /// Appends an event of the active session. If no session is active, the session of the event
    /// begins.
    pub fn append(&self, event: &Event) -> Result<(), SinkError> {
        self.with_writer(|writer| {
            writer.enter_session(Some(event.session_id.as_bytes()))?;
            writer.append_event(event)
        })
    }

    /// Appends a record to the given session or the active one; the record is a line of JSON with
    /// sorted keys, without a newline. Session ids are passed as the bytes of
    /// [`Text`](stormlog_format::Text). Without an `observation`, the line is parsed for the
    /// rollups; a given `observation` must be made from the line.
    pub fn append_line(
        &self,
        session_id: Option<&[u8]>,
        line: &str,
        observation: Option<Observation>,
    ) -> Result<(), SinkError> {
        self.with_writer(|writer| {
            writer.enter_session(session_id)?;
            writer.append(line, observation)
        })
    }

    /// Appends a line like [`append_line`](Self::append_line) if that needs no I/O and no waiting;
    /// otherwise returns false and does nothing. Callers that hold a lock which other threads need,
    /// such as Python's interpreter lock, use this function.
    pub fn append_line_at_once(
        &self,
        session_id: Option<&[u8]>,
        line: &str,
        observation: &mut Option<Observation>,
    ) -> bool {
        let here = self.existing_life();
        let Some(Ok(mut state)) = here.map(|here| here.shared.state.try_lock()) else {
            return false;
        };
        let has_thread = state.has_thread;
        let writer = state.writer.as_mut().filter(|_| has_thread);
        writer.is_some_and(|writer| writer.buffer_only(session_id, line, observation))
    }

    /// Checks that the session of a record is the active session; begins the record's session when
    /// none is active.
    pub fn enter_session(&self, session_id: Option<&[u8]>) -> Result<(), SinkError> {
        self.with_writer(|writer| writer.enter_session(session_id))
    }

    /// Writes buffered lines if a flush is due, or always when `force` is set. A forced flush waits
    /// for the disk.
    pub fn flush(&self, force: bool) -> Result<(), SinkError> {
        let flush = if force { Flush::Now } else { Flush::IfDue };
        self.look(|writer| writer.flush(flush)).unwrap_or(Ok(()))
    }

    /// Flushes the sink, closes its segment and ends the active session. After
    /// [`close`](Self::close), the sink can be used again.
    pub fn close(&self, status: SessionStatus) -> Result<(), SinkError> {
        self.look(|writer| writer.close(status)).unwrap_or(Ok(()))
    }

    /// Writes buffered lines and closes the segment; the session continues in a new segment.
    pub fn seal(&self) -> Result<(), SinkError> {
        self.look(Writer::seal).unwrap_or(Ok(()))
    }

    /// How many times the sink started a new segment, how many segments and bytes it deleted, and
    /// how many segments and bytes remain.
    pub fn diagnostics(&self) -> Diagnostics {
        self.look(|writer| writer.diagnostics()).unwrap_or_default()
    }

    /// The directory of the sink: the requested one, or the sibling that is used instead.
    pub fn directory(&self) -> PathBuf {
        self.look(|writer| writer.directory().to_path_buf())
            .unwrap_or_else(|| self.config.root_dir.clone())
    }

    /// Removes and returns the log messages of the sink that were not fetched yet.
    pub fn take_notices(&self) -> Vec<String> {
        self.look(Writer::take_notices).unwrap_or_default()
    }

    /// The state of the sink in this process; a forked child gets a new state.
    fn life(&self) -> &Life {
        let pid = fork::process_id();
        let mut life = &self.life;
        while life.pid != pid {
            life.shared.abandon();
            life = life.child.get_or_init(|| Box::new(Life::new()));
        }
        life
    }

    /// The state of the sink in this process; `None` in a forked child that has not used the sink
    /// yet.
    fn existing_life(&self) -> Option<&Life> {
        let pid = fork::process_id();
        let mut life = &self.life;
        while life.pid != pid {
            life = life.child.get()?;
        }
        Some(life)
    }

    /// Calls a function with the writer of the sink, if this process has one.
    fn look<R>(&self, work: impl FnOnce(&mut Writer) -> R) -> Option<R> {
        let mut state = lock(&self.existing_life()?.shared.state);
        state.writer.as_mut().map(work)
    }

    /// Calls a function with the writer of the sink; the writer is opened if this process has none.
    fn with_writer<R>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<R, SinkError>,
    ) -> Result<R, SinkError> {
        let shared = &self.life().shared;
        let mut state = lock(&shared.state);
        if state.writer.is_none() {
            let mut writer = Writer::open(self.config.clone())?;
            writer.set_holder(Arc::downgrade(shared) as Weak<dyn Holder>);
            state.writer = Some(writer);
        }
        let Some(writer) = &mut state.writer else {
            return Err(SinkError::TakenOver {
                directory: self.config.root_dir.clone(),
            });
        };
        let result = work(writer);
        let (is_at_rest, is_behind) = (writer.is_at_rest(), writer.is_behind());
        if !is_at_rest && !state.has_thread {
            state.has_thread = start_thread(shared);
        } else if is_behind && state.is_asleep {
            state.is_asleep = false;
            shared.wake.notify_one();
        }
        result
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let Some(life) = self.existing_life() else {
            // The process is a forked child that never used the sink. If a thread of the parent was
            // using the sink during the fork, the sink's memory is in an unknown state and is not
            // freed.
            if self.life.shared.state.try_lock().is_err() {
                std::mem::forget(Arc::clone(&self.life.shared));
            }
            return;
        };
        let mut state = lock(&life.shared.state);
        state.stop = true;
        life.shared.wake.notify_one();
        if let Some(mut writer) = state.writer.take() {
            // No caller can get an error when the sink is dropped; lines that cannot be written now
            // are lost.
            let _ = writer.flush(Flush::Now);
            // The state is unlocked before the wait, because the flushing thread needs it to end.
            drop(state);
            writer.wait_for_replaced_segments();
        }
    }
}

/// Starts the flushing thread; if that fails, each append flushes when a flush is due.
fn start_thread(shared: &Arc<Shared>) -> bool {
    let shared = Arc::clone(shared);
    thread::start("stormlog-sink", move || flush_in_background(&shared)).is_ok()
}

fn flush_in_background(shared: &Shared) {
    let mut thinner = Thinner::default();
    let mut state = lock(&shared.state);
    while let Some(writer) = state.writer.as_mut().filter(|writer| !writer.is_at_rest()) {
        // The writer keeps the error of a failed flush and knows when to try the flush again.
        let unsynced = writer.tick().unwrap_or_default();
        let mut sleep = writer.idle_for().max(SHORTEST_SLEEP);
        let thins = writer.thins();
        if !thins && unsynced.is_empty() {
            // If the next flush is due soon, the flushing thread wakes up by itself and needs no
            // signal.
            state.is_asleep = !writer.is_behind();
        } else {
            drop(state);
            unsynced.sync();
            if thins {
                let pause = thinner.work(&mut |work| {
                    if let Some(writer) = &mut lock(&shared.state).writer {
                        work(writer);
                    }
                });
                sleep = pause.map_or(sleep, |pause| sleep.min(pause));
            }
            state = lock(&shared.state);
            if let Some(writer) = &mut state.writer {
                writer.end_sync();
            }
        }
        if state.stop {
            break;
        }
        if sleep.is_zero() {
            continue;
        }
        let waited = shared.wake.wait_timeout(state, sleep);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.is_asleep = false;
        if state.stop {
            break;
        }
    }
    thinner.stop(state.writer.as_mut());
    state.has_thread = false;
}
