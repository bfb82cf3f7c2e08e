//! The thread that writes the events of a [`BackgroundSink`](super::BackgroundSink).

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use stormlog_format::{Event, SessionStatus, SessionSummary};

use super::Shared;
use crate::clock::now_ns;
use crate::mutex::lock;
use crate::process::own_identity;
use crate::store::config::SinkConfig;
use crate::store::error::SinkError;
use crate::store::fork::Holder;
use crate::store::thinning::thinner::Thinner;
use crate::store::writer::{Flush, Writer, taken_over};

/// The longest time that the writing thread sleeps before it empties the queue again. A killed
/// process loses the events in the queue, but not those that were written to a file, even if the
/// file is not on disk yet.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// The shortest time for which the writing thread sleeps after it has emptied the queue.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);

/// How long the writing thread tries to end a session on a disk that accepts no writes; the
/// program's exit is delayed by at most this time.
const LAST_TRIES: Duration = Duration::from_millis(200);

/// How long to wait before opening a sink is tried again after a failure.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What the writing thread learns when it empties the queue: how many events were dropped because
/// the queue was full, how many flushes were requested so far, and the status with which the
/// session shall end, if its end was requested.
struct Work {
    overflow: u64,
    flushes_wanted: u64,
    finish: Option<SessionStatus>,
}

/// The state of the writing thread, which takes events from the queue, writes them to the directory
/// of the sink, and reports the counts and errors.
struct Thread<'a> {
    shared: &'a Arc<Shared>,
    config: SinkConfig,
    session: SessionSummary,
    open_again: Instant,
    /// Events that were taken from the queue and not yet passed to the writer.
    waiting: VecDeque<Event>,
    recorded_events: u64,
    /// The number of dropped events that no writer has counted yet, because none was open.
    unreported_drops: u64,
    flushes_done: u64,
    problem: Option<String>,
    /// The last problem that was reported as a notice.
    reported_problem: Option<String>,
    was_taken_over: bool,
    thinner: Thinner,
}

/// The main function of the writing thread, which returns when the session has ended.
pub(super) fn write_in_background(
    shared: &Arc<Shared>,
    config: SinkConfig,
    session: SessionSummary,
) {
    let mut thread = Thread {
        shared,
        config,
        session,
        open_again: Instant::now(),
        waiting: VecDeque::new(),
        recorded_events: 0,
        unreported_drops: 0,
        flushes_done: 0,
        problem: None,
        reported_problem: None,
        was_taken_over: false,
        thinner: Thinner::default(),
    };
    let mut sleep = Duration::ZERO;
    loop {
        let work = thread.take_work(sleep);
        sleep = thread.write(&work);
        if work.finish.is_none() {
            sleep = thread.thin().map_or(sleep, |pause| pause.min(sleep));
        }
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
    /// Waits at most `sleep` for events or requests. Then takes all events from the queue and
    /// returns the requests.
    fn take_work(&mut self, sleep: Duration) -> Work {
        let mut state = lock(&self.shared.state);
        let is_idle = state.queue.len() < self.shared.batch
            && state.finish.is_none()
            && state.flushes_wanted == self.flushes_done;
        if is_idle && !sleep.is_zero() {
            let waited = self.shared.wake.wait_timeout(state, sleep);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.waiting.append(&mut state.queue);
        self.was_taken_over |= state.is_taken_over;
        Work {
            overflow: std::mem::take(&mut state.overflow),
            flushes_wanted: state.flushes_wanted,
            finish: state.finish,
        }
    }

    /// Passes all waiting events to the writer and flushes if that was requested; returns how long
    /// the writing thread may sleep.
    fn write(&mut self, work: &Work) -> Duration {
        self.unreported_drops += work.overflow;
        let mut writer = lock(&self.shared.writer);
        self.open(&mut writer);
        let Some(writer) = &mut *writer else {
            self.drop_what_is_too_much();
            self.flushes_done = work.flushes_wanted;
            return OPEN_AGAIN_AFTER.min(LONGEST_SLEEP);
        };
        writer.count_dropped(std::mem::take(&mut self.unreported_drops));
        for event in self.waiting.drain(..) {
            let appended = writer
                .enter_session(Some(event.session_id.as_bytes()))
                .and_then(|()| writer.append_event(&event));
            match appended {
                // An event that could not be written yet stays in the writer's buffer, so it counts
                // as recorded.
                Ok(()) | Err(SinkError::Io { .. }) => self.recorded_events += 1,
                Err(SinkError::BufferFull { .. }) => {}
                Err(SinkError::TakenOver { .. }) => self.was_taken_over = true,
                Err(_) => writer.count_dropped(1),
            }
        }
        if work.flushes_wanted > self.flushes_done {
            // The writer keeps the error of a failed flush, and the error is reported with the
            // writer's other failures.
            let _ = writer.flush(Flush::Now);
            self.flushes_done = work.flushes_wanted;
        }
        let _ = writer.write_early();
        writer.tick().unwrap_or_default().sync();
        writer.end_sync();
        self.problem = writer.failure().map(str::to_owned);
        writer.idle_for().clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    /// Performs one short part of the thinning; returns how long to wait before the next part, or
    /// `None` when nothing is left to thin.
    fn thin(&mut self) -> Option<Duration> {
        let shared = self.shared;
        self.thinner.work(&mut |work| {
            if let Some(writer) = &mut *lock(&shared.writer) {
                work(writer);
            }
        })
    }

    /// Opens the sink and begins the session, unless opening failed less than [`OPEN_AGAIN_AFTER`]
    /// ago.
    fn open(&mut self, slot: &mut Option<Writer>) {
        if slot.is_some() || Instant::now() < self.open_again {
            return;
        }
        // Only sessions of a background sink contain the identity of their recorder, because the
        // manifest of a plain `Sink` has exactly the keys that stormlog 0.3.9 writes.
        let session = SessionSummary {
            recorder: own_identity(),
            ..self.session.clone()
        };
        let opened = Writer::open(self.config.clone()).and_then(|mut writer| {
            writer.start_session(Some(session))?;
            Ok(writer)
        });
        match opened {
            Ok(mut writer) => {
                writer.set_holder(Arc::downgrade(self.shared) as Weak<dyn Holder>);
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
        // When too many events wait, the oldest events are dropped, because users ask about the
        // latest events.
        self.waiting.drain(..too_many);
        self.unreported_drops += too_many as u64;
    }

    /// Ends the session with the given status. On a disk that accepts no writes, it tries for
    /// [`LAST_TRIES`] and then drops the buffered events.
    fn finish(mut self, status: SessionStatus) {
        let end = Instant::now() + LAST_TRIES;
        let mut slot = lock(&self.shared.writer);
        let directory = slot.as_ref().map(|writer| writer.directory().to_path_buf());
        self.thinner.stop(slot.as_mut());
        while let Some(writer) = &mut *slot {
            let is_complete = writer.missing_events() == 0;
            let status = match status {
                SessionStatus::Completed if !is_complete => SessionStatus::Incomplete,
                status => status,
            };
            match writer.close(status) {
                Ok(()) => self.session.status = status,
                Err(_) if Instant::now() < end => {
                    std::thread::sleep(LAST_TRIES / 4);
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
            self.unreported_drops += self.waiting.len() as u64;
            self.session.status = SessionStatus::Incomplete;
        }
        if self.was_taken_over {
            self.session.status = SessionStatus::Interrupted;
            let directory = directory.as_deref();
            self.problem = Some(taken_over(directory.unwrap_or(&self.config.root_dir)));
        }
        self.session.ended_at_ns = Some(now_ns());
        drop(slot);
        self.report();
        // Dropping the writer closes the files and releases the directory.
        *lock(&self.shared.writer) = None;
        let mut state = lock(&self.shared.state);
        state.session = self.session;
        state.is_finished = true;
        self.shared.done.notify_all();
    }

    fn report(&mut self) {
        let mut writer = lock(&self.shared.writer);
        let mut state = lock(&self.shared.state);
        // A disk that fails again and again for the same reason is reported once.
        let begins = state.problem.is_none() || self.was_taken_over;
        if begins && self.problem.is_some() && self.problem != self.reported_problem {
            self.reported_problem.clone_from(&self.problem);
            state.notices.extend(self.problem.clone());
        }
        state.recorded_events = self.recorded_events;
        state.problem.clone_from(&self.problem);
        state.flushes_done = self.flushes_done;
        state.dropped_events = self.unreported_drops;
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
