//! The way from the recorder to the disk: a queue that never blocks and one thread behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use stormlog_format::{Event, SessionStatus, SessionSummary};

use super::event::{Origin, TrackedEvent};

/// Events that may wait for the disk. With the usual kilobyte of an event this is the bound
/// on memory that a dead disk can cost: some tens of megabytes.
const QUEUE: usize = 1 << 15;

/// How long the end of a session waits for what is still to be written.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// How often the store is asked to look at its clock.
const TICK: Duration = Duration::from_millis(500);

/// Five numbers that tell what a store did with its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the keys of the statistics")]
pub struct StoreDiagnostics {
    pub rollover_count: u64,
    pub pruned_segment_count: u64,
    pub pruned_bytes: u64,
    pub final_retained_files: u64,
    pub final_retained_bytes: u64,
}

/// Where events are kept for good. Only the writer's thread calls it, so it may wait.
pub trait EventStore: Send {
    /// Begins a session.
    fn start(&mut self, session: &SessionSummary) -> Result<(), String>;
    /// Takes an event.
    fn append(&mut self, event: &Event) -> Result<(), String>;
    /// Writes what is due, or everything.
    fn flush(&mut self, force: bool) -> Result<(), String>;
    /// Takes note of events that never came here because the queue was full.
    fn note_dropped(&mut self, count: u64);
    /// Ends the session.
    fn close(&mut self, status: SessionStatus) -> Result<(), String>;
    /// What became of the files.
    fn diagnostics(&self) -> StoreDiagnostics;
}

enum Message {
    Event(Arc<TrackedEvent>),
    Flush,
    Close {
        status: SessionStatus,
        done: SyncSender<Closed>,
    },
}

/// How the store ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed {
    pub(crate) diagnostics: StoreDiagnostics,
    pub(crate) failure: Option<String>,
}

/// The recorder's end of the queue.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

impl Writer {
    /// Starts the thread that writes to a store.
    pub(crate) fn start(
        store: Box<dyn EventStore>,
        session: SessionSummary,
        origin: Origin,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let desk = Desk {
            store,
            origin,
            failure: None,
            dropped: dropped.clone(),
        };
        thread::Builder::new()
            .name("stormlog-writer".into())
            .spawn(move || desk.work(&waiting, &session))?;
        Ok(Self { queue, dropped })
    }

    /// Hands an event over; when the queue is full it is counted and lost.
    pub(crate) fn push(&self, event: Arc<TrackedEvent>) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Event(event)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks for everything to be written soon.
    pub(crate) fn flush(&self) {
        let _ = self.queue.try_send(Message::Flush);
    }

    /// Ends the session; nothing when the disk did not answer in time, which leaves the
    /// thread to finish on its own.
    pub(crate) fn close(self, status: SessionStatus) -> Option<Closed> {
        let (done, answer) = sync_channel(1);
        let mut message = Message::Close { status, done };
        let mut patience = CLOSE_PATIENCE;
        let pause = Duration::from_millis(5);
        loop {
            match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) if !patience.is_zero() => {
                    message = back;
                    patience = patience.saturating_sub(pause);
                    thread::sleep(pause);
                }
                Err(_) => return None,
            }
        }
        answer.recv_timeout(CLOSE_PATIENCE).ok()
    }
}

/// The writer's thread.
struct Desk {
    store: Box<dyn EventStore>,
    origin: Origin,
    failure: Option<String>,
    dropped: Arc<AtomicU64>,
}

impl Desk {
    fn work(mut self, waiting: &Receiver<Message>, session: &SessionSummary) {
        self.try_to(|store, _| store.start(session));
        loop {
            match waiting.recv_timeout(TICK) {
                Ok(Message::Event(event)) => {
                    self.try_to(|store, origin| store.append(&event.to_event(origin)));
                }
                Ok(Message::Flush) => self.try_to(|store, _| store.flush(true)),
                Err(RecvTimeoutError::Timeout) => self.try_to(|store, _| store.flush(false)),
                Ok(Message::Close { status, done }) => {
                    let _ = done.try_send(self.close(status));
                    return;
                }
                // The recorder is gone without a word: what is there is kept, and the session
                // stays open for the next start to mark as interrupted.
                Err(RecvTimeoutError::Disconnected) => {
                    self.try_to(|store, _| store.flush(true));
                    return;
                }
            }
        }
    }

    fn close(&mut self, status: SessionStatus) -> Closed {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            self.store.note_dropped(dropped);
        }
        let complete = self.failure.is_none() && dropped == 0;
        let status = match status {
            SessionStatus::Completed if !complete => SessionStatus::Incomplete,
            status => status,
        };
        self.try_to(|store, _| store.close(status));
        Closed {
            diagnostics: self.store.diagnostics(),
            failure: self.failure.take(),
        }
    }

    /// Does something with the store; the first failure is remembered, work goes on.
    fn try_to(&mut self, action: impl FnOnce(&mut dyn EventStore, &Origin) -> Result<(), String>) {
        if let Err(error) = action(&mut *self.store, &self.origin) {
            self.failure.get_or_insert(error);
        }
    }
}
