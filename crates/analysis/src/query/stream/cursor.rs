//! Reads a chain of files in a thread of its own. A chain is a list of files of one source whose
//! events follow each other in time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use stormlog_format::Text;

use super::survey::{Home, stream};
use crate::columns::{ChunkBuilder, EventRef, Events};
use crate::damage::Damage;
use crate::load_error::LoadError;
use crate::query::catalog::{CatalogWarning, Source};
use crate::query::events::EventFilter;
use crate::query::payload::path_text;
use crate::query::store::Store;

/// A chain of files that a thread reads, with the events that the thread has sent.
pub(super) struct Cursor {
    pub(super) source: usize,
    pub(super) receiver: Receiver<Message>,
    /// Events that were read but not listed yet.
    pub(super) pending: BinaryHeap<Row>,
    pub(super) read: u64,
    pub(super) has_ended: bool,
    /// The session of the last listed event, so that a next event of the same session needs no
    /// lookup.
    pub(super) home: Option<Arc<Home>>,
}

pub(super) enum Message {
    Events(Arc<Events>),
    Damage(Vec<Damage>),
    Failed(PathBuf, LoadError),
}

/// An event that was read but not listed yet. Rows are ordered so that the earliest event is the
/// greatest, because the heap returns the greatest row first.
pub(super) struct Row {
    pub(super) timestamp_ns: i64,
    pub(super) index_in_chain: u64,
    events: Arc<Events>,
    index: usize,
}

impl Row {
    pub(super) fn event(&self) -> Option<EventRef<'_>> {
        self.events.get(self.index)
    }

    pub(super) fn session_id(&self) -> Option<&Text> {
        self.event().map(|event| &event.origin().session_id)
    }

    /// The sort key for comparing rows of different chains: the time, then the session id.
    pub(super) fn key(&self) -> (i64, Option<&Text>) {
        (self.timestamp_ns, self.session_id())
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        let own = (self.key(), self.index_in_chain);
        (other.key(), other.index_in_chain).cmp(&own)
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Row {}

impl Cursor {
    /// Receives events until at least `window` events are pending, or until the end of the chain.
    pub(super) fn fill(&mut self, window: usize, store: &Store) {
        let source = &store.catalog().sources[self.source];
        while !self.has_ended && self.pending.len() < window {
            match self.receiver.recv() {
                Ok(Message::Events(events)) => {
                    for (index, event) in events.iter().enumerate() {
                        self.read += 1;
                        self.pending.push(Row {
                            timestamp_ns: event.timestamp_ns(),
                            index_in_chain: self.read,
                            events: Arc::clone(&events),
                            index,
                        });
                    }
                }
                Ok(Message::Damage(damage)) => store.note_damage(source, &damage),
                Ok(Message::Failed(file, error)) => store.warn(CatalogWarning {
                    path: path_text(&file),
                    message: format!("load failed: {error}"),
                }),
                Err(_) => self.has_ended = true,
            }
        }
    }
}

/// Reads the files of a chain in order. Stops early when the receiver of the events is dropped.
pub(super) fn read_chain(
    source: &Source,
    files: &[PathBuf],
    filter: &EventFilter,
    sender: &SyncSender<Message>,
) {
    for file in files {
        let mut is_wanted = true;
        let outcome = stream(source, file, &mut |events| {
            let events = Arc::new(wanted(events, filter));
            let sent = events.is_empty() || sender.send(Message::Events(events)).is_ok();
            is_wanted = sent;
            sent
        });
        let last = match outcome {
            Ok(damage) => Message::Damage(damage),
            Err(error) => Message::Failed(file.clone(), error),
        };
        if !is_wanted || sender.send(last).is_err() {
            return;
        }
    }
}

/// The events that a filter accepts, copied so that the others can be freed.
fn wanted(events: &Events, filter: &EventFilter) -> Events {
    if !filter.is_narrow() {
        return events.clone();
    }
    let mut kept = ChunkBuilder::with_capacity(0);
    for event in events.iter().filter(|event| filter.accepts(*event)) {
        kept.push_row(event);
    }
    Events::of_chunk(kept.finish())
}
