//! Lists the events of many sources in order of time while reading them. Only a few blocks of each
//! source are in memory, however large the source is.
//!
//! Files of one source whose events follow each other in time form a chain. A thread per chain
//! reads its events block by block, and the chains are merged. Within a chain, events are sorted
//! over a window of some ten thousand events. A line may come so late in its file that events of a
//! later time were already listed. Its event is then listed out of order, and counted.

mod cursor;
mod survey;

use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use hashbrown::HashMap;
use stormlog_format::Map;

use super::catalog::{CatalogWarning, SourceKind};
use super::events::{EventFilter, EventRow, EventRows};
use super::payload::path_text;
use super::scan::{is_wanted, session_of};
use super::store::Store;
use crate::load::Hints;
use crate::segment_times::first_time;
use cursor::{Cursor, Row, read_chain};
use survey::{Chain, Home, Homes, chains, survey, survey_sink};

pub(super) use survey::size_of;

/// Sources with fewer bytes than this are loaded completely and sorted exactly.
const WORTH_STREAMING: u64 = 8 << 20;

/// Maximum number of chains that are read in parallel; with more chains, the sources are loaded
/// instead.
const MOST_CHAINS: usize = 64;

/// Number of events that are sorted at a time: the open chains share `WINDOW` events equally, but
/// each chain sorts at least `LEAST_WINDOW` events.
const WINDOW: usize = 1 << 14;
const LEAST_WINDOW: usize = 1 << 9;

/// A chain is opened this many nanoseconds early: when the next event to list is at most that much
/// earlier than the first event of the chain. Lines of a file may be slightly out of order, so the
/// chain may contain events that are earlier than its first event.
const AHEAD_NS: i64 = 10_000_000_000;

/// Maximum number of blocks that a reading thread may read before they are used.
const BLOCKS_AHEAD: usize = 2;

/// Iterates over the events that a query found, the earliest first, each as a JSON object.
pub struct EventStream<'a>(Inner<'a>);

enum Inner<'a> {
    /// Rows from loaded sources: small sources, or sources that must be loaded completely.
    Loaded {
        rows: EventRows,
        place: usize,
    },
    Merged(Box<Merge<'a>>),
}

impl Iterator for EventStream<'_> {
    type Item = Map;

    fn next(&mut self) -> Option<Map> {
        match &mut self.0 {
            Inner::Loaded { rows, place } => {
                *place += 1;
                Some(rows.get(*place - 1)?.to_map())
            }
            Inner::Merged(merge) => merge.next(),
        }
    }
}

impl Store {
    /// The events that pass the filter, the earliest first, read on demand. Warnings about the
    /// sources are complete only after all events have been listed.
    pub fn event_stream(&self, filter: &EventFilter) -> EventStream<'_> {
        EventStream(match Merge::plan(self, filter) {
            Some(merge) => Inner::Merged(Box::new(merge)),
            None => Inner::Loaded {
                rows: self.events(filter),
                place: 0,
            },
        })
    }
}

/// Merges the events of chains in order of time. A chain is a list of files of one source whose
/// events follow each other in time; each chain is read by a thread of its own.
struct Merge<'a> {
    store: &'a Store,
    filter: EventFilter,
    /// Chains that are not read yet; the chain that starts first is the last element.
    waiting: Vec<Chain>,
    open: Vec<Cursor>,
    /// For each source, the sessions that are known so far, by session id.
    homes: Vec<Homes>,
    left: usize,
    last_ns: i64,
    late: u64,
}

impl<'a> Merge<'a> {
    /// Plans how to read the sources while merging; `None` when they should be loaded instead.
    fn plan(store: &'a Store, filter: &EventFilter) -> Option<Self> {
        let sources = &store.catalog().sources;
        let size: u64 = sources.iter().map(size_of).sum();
        if size < WORTH_STREAMING || (0..sources.len()).any(|index| store.is_loaded(index)) {
            return None;
        }
        let mut waiting = Vec::new();
        let mut homes = vec![HashMap::new(); sources.len()];
        for (index, source) in sources.iter().enumerate() {
            match source.kind {
                SourceKind::DiagnoseBundle => {}
                SourceKind::Sink => {
                    let manifest = source.manifest.as_ref()?;
                    let hints = Hints::of(Some(manifest));
                    let rollups = store.rollups(index);
                    let mut files = Vec::new();
                    for file in &source.event_paths {
                        if file.metadata().is_ok_and(|facts| facts.len() == 0) {
                            continue;
                        }
                        let session = session_of(manifest, &hints, file)?;
                        let home = || {
                            Arc::new(Home {
                                session_id: session.session_id.clone(),
                                source_path: path_text(file),
                                source_kind: source.kind,
                                status: session.status.as_str(),
                            })
                        };
                        let homes: &mut HashMap<_, _> = &mut homes[index];
                        homes.entry(session.session_id.clone()).or_insert_with(home);
                        if is_wanted(session, rollups.as_deref(), filter) {
                            files.push((first_time(file)?, file));
                        }
                    }
                    chains(index, files, &mut waiting);
                }
                _ => {
                    let (known, first_ns) = survey(source)?;
                    homes[index] = known;
                    waiting.extend(first_ns.map(|first_ns| Chain {
                        source: index,
                        files: vec![source.path.clone()],
                        first_ns,
                        last_ns: i64::MAX,
                    }));
                }
            }
            if waiting.len() > MOST_CHAINS {
                return None;
            }
        }
        // The chains are sorted by start time and then reversed, because the chain to open next is
        // taken from the end of `waiting`. Of chains that start at the same time, the one found
        // first is opened first.
        waiting.sort_by_key(|chain| chain.first_ns);
        waiting.reverse();
        Some(Self {
            store,
            filter: filter.clone(),
            waiting,
            open: Vec::new(),
            homes,
            left: filter.limit.unwrap_or(usize::MAX),
            last_ns: i64::MIN,
            late: 0,
        })
    }

    fn next(&mut self) -> Option<Map> {
        while self.left > 0 {
            let Some(cursor) = self.earliest() else {
                self.report_late();
                return None;
            };
            let Some(row) = self.open[cursor].pending.pop() else {
                continue;
            };
            let Some(home) = self.home_of(cursor, &row) else {
                continue;
            };
            if !self.filter.accepts_status(home.status) {
                continue;
            }
            self.late += u64::from(row.timestamp_ns < self.last_ns);
            self.last_ns = self.last_ns.max(row.timestamp_ns);
            self.left -= 1;
            let row = EventRow {
                event: row.event()?,
                source_path: &home.source_path,
                source_kind: home.source_kind,
                session_status: home.status,
            };
            return Some(row.to_map());
        }
        self.report_late();
        None
    }

    /// The index in `open` of the chain whose next event is the earliest; `None` when all chains
    /// are used up.
    fn earliest(&mut self) -> Option<usize> {
        loop {
            let window = (WINDOW / self.open.len().max(1)).max(LEAST_WINDOW);
            for cursor in &mut self.open {
                cursor.fill(window, self.store);
            }
            self.open.retain(|cursor| !cursor.pending.is_empty());
            let heads = self.open.iter().enumerate();
            let heads = heads.filter_map(|(place, cursor)| Some((place, cursor.pending.peek()?)));
            let earliest = heads.min_by(|(one, head), (other, second)| {
                let key =
                    |place: &usize, row: &'_ Row| (self.open[*place].source, row.index_in_chain);
                let by_time = head.key().cmp(&second.key());
                by_time.then_with(|| key(one, head).cmp(&key(other, second)))
            });
            let due_ns = earliest.map(|(_, row)| row.timestamp_ns.saturating_add(AHEAD_NS));
            let earliest = earliest.map(|(place, _)| place);
            match self.waiting.last() {
                Some(next) if due_ns.is_none_or(|due_ns| next.first_ns <= due_ns) => {
                    let chain = self.waiting.pop()?;
                    self.open(chain);
                }
                _ => return earliest,
            }
        }
    }

    fn open(&mut self, chain: Chain) {
        let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
        let source = self.store.catalog().sources[chain.source].clone();
        let (filter, files) = (self.filter.clone(), chain.files);
        let path = source.path.clone();
        let started = std::thread::Builder::new()
            .name("stormlog-read".into())
            .spawn(move || read_chain(&source, &files, &filter, &sender));
        if let Err(error) = started {
            self.store.warn(CatalogWarning {
                path: path_text(&path),
                message: format!("load failed: no thread can be started: {error}"),
            });
        }
        self.open.push(Cursor {
            source: chain.source,
            receiver,
            pending: BinaryHeap::new(),
            read: 0,
            has_ended: false,
            home: None,
        });
    }

    /// The session of an event, with the values that the row of the event shows: path, type of the
    /// source, and status.
    fn home_of(&mut self, cursor: usize, row: &Row) -> Option<Arc<Home>> {
        let id = row.session_id()?;
        let cursor = &mut self.open[cursor];
        if let Some(home) = cursor.home.as_ref().filter(|home| home.session_id == *id) {
            return Some(Arc::clone(home));
        }
        let source = &self.store.catalog().sources[cursor.source];
        let homes = &mut self.homes[cursor.source];
        if !homes.contains_key(id) {
            // The manifest does not name the session of this event for its segment, so all segments
            // of the sink are examined.
            for (id, home) in survey_sink(source) {
                homes.entry(id).or_insert(home);
            }
        }
        let home = homes.get(id).cloned()?;
        cursor.home = Some(Arc::clone(&home));
        Some(home)
    }

    fn report_late(&mut self) {
        let late = std::mem::take(&mut self.late);
        if late > 0 {
            let paths = &self.store.catalog().paths;
            let path = paths.first().map_or(Path::new("."), PathBuf::as_path);
            self.store.warn(CatalogWarning {
                path: path_text(path),
                message: format!(
                    "{late} events are listed after events of a later time: the clock went \
                     back, and only {WINDOW} events are sorted at a time"
                ),
            });
        }
    }
}
