//! Stores events in columns: a struct of arrays with shared strings and metadata.
//!
//! A row takes 88 bytes plus its metadata. Rows with equal metadata share the text; metadata that
//! differ from others only in their integers take 8 bytes plus 8 bytes per integer. Fields that
//! rarely change within a session (host, rank, device and so on) form one [`Origin`] that rows
//! refer to.

mod builder;
mod interner;
mod metadata;
mod row_set;

use std::borrow::Cow;
use std::sync::Arc;

use stormlog_format::json::parse_object;
use stormlog_format::scan::RawRecord;
use stormlog_format::skeleton::{Matcher, Numbered};
use stormlog_format::{Counters, Event, Map, Text, Version, classify};

pub(crate) use builder::ChunkBuilder;
use interner::Strings;
use metadata::MetadataPool;
pub(crate) use row_set::{RowSet, may_have};

/// What is stored for an event type as long as the filter has not been called for it. After the
/// call, 1 is stored if the filter accepts the type, otherwise 0.
const UNASKED: u8 = 2;

/// The value in [`Chunk::context`] for an event without a context (a text that describes it).
const NO_CONTEXT: u32 = u32::MAX;

/// The fields of an event that rarely change. Events in which all of them are equal share one
/// origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "each field is a key of the record, described in docs/schemas"
)]
pub struct Origin {
    pub version: Version,
    pub session_id: Text,
    pub collector: Text,
    pub sampling_interval_ms: i64,
    pub pid: i64,
    pub host: Text,
    pub job_id: Option<Text>,
    pub rank: i64,
    pub local_rank: i64,
    pub world_size: i64,
    pub device_id: i64,
}

/// One memory counter of all events of a chunk, in bytes; the value of an event may be unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct NullableColumn {
    values: Vec<i64>,
    /// A bitmap in which a set bit marks an unknown value; empty while every value is known.
    unknown: Vec<u64>,
}

impl NullableColumn {
    fn push(&mut self, value: Option<i64>) {
        let row = self.values.len();
        self.values.push(value.unwrap_or(0));
        if value.is_none() {
            if self.unknown.len() <= row / 64 {
                self.unknown.resize(row / 64 + 1, 0);
            }
            self.unknown[row / 64] |= 1 << (row % 64);
        }
    }

    fn get(&self, row: usize) -> Option<i64> {
        let unknown = self
            .unknown
            .get(row / 64)
            .is_some_and(|bits| bits >> (row % 64) & 1 == 1);
        if unknown {
            None
        } else {
            self.values.get(row).copied()
        }
    }
}

/// Events as one array per field (a column), with one element (a row) per event. A chunk has the
/// events of a part of a file; larger artifacts have several chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    timestamp_ns: Vec<i64>,
    origin: Vec<u32>,
    event_type: Vec<u32>,
    context: Vec<u32>,
    metadata: Vec<u32>,
    allocated: NullableColumn,
    reserved: NullableColumn,
    active: NullableColumn,
    inactive: NullableColumn,
    change: NullableColumn,
    used: NullableColumn,
    free: NullableColumn,
    total: NullableColumn,
    origins: Vec<Origin>,
    strings: Strings,
    metadata_pool: MetadataPool,
}

impl Chunk {
    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.timestamp_ns.len()
    }

    /// The distinct origins (session, host, rank, device and so on) of the chunk's events.
    pub(crate) fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// The timestamp of the event in a row, in nanoseconds since 1970.
    pub(crate) fn timestamp(&self, row: usize) -> i64 {
        self.timestamp_ns[row]
    }

    /// The index in [`origins`](Self::origins) of the origin of the event in a row.
    pub(crate) fn origin_index(&self, row: usize) -> usize {
        self.origin[row] as usize
    }
}

/// All events of an artifact, as chunks that tables of several artifacts may share.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) chunks: Vec<Arc<Chunk>>,
}

/// The position of an event in memory: the index of its chunk in a [`Table`], and its row in the
/// chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId {
    pub(crate) chunk: u32,
    pub(crate) row: u32,
}

/// A list of events, usually in the order of time. The columns with the data are shared between
/// lists, so that a clone is cheap.
#[derive(Clone, Default)]
pub struct Events {
    pub(crate) table: Arc<Table>,
    pub(crate) rows: Arc<[RowId]>,
}

impl Events {
    /// Stores the given events, which are already sorted by time, in columns.
    pub fn from_events(events: &[Event]) -> Self {
        let mut builder = ChunkBuilder::with_capacity(events.len());
        for event in events {
            builder.push_event(event);
        }
        Self::of_chunk(builder.finish())
    }

    /// All events of one chunk, in the order of its rows.
    pub(crate) fn of_chunk(chunk: Chunk) -> Self {
        Self::of_chunks(vec![Arc::new(chunk)])
    }

    /// All events of some chunks, in the order of the chunks and of their rows.
    fn of_chunks(chunks: Vec<Arc<Chunk>>) -> Self {
        Self {
            rows: rows_of(&chunks).collect(),
            table: Arc::new(Table { chunks }),
        }
    }

    /// Merges several lists of events by time. Events with equal timestamps stay in the order of
    /// `parts`.
    pub fn merged(parts: &[&Events]) -> Self {
        let joined = Self::joined(parts);
        if parts.len() < 2 {
            return joined;
        }
        let at_ns = |id: &RowId| joined.event(*id).timestamp_ns();
        let mut rows: Vec<(i64, RowId)> = joined.rows.iter().map(|id| (at_ns(id), *id)).collect();
        // Every part is already sorted by time, which makes this sort fast.
        rows.sort_by_key(|(at_ns, _)| *at_ns);
        Self {
            rows: rows.into_iter().map(|(_, id)| id).collect(),
            table: joined.table,
        }
    }

    /// Concatenates several lists of events, without sorting them by time.
    pub fn joined(parts: &[&Events]) -> Self {
        let [first, rest @ ..] = parts else {
            return Self::default();
        };
        if rest.is_empty() {
            return (*first).clone();
        }
        let mut chunks: Vec<Arc<Chunk>> = Vec::new();
        let mut rows: Vec<RowId> = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
        let mut bases: Vec<(*const Table, u32)> = Vec::new();
        for part in parts {
            let table = Arc::as_ptr(&part.table);
            let known = bases.iter().rfind(|(seen, _)| std::ptr::eq(*seen, table));
            let base = if let Some((_, base)) = known {
                *base
            } else {
                let base = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
                chunks.extend(part.table.chunks.iter().cloned());
                bases.push((table, base));
                base
            };
            rows.extend(part.rows.iter().map(|id| RowId {
                chunk: base.saturating_add(id.chunk),
                row: id.row,
            }));
        }
        Self {
            table: Arc::new(Table { chunks }),
            rows: rows.into(),
        }
    }

    /// The events of one rank.
    #[must_use]
    pub fn of_rank(&self, rank: i64) -> Self {
        let of_rank = |id: &&RowId| self.event(**id).origin().rank == rank;
        Self {
            table: Arc::clone(&self.table),
            rows: self.rows.iter().filter(of_rank).copied().collect(),
        }
    }

    /// The events that a filter accepts.
    #[must_use]
    pub fn retained<'a>(&'a self, mut accepts: impl FnMut(EventRef<'a>) -> bool) -> Self {
        let rows = self.rows.iter().filter(|id| accepts(self.event(**id)));
        Self {
            table: Arc::clone(&self.table),
            rows: rows.copied().collect(),
        }
    }

    /// The same events, but with `session_id` as the session of all of them.
    #[must_use]
    pub fn of_session(&self, session_id: &Text) -> Self {
        let chunks = self.table.chunks.iter().map(|chunk| {
            let mut chunk = Chunk::clone(chunk);
            for origin in &mut chunk.origins {
                origin.session_id = session_id.clone();
            }
            Arc::new(chunk)
        });
        Self {
            table: Arc::new(Table {
                chunks: chunks.collect(),
            }),
            rows: Arc::clone(&self.rows),
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether any event is a sample.
    pub fn has_samples(&self) -> bool {
        let mut events = self.iter();
        events.any(|event| classify::is_sample(event.event_type()))
    }

    /// The event at an index of the list; `None` if the list is shorter.
    pub fn get(&self, index: usize) -> Option<EventRef<'_>> {
        let id = self.rows.get(index)?;
        Some(self.event(*id))
    }

    /// All events, in the order of the list.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = EventRef<'_>> {
        self.rows.iter().map(|id| self.event(*id))
    }

    /// The events whose type a filter accepts: for each event its index in the list, the event, and
    /// the number of its origin. Origin numbers are below [`origin_count`](Self::origin_count).
    ///
    /// The filter is called once per distinct type, and origin numbers need no hashing, because a
    /// comparison of thousands of ranks spends most of its time in this function.
    pub fn of_type<'a>(
        &'a self,
        accepts: impl Fn(&[u8]) -> bool + 'a,
    ) -> impl Iterator<Item = (usize, EventRef<'a>, usize)> + 'a {
        let mut sieve = self.sieve(accepts);
        let rows = self.rows.iter().enumerate();
        rows.filter_map(move |(index, id)| {
            let (event, origin) = sieve(*id)?;
            Some((index, event, origin))
        })
    }

    /// Like [`of_type`](Self::of_type), but in memory order and with memory positions instead of
    /// indices. In time order, events of many ranks are scattered in memory, and reading them in
    /// that order takes several times as long.
    pub fn of_type_in_memory<'a>(
        &'a self,
        accepts: impl Fn(&[u8]) -> bool + 'a,
    ) -> impl Iterator<Item = (RowId, EventRef<'a>, usize)> + 'a {
        let chunks = &self.table.chunks;
        let is_whole = self.rows.len() == chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
        let (whole, part) = if is_whole {
            (chunks.as_slice(), &[][..])
        } else {
            (&[][..], &*self.rows)
        };
        let mut sieve = self.sieve(accepts);
        let rows = rows_of(whole).chain(part.iter().copied());
        rows.filter_map(move |id| {
            let (event, origin) = sieve(id)?;
            Some((id, event, origin))
        })
    }

    /// Returns a function that finds the event at a memory position and the number of its origin,
    /// if the filter accepts the event's type.
    fn sieve<'a>(
        &'a self,
        accepts: impl Fn(&[u8]) -> bool + 'a,
    ) -> impl FnMut(RowId) -> Option<(EventRef<'a>, usize)> + 'a {
        let bases = self.origin_bases();
        let mut known: Vec<Vec<u8>> = vec![Vec::new(); self.table.chunks.len()];
        move |id| {
            let event = self.event(id);
            let text = event.chunk.event_type[event.row] as usize;
            let known = &mut known[id.chunk as usize];
            if known.len() <= text {
                known.resize(text + 1, UNASKED);
            }
            if known[text] == UNASKED {
                known[text] = u8::from(accepts(event.event_type()));
            }
            let origin = bases[id.chunk as usize] + event.chunk.origin[event.row] as usize;
            (known[text] == 1).then_some((event, origin))
        }
    }

    /// How many different origin numbers [`of_type`](Self::of_type) assigns. An origin that occurs
    /// in several chunks has a different number in each.
    pub fn origin_count(&self) -> usize {
        self.table
            .chunks
            .iter()
            .map(|chunk| chunk.origins.len())
            .sum()
    }

    fn origin_bases(&self) -> Vec<usize> {
        let counts = self.table.chunks.iter().map(|chunk| chunk.origins.len());
        let bases = counts.scan(0, |base, count| {
            *base += count;
            Some(*base - count)
        });
        bases.collect()
    }

    /// The memory position of each event, in the order of the list.
    pub fn row_ids(&self) -> &[RowId] {
        &self.rows
    }

    /// The event at a memory position of the table that this list refers to.
    pub fn event(&self, id: RowId) -> EventRef<'_> {
        EventRef {
            chunk: &self.table.chunks[id.chunk as usize],
            row: id.row as usize,
        }
    }
}

/// The memory positions of all events of some chunks.
fn rows_of(chunks: &[Arc<Chunk>]) -> impl Iterator<Item = RowId> + '_ {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    chunks
        .iter()
        .enumerate()
        .flat_map(move |(chunk, of_chunk)| {
            let chunk = number(chunk);
            (0..number(of_chunk.len())).map(move |row| RowId { chunk, row })
        })
}

/// Collects events that are stored as columns elsewhere, such as tables of a lake.
#[derive(Debug)]
pub struct EventsBuilder {
    builder: ChunkBuilder,
    full: Vec<Arc<Chunk>>,
    matcher: Matcher,
}

impl Default for EventsBuilder {
    fn default() -> Self {
        Self {
            builder: ChunkBuilder::with_capacity(0),
            full: Vec::new(),
            matcher: Matcher::default(),
        }
    }
}

impl EventsBuilder {
    /// Adds an event after all events that were added before. The event's texts are not checked:
    /// bytes that are not UTF-8 are replaced when the texts are read.
    pub fn push(&mut self, record: &RawRecord<'_>) {
        let is_matched = !record.repeats_metadata
            && self.matcher.matches(record.metadata) == Some(record.metadata.len());
        if !is_matched && !record.repeats_metadata {
            self.matcher.learn(record.metadata);
        }
        let numbers = self.matcher.matched().filter(|_| is_matched);
        self.builder.push_record(record, numbers);
        self.full.extend(self.builder.take_if_full().map(Arc::new));
    }

    /// Returns the collected events, in the order in which they were added.
    #[must_use]
    pub fn finish(self) -> Events {
        let mut chunks = self.full;
        chunks.push(Arc::new(self.builder.finish()));
        Events::of_chunks(chunks)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The columns are left out of the debug output, because there may be millions of rows.
        f.debug_struct("Events")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// One event in the columns of a chunk. Its fields are read when they are asked for.
#[derive(Clone, Copy)]
pub struct EventRef<'a> {
    chunk: &'a Chunk,
    row: usize,
}

impl std::fmt::Debug for EventRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_event().fmt(f)
    }
}

impl<'a> EventRef<'a> {
    /// The time of the event in nanoseconds since 1970.
    pub fn timestamp_ns(self) -> i64 {
        self.chunk.timestamp_ns[self.row]
    }

    /// The origin of the event: its fields that rarely change, such as session, host, rank and
    /// device.
    pub fn origin(self) -> &'a Origin {
        &self.chunk.origins[self.chunk.origin[self.row] as usize]
    }

    /// The type of the event as text, such as `sample` or `start`.
    pub fn event_type(self) -> &'a [u8] {
        self.chunk.strings.get(self.chunk.event_type[self.row])
    }

    /// The text that describes the event to users (the key `context`), if it has one.
    pub fn context(self) -> Option<&'a [u8]> {
        match self.chunk.context[self.row] {
            NO_CONTEXT => None,
            id => Some(self.chunk.strings.get(id)),
        }
    }

    /// The event's metadata as JSON text, unchanged from the file.
    pub fn metadata_json(self) -> Cow<'a, [u8]> {
        self.chunk.metadata_pool.json(self.chunk.metadata[self.row])
    }

    /// The event's metadata as JSON text from which integers may be missing, for searching words.
    /// Many events share one such text.
    pub fn metadata_words(self) -> &'a [u8] {
        self.chunk
            .metadata_pool
            .words(self.chunk.metadata[self.row])
    }

    /// The event's metadata as a skeleton (the text without the integers) and the integers; `None`
    /// if the metadata are stored as complete text.
    pub fn metadata_numbers(self) -> Option<Numbered<'a>> {
        self.chunk
            .metadata_pool
            .numbers(self.chunk.metadata[self.row])
    }

    /// The event's metadata, parsed; empty if the text is not a JSON object.
    pub fn metadata(self) -> Map {
        parse_object(&self.metadata_json()).unwrap_or_default()
    }

    /// Bytes in use on the device.
    pub fn used_bytes(self) -> Option<i64> {
        self.chunk.used.get(self.row)
    }

    /// Bytes reserved by the allocator.
    pub fn reserved_bytes(self) -> Option<i64> {
        self.chunk.reserved.get(self.row)
    }

    /// Bytes in live tensors.
    pub fn allocated_bytes(self) -> Option<i64> {
        self.chunk.allocated.get(self.row)
    }

    /// Bytes allocated or freed since the previous event.
    pub fn change_bytes(self) -> Option<i64> {
        self.chunk.change.get(self.row)
    }

    /// Bytes free on the device.
    pub fn free_bytes(self) -> Option<i64> {
        self.chunk.free.get(self.row)
    }

    /// Size of the device's memory, in bytes.
    pub fn total_bytes(self) -> Option<i64> {
        self.chunk.total.get(self.row)
    }

    /// All memory counters of the event, such as allocated, reserved and used bytes.
    pub fn counters(self) -> Counters {
        let (chunk, row) = (self.chunk, self.row);
        Counters {
            allocator_allocated_bytes: chunk.allocated.get(row),
            allocator_reserved_bytes: chunk.reserved.get(row),
            allocator_active_bytes: chunk.active.get(row),
            allocator_inactive_bytes: chunk.inactive.get(row),
            allocator_change_bytes: chunk.change.get(row),
            device_used_bytes: chunk.used.get(row),
            device_free_bytes: chunk.free.get(row),
            device_total_bytes: chunk.total.get(row),
        }
    }

    /// A copy of the event that does not borrow from the columns.
    pub fn to_event(self) -> Event {
        let origin = self.origin().clone();
        Event {
            version: origin.version,
            session_id: origin.session_id,
            timestamp_ns: self.timestamp_ns(),
            event_type: Text::from_bytes(self.event_type()),
            collector: origin.collector,
            sampling_interval_ms: origin.sampling_interval_ms,
            pid: origin.pid,
            host: origin.host,
            job_id: origin.job_id,
            rank: origin.rank,
            local_rank: origin.local_rank,
            world_size: origin.world_size,
            device_id: origin.device_id,
            counters: self.counters(),
            context: self.context().map(Text::from_bytes),
            metadata: self.metadata(),
        }
    }
}
