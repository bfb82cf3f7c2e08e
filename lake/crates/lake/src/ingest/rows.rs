//! Converts events to rows of the tables `samples`, `steps`, `events` and `rollups`.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanBuilder, Date32Builder, Int64Builder, RecordBatch, StringBuilder,
};
use datafusion::arrow::error::ArrowError;
use stormlog_analysis::{EventRef, Events, Origin};
use stormlog_format::{SampleNumber, SampleNumbers, Text, classify};
use stormlog_lake_tables::{Splitter, Table, covered};

use super::rollups::Rollups;

/// When this many rows wait, they are encoded into Parquet files.
const MOST_ROWS: usize = 1 << 16;
/// At most this many bytes of texts are encoded at a time, because an event may have megabytes of
/// text.
const MOST_TEXT: usize = 32 << 20;
const NS_A_DAY: i64 = 86_400_000_000_000;

/// The date of a time in UTC, in days since 1970-01-01.
pub(super) fn day(timestamp_ns: i64) -> i32 {
    // The conversion cannot fail: a time is at most 292 years from 1970, about 100,000 days.
    i32::try_from(timestamp_ns.div_euclid(NS_A_DAY)).unwrap_or(0)
}

/// The rows of the tables `samples`, `steps`, `events` and `rollups` that were made from events and
/// are not written yet.
#[derive(Default)]
pub(super) struct FactRows {
    samples: EventColumns,
    numbers: NumberColumns,
    events: EventColumns,
    is_oom: BooleanBuilder,
    is_alert: BooleanBuilder,
    steps: StepColumns,
    rollups: Rollups,
    splitter: Splitter,
    /// The bytes of metadata in the rows that are not written yet.
    text_bytes: usize,
}

/// How many rows of a block of events were added to the tables `samples` and `events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) samples: u64,
    pub(super) events: u64,
}

/// The tables that do not yet contain the events that are being read; after an ingest was killed,
/// only some tables contain them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted(pub(super) Vec<Table>);

impl Wanted {
    pub(super) fn has(&self, table: Table) -> bool {
        self.0.contains(&table)
    }
}

impl FactRows {
    /// Adds the events of a block to those of the four tables that do not have them yet. `first` is
    /// the number of the block's first event in its source.
    pub(super) fn push(
        &mut self,
        source_id: &str,
        first: i64,
        block: &Events,
        wanted: &Wanted,
    ) -> Added {
        let mut added = Added::default();
        let [samples, events, steps, rollups] =
            [Table::Samples, Table::Events, Table::Steps, Table::Rollups].map(|t| wanted.has(t));
        let (mut of_samples, mut of_events, mut of_steps) = (None, None, None);
        for (event, seq) in block.iter().zip(first..) {
            self.text_bytes += event.metadata_words().len();
            if !is_sample(event) {
                if events {
                    added.events += 1;
                    let metadata = event.metadata_json();
                    let metadata = String::from_utf8_lossy(&metadata);
                    self.events
                        .push(source_id, seq, event, &metadata, &mut of_events);
                    self.classify(event);
                }
                continue;
            }
            let (numbers, rest) = match event.metadata_numbers() {
                Some(metadata) => self.splitter.split_numbers(metadata),
                None => self.splitter.split(&event.metadata_json()),
            };
            if samples {
                added.samples += 1;
                self.samples
                    .push(source_id, seq, event, rest, &mut of_samples);
                self.numbers.push(&numbers);
            }
            if steps && numbers[SampleNumber::Step].is_some() {
                self.steps
                    .push(source_id, seq, event, &numbers, &mut of_steps);
            }
            if rollups {
                self.rollups.push(source_id, event, &numbers);
            }
        }
        self.samples.end_run(source_id, of_samples);
        self.events.end_run(source_id, of_events);
        self.steps.end_run(source_id, of_steps);
        added
    }

    fn classify(&mut self, event: EventRef<'_>) {
        let event_type = Text::from_bytes(event.event_type());
        let metadata = event.metadata();
        self.is_oom
            .append_value(classify::is_oom(&event_type, &metadata));
        self.is_alert
            .append_value(classify::is_alert(&event_type, &metadata));
    }

    /// Whether so many rows or bytes of text wait that they should be written now.
    pub(super) fn is_full(&self) -> bool {
        self.samples.len() + self.events.len() >= MOST_ROWS || self.text_bytes >= MOST_TEXT
    }

    /// Takes the waiting rows of samples, steps and events; rollups stay until the batch ends,
    /// because a minute may continue in the next block.
    pub(super) fn take(&mut self) -> Result<Vec<(Table, RecordBatch)>, ArrowError> {
        self.text_bytes = 0;
        let mut samples = self.samples.take();
        samples.extend(self.numbers.take());
        let mut events = self.events.take();
        events.push(array(self.is_oom.finish()));
        events.push(array(self.is_alert.finish()));
        let tables = [
            (Table::Samples, samples),
            (Table::Steps, self.steps.take()),
            (Table::Events, events),
        ];
        let batches = tables.into_iter().map(|(table, columns)| {
            let batch = RecordBatch::try_new(table.schema(), columns)?;
            Ok((table, batch))
        });
        batches.collect()
    }

    /// Takes the rollups of all events that were added since the last call.
    pub(super) fn take_rollups(&mut self) -> Result<RecordBatch, ArrowError> {
        std::mem::take(&mut self.rollups).finish()
    }
}

/// Whether an event is a sample.
pub(crate) fn is_sample(event: EventRef<'_>) -> bool {
    classify::is_sample(event.event_type())
}

fn array<A: Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

/// Returns the finished column, and reserves space for as many rows in the next one.
fn taken(column: &mut Int64Builder) -> ArrayRef {
    let finished = column.finish();
    *column = Int64Builder::with_capacity(finished.len());
    array(finished)
}

/// Like [`taken`], for a column of texts.
fn taken_text(column: &mut StringBuilder) -> ArrayRef {
    let finished = column.finish();
    let bytes = finished.value_data().len();
    *column = StringBuilder::with_capacity(finished.len(), bytes);
    array(finished)
}

/// A column of texts in which most rows repeat the row before.
#[derive(Default)]
struct TextColumn {
    builder: StringBuilder,
    last: Option<Vec<u8>>,
    /// How many rows with the last text are not in the builder yet.
    waiting: usize,
}

impl TextColumn {
    /// Adds a row; bytes of its text that are not UTF-8, such as a lone surrogate, are replaced
    /// when the text is written.
    fn push(&mut self, text: Option<&[u8]>) {
        if text != self.last.as_deref() {
            self.flush();
            self.last = text.map(<[u8]>::to_vec);
        }
        self.waiting += 1;
    }

    fn flush(&mut self) {
        let last = self.last.as_deref().map(String::from_utf8_lossy);
        repeat(&mut self.builder, last.as_deref(), self.waiting);
        self.waiting = 0;
    }

    fn take(&mut self) -> ArrayRef {
        self.flush();
        taken_text(&mut self.builder)
    }
}

/// Consecutive rows with the same day and the same origin (session, process, rank and device). A
/// run of rows has nothing to do with the run of a job.
#[derive(Clone, Copy)]
struct Run<'a> {
    origin: &'a Origin,
    day: i32,
    rows: usize,
}

impl<'a> Run<'a> {
    /// Adds the row of an event to the current run of rows. If the event has another day or origin,
    /// a new run of rows begins, and the one before it is returned.
    fn extend(current: &mut Option<Self>, event: EventRef<'a>) -> Option<Self> {
        let (origin, day) = (event.origin(), day(event.timestamp_ns()));
        match current {
            Some(run) if std::ptr::eq(run.origin, origin) && run.day == day => {
                run.rows += 1;
                None
            }
            _ => current.replace(Run {
                origin,
                day,
                rows: 1,
            }),
        }
    }
}

/// The columns that samples and other events share, in the order of the tables' schema.
#[derive(Default)]
struct EventColumns {
    date: Date32Builder,
    source_id: StringBuilder,
    seq: Int64Builder,
    timestamp_ns: Int64Builder,
    session_id: StringBuilder,
    host: StringBuilder,
    job_id: StringBuilder,
    numbers: [Int64Builder; 5],
    collector: StringBuilder,
    sampling_interval_ms: Int64Builder,
    schema_version: Int64Builder,
    event_type: TextColumn,
    context: TextColumn,
    counters: [Int64Builder; 8],
    metadata: StringBuilder,
}

impl EventColumns {
    /// Adds the values of an event that differ from row to row, and counts the row in the current
    /// run of rows. [`end_run`](Self::end_run) adds the values that are equal in the whole run.
    fn push<'a>(
        &mut self,
        source_id: &str,
        seq: i64,
        event: EventRef<'a>,
        metadata: &str,
        run: &mut Option<Run<'a>>,
    ) {
        let ended = Run::extend(run, event);
        self.end_run(source_id, ended);
        self.seq.append_value(seq);
        self.timestamp_ns.append_value(event.timestamp_ns());
        self.event_type.push(Some(event.event_type()));
        self.context.push(event.context());
        let counters = event.counters().values();
        for (column, counter) in self.counters.iter_mut().zip(counters) {
            column.append_option(counter);
        }
        self.metadata.append_value(metadata);
    }

    /// Adds the columns that are the same in all rows of a run.
    fn end_run(&mut self, source_id: &str, run: Option<Run<'_>>) {
        let Some(Run { origin, day, rows }) = run else {
            return;
        };
        self.date.append_value_n(day, rows);
        repeat(&mut self.source_id, Some(source_id), rows);
        let texts = [
            (&mut self.session_id, Some(&origin.session_id)),
            (&mut self.host, Some(&origin.host)),
            (&mut self.job_id, origin.job_id.as_ref()),
            (&mut self.collector, Some(&origin.collector)),
        ];
        for (column, value) in texts {
            repeat(column, value.map(text).as_deref(), rows);
        }
        let numbers = [
            origin.pid,
            origin.rank,
            origin.local_rank,
            origin.world_size,
            origin.device_id,
        ];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.append_value_n(number, rows);
        }
        self.sampling_interval_ms
            .append_value_n(origin.sampling_interval_ms, rows);
        self.schema_version
            .append_value_n(origin.version.number(), rows);
    }

    fn len(&self) -> usize {
        use datafusion::arrow::array::ArrayBuilder;
        self.seq.len()
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let mut columns = vec![
            array(self.date.finish()),
            taken_text(&mut self.source_id),
            taken(&mut self.seq),
            taken(&mut self.timestamp_ns),
            taken_text(&mut self.session_id),
            taken_text(&mut self.host),
            taken_text(&mut self.job_id),
        ];
        columns.extend(self.numbers.iter_mut().map(taken));
        columns.push(taken_text(&mut self.collector));
        columns.push(taken(&mut self.sampling_interval_ms));
        columns.push(taken(&mut self.schema_version));
        columns.push(self.event_type.take());
        columns.push(self.context.take());
        columns.extend(self.counters.iter_mut().map(taken));
        columns.push(taken_text(&mut self.metadata));
        columns
    }
}

/// The columns for the numbers in the metadata of samples.
struct NumberColumns(Vec<(SampleNumber, Int64Builder)>);

impl Default for NumberColumns {
    fn default() -> Self {
        let columns = covered().map(|(number, _)| (number, Int64Builder::new()));
        Self(columns.collect())
    }
}

impl NumberColumns {
    fn push(&mut self, numbers: &SampleNumbers) {
        for (number, column) in &mut self.0 {
            column.append_option(numbers[*number]);
        }
    }

    fn take(&mut self) -> impl Iterator<Item = ArrayRef> {
        self.0.iter_mut().map(|(_, column)| taken(column))
    }
}

/// Adds several rows with the same text to a column.
fn repeat(column: &mut StringBuilder, text: Option<&str>, rows: usize) {
    match text {
        Some(text) => column.append_value_n(text, rows),
        None => column.append_nulls(rows),
    }
}

#[derive(Default)]
struct StepColumns {
    date: Date32Builder,
    source_id: StringBuilder,
    seq: Int64Builder,
    timestamp_ns: Int64Builder,
    session_id: StringBuilder,
    rank: Int64Builder,
    device_id: Int64Builder,
    numbers: [Int64Builder; 6],
}

impl StepColumns {
    /// Adds the values of a step that differ from row to row, and counts the row in the current
    /// run of rows. [`end_run`](Self::end_run) adds the values that are equal in the whole run.
    fn push<'a>(
        &mut self,
        source_id: &str,
        seq: i64,
        event: EventRef<'a>,
        numbers: &SampleNumbers,
        run: &mut Option<Run<'a>>,
    ) {
        let ended = Run::extend(run, event);
        self.end_run(source_id, ended);
        self.seq.append_value(seq);
        self.timestamp_ns.append_value(event.timestamp_ns());
        let values = [
            numbers[SampleNumber::Optimizer],
            numbers[SampleNumber::Step],
            numbers[SampleNumber::StepCount],
            event.allocated_bytes(),
            event.reserved_bytes(),
            numbers[SampleNumber::AllocatorPeak],
        ];
        for (column, value) in self.numbers.iter_mut().zip(values) {
            column.append_option(value);
        }
    }

    /// Adds the columns that are the same in all rows of a run.
    fn end_run(&mut self, source_id: &str, run: Option<Run<'_>>) {
        let Some(Run { origin, day, rows }) = run else {
            return;
        };
        self.date.append_value_n(day, rows);
        repeat(&mut self.source_id, Some(source_id), rows);
        repeat(&mut self.session_id, Some(&text(&origin.session_id)), rows);
        self.rank.append_value_n(origin.rank, rows);
        self.device_id.append_value_n(origin.device_id, rows);
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let mut columns = vec![
            array(self.date.finish()),
            taken_text(&mut self.source_id),
            taken(&mut self.seq),
            taken(&mut self.timestamp_ns),
            taken_text(&mut self.session_id),
            taken(&mut self.rank),
            taken(&mut self.device_id),
        ];
        columns.extend(self.numbers.iter_mut().map(taken));
        columns
    }
}

/// Converts a text to UTF-8, which tables need; a lone surrogate is replaced, as in other outputs.
pub(super) fn text(text: &Text) -> std::borrow::Cow<'_, str> {
    text.to_str_lossy()
}
