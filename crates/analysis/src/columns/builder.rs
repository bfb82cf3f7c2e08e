//! Builds a [`Chunk`], which stores events as columns, from single events.

use hashbrown::HashMap;
use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::{Event, Text};

use super::interner::Interner;
use super::metadata::MetadataBuilder;
use super::{Chunk, EventRef, NO_CONTEXT, Origin};
use stormlog_format::scan::{RawOrigin, RawRecord};
use stormlog_format::skeleton::Numbered;

/// Collects events into the columns of one chunk.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuilder {
    chunk: Chunk,
    strings: Interner,
    metadata: MetadataBuilder,
    origins: HashMap<Origin, u32>,
    /// A cache with the index of each rank's last origin. The entry of a rank is at the position
    /// rank modulo [`RECENT`], so ranks may replace each other's entries.
    recent: Vec<Option<u32>>,
    /// The metadata text of the last record; the scanner compares the next record's metadata with
    /// it, because they are often equal.
    last_metadata: Option<u32>,
}

/// Number of ranks whose last origin is remembered, so that the origin of the next event is found
/// without hashing.
const RECENT: usize = 64;

/// A chunk is full when it has this many rows or this many bytes of text.
const FULL_ROWS: usize = 1 << 16;
const FULL_BYTES: usize = 64 << 20;

impl ChunkBuilder {
    /// Creates a builder with room for the given number of rows.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        let mut builder = Self {
            recent: vec![None; RECENT],
            ..Self::default()
        };
        let chunk = &mut builder.chunk;
        chunk.timestamp_ns.reserve(rows);
        for column in [
            &mut chunk.origin,
            &mut chunk.event_type,
            &mut chunk.context,
            &mut chunk.metadata,
        ] {
            column.reserve(rows);
        }
        for column in chunk.counter_columns() {
            column.values.reserve(rows);
        }
        builder
    }

    /// Number of events added to the current chunk so far.
    pub(crate) fn len(&self) -> usize {
        self.chunk.len()
    }

    /// Returns the chunk when it is full, and starts a new one. Readers call this function between
    /// two records, or between two blocks of lines, so that indices within a chunk always fit 32
    /// bits.
    pub(crate) fn take_if_full(&mut self) -> Option<Chunk> {
        let text = self.strings.size().max(self.metadata.size());
        let rows = self.len().max(self.chunk.origins.len());
        if text < FULL_BYTES && rows < FULL_ROWS {
            return None;
        }
        Some(std::mem::replace(self, Self::with_capacity(0)).finish())
    }

    /// Passes the chunk to `take` if it is full, like [`take_if_full`](Self::take_if_full).
    pub(crate) fn pass_if_full(&mut self, take: &mut dyn FnMut(Chunk)) {
        if let Some(chunk) = self.take_if_full() {
            take(chunk);
        }
    }

    /// Passes the last chunk to `take`, if it has events.
    pub(crate) fn pass_rest(self, take: &mut dyn FnMut(Chunk)) {
        if self.len() > 0 {
            take(self.finish());
        }
    }

    /// Adds a record that the scanner has parsed and validated. When the record's metadata differ
    /// from earlier metadata only in integers, `numbers` has their skeleton (the text without the
    /// integers) and their integers.
    pub(crate) fn push_record(&mut self, record: &RawRecord<'_>, numbers: Option<Numbered<'_>>) {
        let origin = self.raw_origin(&record.origin);
        let event_type = self.strings.intern(record.event_type);
        let context = match record.context {
            None => NO_CONTEXT,
            Some(raw) if raw.escaped => self.strings.intern(raw.decode().as_bytes()),
            Some(raw) => self.strings.intern(raw.bytes),
        };
        let metadata = match self.last_metadata {
            Some(id) if record.repeats_metadata => id,
            _ => numbers
                .and_then(|numbers| self.metadata.numbers(numbers))
                .unwrap_or_else(|| self.metadata.text(record.metadata)),
        };
        self.last_metadata = Some(metadata);
        self.chunk.push(
            record.timestamp_ns,
            [origin, event_type, context, metadata],
            record.counters,
        );
    }

    /// Adds an event that is stored as a struct, because it was not read by the fast scanner of
    /// records.
    pub(crate) fn push_event(&mut self, event: &Event) {
        let origin = self.origin(Origin {
            version: event.version,
            session_id: event.session_id.clone(),
            collector: event.collector.clone(),
            sampling_interval_ms: event.sampling_interval_ms,
            pid: event.pid,
            host: event.host.clone(),
            job_id: event.job_id.clone(),
            rank: event.rank,
            local_rank: event.local_rank,
            world_size: event.world_size,
            device_id: event.device_id,
        });
        let event_type = self.strings.intern(event.event_type.as_bytes());
        let context = event
            .context
            .as_ref()
            .map_or(NO_CONTEXT, |text| self.strings.intern(text.as_bytes()));
        let json = Writer::new(Layout::Line)
            .non_finite(NonFinite::Bare)
            .map_to_string(&event.metadata);
        let metadata = self.metadata.text(json.as_bytes());
        let counters = &event.counters;
        self.chunk.push(
            event.timestamp_ns,
            [origin, event_type, context, metadata],
            counters.named().map(|(_, value)| value),
        );
    }

    /// Adds a copy of an event of another chunk, with its metadata text unchanged.
    pub(crate) fn push_row(&mut self, event: EventRef<'_>) {
        let origin = self.origin(event.origin().clone());
        let event_type = self.strings.intern(event.event_type());
        let context = event
            .context()
            .map_or(NO_CONTEXT, |text| self.strings.intern(text));
        let metadata = event
            .metadata_numbers()
            .and_then(|numbers| self.metadata.numbers(numbers))
            .unwrap_or_else(|| self.metadata.text(&event.metadata_json()));
        self.last_metadata = None;
        self.chunk.push(
            event.timestamp_ns(),
            [origin, event_type, context, metadata],
            event.counters().named().map(|(_, value)| value),
        );
    }

    /// Returns the chunk with all events that were added since the last full chunk.
    pub(crate) fn finish(self) -> Chunk {
        let mut chunk = self.chunk;
        chunk.strings = self.strings.into_pool();
        chunk.metadata_pool = self.metadata.finish();
        chunk
    }

    fn raw_origin(&mut self, raw: &RawOrigin<'_>) -> u32 {
        let slot = usize::try_from(raw.rank).unwrap_or(0) % RECENT;
        if let Some(id) = self.recent[slot]
            && self.chunk.origins[id as usize].is(raw)
        {
            return id;
        }
        let id = self.origin(Origin::of(raw));
        self.recent[slot] = Some(id);
        id
    }

    fn origin(&mut self, origin: Origin) -> u32 {
        if let Some(id) = self.origins.get(&origin) {
            return *id;
        }
        let id = u32::try_from(self.chunk.origins.len()).unwrap_or(u32::MAX);
        self.chunk.origins.push(origin.clone());
        self.origins.insert(origin, id);
        id
    }
}

impl Chunk {
    fn counter_columns(&mut self) -> [&mut super::NullableColumn; 8] {
        [
            &mut self.allocated,
            &mut self.reserved,
            &mut self.active,
            &mut self.inactive,
            &mut self.change,
            &mut self.used,
            &mut self.free,
            &mut self.total,
        ]
    }

    fn push(
        &mut self,
        timestamp_ns: i64,
        [origin, event_type, context, metadata]: [u32; 4],
        counters: [Option<i64>; 8],
    ) {
        self.timestamp_ns.push(timestamp_ns);
        self.origin.push(origin);
        self.event_type.push(event_type);
        self.context.push(context);
        self.metadata.push(metadata);
        for (column, value) in self.counter_columns().into_iter().zip(counters) {
            column.push(value);
        }
    }
}

impl Origin {
    fn is(&self, raw: &RawOrigin<'_>) -> bool {
        raw.session_id == self.session_id.as_bytes()
            && raw.rank == self.rank
            && raw.pid == self.pid
            && raw.device_id == self.device_id
            && raw.local_rank == self.local_rank
            && raw.world_size == self.world_size
            && raw.sampling_interval_ms == self.sampling_interval_ms
            && raw.version == self.version
            && raw.collector == self.collector.as_bytes()
            && raw.host == self.host.as_bytes()
            && raw.job_id == self.job_id.as_ref().map(Text::as_bytes)
    }

    fn of(raw: &RawOrigin<'_>) -> Self {
        Self {
            version: raw.version,
            session_id: Text::from_bytes(raw.session_id),
            collector: Text::from_bytes(raw.collector),
            sampling_interval_ms: raw.sampling_interval_ms,
            pid: raw.pid,
            host: Text::from_bytes(raw.host),
            job_id: raw.job_id.map(Text::from_bytes),
            rank: raw.rank,
            local_rank: raw.local_rank,
            world_size: raw.world_size,
            device_id: raw.device_id,
        }
    }
}
