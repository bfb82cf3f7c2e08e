//! Events of many sources in the order of time, read while they are listed: whatever the size of
//! the sources, no more than a few blocks of each are in memory.
//!
//! A reading thread for each chain of files hands over events block by block, and the chains are
//! merged. Within a chain, events are sorted over a window of some ten thousand; one that comes
//! later than that is listed where it was found, and counted.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hashbrown::HashMap;
use stormlog_format::{EventType, Map, SessionStatus, Text};

use super::catalog::{CatalogWarning, Source, SourceKind};
use super::events::{EventFilter, EventRow, EventRows};
use super::payload::path_text;
use super::scan::{first_time, is_wanted, last_time, session_of};
use super::store::Store;
use crate::columns::{ChunkBuilder, EventRef, Events};
use crate::load::{
    Artifact, Damage, LoadError, LoadOptions, OnError, absolute, stream_document, stream_events,
    stream_segment, stream_table,
};

/// Smaller sources are loaded, and their events sorted exactly.
const WORTH_STREAMING: u64 = 8 << 20;

/// A compressed file counts as this many times its size.
const EXPANDS: u64 = 16;

/// More chains are not read side by side; the sources are loaded instead.
const MOST_CHAINS: usize = 64;

/// Events over which all chains together sort, and each of them at least.
const WINDOW: usize = 1 << 14;
const LEAST_WINDOW: usize = 1 << 9;

/// A chain is opened so long before its first event is due: neighbouring lines of a file may be
/// a little out of order.
const AHEAD_NS: i64 = 10_000_000_000;

/// Blocks that a reading thread is ahead.
const BLOCKS_AHEAD: usize = 2;

/// The rows of a question about events, the earliest first.
pub struct EventStream<'a>(Inner<'a>);

enum Inner<'a> {
    /// Small sources, or sources that have to be loaded as a whole to be understood.
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
    /// The events, the earliest first, read while they are asked for. What is wrong with the
    /// sources is known when all of them have been listed.
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

/// What rows say about the session of an event.
#[derive(Debug)]
struct Home {
    session_id: Text,
    source_path: Text,
    source_kind: SourceKind,
    status: &'static str,
}

/// What is known of sessions, by their ids.
type Homes = HashMap<Text, Arc<Home>>;

/// Files whose events follow each other in time.
struct Chain {
    source: usize,
    files: Vec<PathBuf>,
    first_ns: i64,
    last_ns: i64,
}

/// A chain that is being read.
struct Cursor {
    source: usize,
    receiver: Receiver<Message>,
    /// Events that were read and are not listed yet.
    pending: BinaryHeap<Row>,
    read: u64,
    has_ended: bool,
    /// The session of the event listed last.
    home: Option<Arc<Home>>,
}

enum Message {
    Events(Arc<Events>),
    Damage(Vec<Damage>),
    Failed(PathBuf, LoadError),
}

/// An event that waits to be listed; the earliest is the greatest, as a heap wants it.
struct Row {
    timestamp_ns: i64,
    place_in_chain: u64,
    events: Arc<Events>,
    place: usize,
}

impl Row {
    fn event(&self) -> Option<EventRef<'_>> {
        self.events.get(self.place)
    }

    fn session_id(&self) -> Option<&Text> {
        self.event().map(|event| &event.origin().session_id)
    }

    /// The order of rows of different chains.
    fn key(&self) -> (i64, Option<&Text>) {
        (self.timestamp_ns, self.session_id())
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        let own = (self.key(), self.place_in_chain);
        (other.key(), other.place_in_chain).cmp(&own)
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

/// Chains that are read side by side.
struct Merge<'a> {
    store: &'a Store,
    filter: EventFilter,
    /// Chains that are not due yet, the latest first.
    waiting: Vec<Chain>,
    open: Vec<Cursor>,
    /// The sessions of each source that are known.
    homes: Vec<Homes>,
    left: usize,
    last_ns: i64,
    late: u64,
}

impl<'a> Merge<'a> {
    /// How to read the sources; nothing when they should be loaded instead.
    fn plan(store: &'a Store, filter: &EventFilter) -> Option<Self> {
        let sources = &store.catalog().sources;
        let size: u64 = sources.iter().map(size_of).sum();
        if size < WORTH_STREAMING || (0..sources.len()).any(|place| store.is_loaded(place)) {
            return None;
        }
        let mut waiting = Vec::new();
        let mut homes = vec![HashMap::new(); sources.len()];
        for (place, source) in sources.iter().enumerate() {
            match source.kind {
                SourceKind::DiagnoseBundle => {}
                SourceKind::Sink => {
                    let rollups = store.rollups(place);
                    let mut files = Vec::new();
                    for file in &source.event_paths {
                        if file.metadata().is_ok_and(|facts| facts.len() == 0) {
                            continue;
                        }
                        let session = session_of(source.manifest.as_ref()?, file)?;
                        let home = || {
                            Arc::new(Home {
                                session_id: session.session_id.clone(),
                                source_path: path_text(file),
                                source_kind: source.kind,
                                status: session.status.as_str(),
                            })
                        };
                        let homes: &mut HashMap<_, _> = &mut homes[place];
                        homes.entry(session.session_id.clone()).or_insert_with(home);
                        if is_wanted(session, rollups.as_deref(), filter) {
                            files.push((first_time(file)?, file));
                        }
                    }
                    chains(place, files, &mut waiting);
                }
                _ => {
                    let (known, first_ns) = survey(source)?;
                    homes[place] = known;
                    waiting.extend(first_ns.map(|first_ns| Chain {
                        source: place,
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
        // Stable and reversed: of chains that begin together the first comes first.
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

    /// The open chain whose next event is the earliest of all.
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
                    |place: &usize, row: &'_ Row| (self.open[*place].source, row.place_in_chain);
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

    /// What is known of the session of an event.
    fn home_of(&mut self, cursor: usize, row: &Row) -> Option<Arc<Home>> {
        let id = row.session_id()?;
        let cursor = &mut self.open[cursor];
        if let Some(home) = cursor.home.as_ref().filter(|home| home.session_id == *id) {
            return Some(Arc::clone(home));
        }
        let source = &self.store.catalog().sources[cursor.source];
        let homes = &mut self.homes[cursor.source];
        if !homes.contains_key(id) {
            // The manifest assigns its segment to another session, so survey all segments.
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
                    "{late} events are listed after later ones: the clock went back by more \
                     than the {WINDOW} events that are sorted at a time"
                ),
            });
        }
    }
}

impl Cursor {
    /// Reads until as many events wait as are sorted, or until the end.
    fn fill(&mut self, window: usize, store: &Store) {
        let source = &store.catalog().sources[self.source];
        while !self.has_ended && self.pending.len() < window {
            match self.receiver.recv() {
                Ok(Message::Events(events)) => {
                    for (place, event) in events.iter().enumerate() {
                        self.read += 1;
                        self.pending.push(Row {
                            timestamp_ns: event.timestamp_ns(),
                            place_in_chain: self.read,
                            events: Arc::clone(&events),
                            place,
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

/// Reads the files of a chain; stops early when the receiver is gone.
fn read_chain(
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

/// The events that a filter accepts, without the others' memory.
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

/// Hands over the events of a file until `visit` has had enough.
fn stream(
    source: &Source,
    file: &Path,
    visit: &mut dyn FnMut(&Events) -> bool,
) -> Result<Vec<Damage>, LoadError> {
    let options = |on_error| LoadOptions {
        on_error,
        ..LoadOptions::default()
    };
    match source.kind {
        SourceKind::DiagnoseBundle => Ok(Vec::new()),
        SourceKind::Sink => stream_segment(
            &source.path,
            source.manifest.as_ref(),
            file,
            &options(OnError::Skip),
            visit,
        ),
        SourceKind::TelemetryJson => stream_document(file, &options(OnError::Raise), visit),
        SourceKind::TelemetryCsv => stream_table(file, &options(OnError::Skip), visit),
        SourceKind::TelemetryJsonl => {
            let mut ignore_end = |events: &Events| {
                visit(events);
            };
            stream_events(file, &options(OnError::Skip), &mut ignore_end)
        }
    }
}

fn size_of(source: &Source) -> u64 {
    let sizes = source.event_paths.iter().map(|file| {
        let size = file.metadata().map_or(0, |facts| facts.len());
        let extension = file.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("gz" | "zst") => size.saturating_mul(EXPANDS),
            _ => size,
        }
    });
    sizes.fold(0, u64::saturating_add)
}

/// Files as chains: each begins when the one before it has ended.
fn chains(source: usize, mut files: Vec<(i64, &PathBuf)>, waiting: &mut Vec<Chain>) {
    files.sort();
    let mut own: Vec<Chain> = Vec::new();
    for (first_ns, file) in files {
        let last_ns = last_time(file).unwrap_or(first_ns).max(first_ns);
        match own.iter_mut().find(|chain| chain.last_ns <= first_ns) {
            Some(chain) => {
                chain.files.push(file.clone());
                chain.last_ns = last_ns;
            }
            None => own.push(Chain {
                source,
                files: vec![file.clone()],
                first_ns,
                last_ns,
            }),
        }
    }
    waiting.extend(own);
}

/// What one pass over a file that has no manifest of its own shows of its sessions, and the time
/// of its first event. Nothing when the file cannot be read, or is not in an order that the
/// window can sort: then it has to be loaded.
fn survey(source: &Source) -> Option<(Homes, Option<i64>)> {
    let mut stopped: HashMap<Text, bool> = HashMap::new();
    let (mut first_ns, mut latest_ns) = (None::<i64>, i64::MIN);
    // The latest times up to places before the current one.
    let mut latest_before: VecDeque<i64> = VecDeque::new();
    let mut settled_ns = i64::MIN;
    let mut is_sortable = true;
    let mut seen = 0_usize;
    stream(source, &source.path, &mut |events| {
        for event in events.iter() {
            let time = event.timestamp_ns();
            first_ns = Some(first_ns.map_or(time, |first| first.min(time)));
            is_sortable &= time >= settled_ns;
            latest_ns = latest_ns.max(time);
            seen += 1;
            if seen.is_multiple_of(LEAST_WINDOW / 4) {
                latest_before.push_back(latest_ns);
                if latest_before.len() > 2 {
                    settled_ns = latest_before.pop_front().unwrap_or(settled_ns);
                }
            }
            note_session(&mut stopped, event);
        }
        true
    })
    .ok()?;
    let beside = match Artifact::at(&source.path) {
        Ok(Artifact::Lines { manifest, .. }) => manifest,
        _ => None,
    };
    let path = match source.kind {
        SourceKind::TelemetryJsonl => path_text(&source.path),
        _ => absolute(&source.path).into(),
    };
    let homes = stopped.into_iter().map(|(id, has_stopped)| {
        let mut known = beside.iter().flat_map(|manifest| &manifest.sessions);
        let known = known.rfind(|known| known.session_id == id);
        let status = known.map_or_else(|| inferred(has_stopped), |known| known.status);
        let home = Home {
            session_id: id.clone(),
            source_path: path.clone(),
            source_kind: source.kind,
            status: status.as_str(),
        };
        (id, Arc::new(home))
    });
    is_sortable.then(|| (homes.collect(), first_ns))
}

/// What all segments of a sink show of sessions that its manifest does not give them to.
fn survey_sink(source: &Source) -> Homes {
    let mut found = HashMap::new();
    for file in &source.event_paths {
        let mut stopped = HashMap::new();
        // What cannot be read is reported where the file is listed.
        let _ = stream(source, file, &mut |events| {
            for event in events.iter() {
                note_session(&mut stopped, event);
            }
            true
        });
        for (id, has_stopped) in stopped {
            found.entry(id).or_insert((file, false)).1 |= has_stopped;
        }
    }
    let sessions = source
        .manifest
        .iter()
        .flat_map(|manifest| &manifest.sessions);
    let known: HashMap<&Text, SessionStatus> = sessions
        .map(|session| (&session.session_id, session.status))
        .collect();
    let homes = found.into_iter().map(|(id, (file, has_stopped))| {
        let status = known.get(&id).copied();
        let home = Home {
            session_id: id.clone(),
            source_path: path_text(file),
            source_kind: source.kind,
            status: status.unwrap_or_else(|| inferred(has_stopped)).as_str(),
        };
        (id, Arc::new(home))
    });
    homes.collect()
}

fn note_session(stopped: &mut HashMap<Text, bool>, event: EventRef<'_>) {
    let id = &event.origin().session_id;
    *stopped.entry_ref(id).or_insert(false) |= EventType::Stop.is(event.event_type());
}

/// The status of a session that no manifest describes.
fn inferred(has_stopped: bool) -> SessionStatus {
    if has_stopped {
        SessionStatus::Completed
    } else {
        SessionStatus::Incomplete
    }
}
