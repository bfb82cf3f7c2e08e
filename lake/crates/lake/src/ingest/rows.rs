//! Converts events to rows of the tables `samples`, `steps`, `events` and `rollups`.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Int64Builder, RecordBatch, StringBuilder,
};
use datafusion::arrow::error::ArrowError;
use stormlog_analysis::EventRef;
use stormlog_format::{EventType, Text, classify};
use stormlog_lake_tables::{COVERED, Covered, Table, split_metadata};

use super::rollups::Rollups;

/// At most this many rows are encoded at a time.
const MOST_ROWS: usize = 1 << 16;
/// At most this many bytes of texts are encoded at a time, because an event may have megabytes of
/// text.
const MOST_TEXT: usize = 32 << 20;
const NS_A_DAY: i64 = 86_400_000_000_000;

/// The date of a time, in days since 1970.
pub(super) fn day(timestamp_ns: i64) -> i32 {
    // The conversion cannot fail, because 292 years, the range of a time, are about 100,000 days.
    i32::try_from(timestamp_ns.div_euclid(NS_A_DAY)).unwrap_or(0)
}

/// The rows of the four tables of events while a batch is read.
#[derive(Default)]
pub(super) struct FactRows {
    samples: EventColumns,
    covered: [Int64Builder; COVERED.len()],
    events: EventColumns,
    is_oom: BooleanBuilder,
    is_alert: BooleanBuilder,
    steps: StepColumns,
    rollups: Rollups,
    /// A buffer, reused for the part of each sample's metadata that has no columns.
    rest: Vec<u8>,
    /// The bytes of the texts in the rows that wait.
    text_bytes: usize,
}

/// The tables that do not have the current range of events yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted(pub(super) Vec<Table>);

impl Wanted {
    pub(super) fn has(&self, table: Table) -> bool {
        self.0.contains(&table)
    }
}

impl FactRows {
    /// Adds an event to those of the four tables that do not have it yet.
    pub(super) fn push(&mut self, source_id: &str, seq: i64, event: EventRef<'_>, wanted: &Wanted) {
        self.text_bytes += event.metadata_json().len();
        if !is_sample(event) {
            if wanted.has(Table::Events) {
                self.push_event(source_id, seq, event);
            }
            return;
        }
        let numbers = split_metadata(event.metadata_json(), &mut self.rest);
        if wanted.has(Table::Samples) {
            self.samples.push(source_id, seq, event, &self.rest);
            for (column, number) in self.covered.iter_mut().zip(numbers) {
                column.append_option(number);
            }
        }
        if wanted.has(Table::Steps) && numbers[0].is_some() {
            self.steps.push(source_id, seq, event, &numbers);
        }
        if wanted.has(Table::Rollups) {
            self.rollups.push(source_id, event, &numbers);
        }
    }

    fn push_event(&mut self, source_id: &str, seq: i64, event: EventRef<'_>) {
        self.events
            .push(source_id, seq, event, event.metadata_json());
        let event_type = Text::from_bytes(event.event_type());
        let metadata = event.metadata();
        self.is_oom
            .append_value(classify::is_oom(&event_type, &metadata));
        self.is_alert
            .append_value(classify::is_alert(&event_type, &metadata));
    }

    /// Whether so many rows wait that they should be written.
    pub(super) fn is_full(&self) -> bool {
        self.samples.len() + self.events.len() >= MOST_ROWS || self.text_bytes >= MOST_TEXT
    }

    /// Takes the waiting rows of samples, steps and events; rollups stay until the batch ends,
    /// because a minute may continue in the next block.
    pub(super) fn take(&mut self) -> Result<Vec<(Table, RecordBatch)>, ArrowError> {
        self.text_bytes = 0;
        let mut samples = self.samples.take();
        samples.extend(self.covered.iter_mut().map(|column| array(column.finish())));
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

/// Whether an event is a sample; the case of the event type is ignored.
pub(crate) fn is_sample(event: EventRef<'_>) -> bool {
    let kind = event.event_type();
    let sample = EventType::Sample.as_str().as_bytes();
    kind == sample || kind.trim_ascii().eq_ignore_ascii_case(sample)
}

fn array<A: datafusion::arrow::array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
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
    event_type: StringBuilder,
    context: StringBuilder,
    counters: [Int64Builder; 8],
    metadata: StringBuilder,
}

impl EventColumns {
    fn push(&mut self, source_id: &str, seq: i64, event: EventRef<'_>, metadata: &[u8]) {
        let origin = event.origin();
        self.date.append_value(day(event.timestamp_ns()));
        self.source_id.append_value(source_id);
        self.seq.append_value(seq);
        self.timestamp_ns.append_value(event.timestamp_ns());
        self.session_id.append_value(text(&origin.session_id));
        self.host.append_value(text(&origin.host));
        let job_id = origin.job_id.as_ref().map(text);
        self.job_id.append_option(job_id);
        let numbers = [
            origin.pid,
            origin.rank,
            origin.local_rank,
            origin.world_size,
            origin.device_id,
        ];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.append_value(number);
        }
        self.collector.append_value(text(&origin.collector));
        self.sampling_interval_ms
            .append_value(origin.sampling_interval_ms);
        self.schema_version.append_value(origin.version.number());
        self.event_type.append_value(utf8(event.event_type()));
        self.context.append_option(event.context().map(utf8));
        let counters = event.counters().named();
        for (column, (_, counter)) in self.counters.iter_mut().zip(counters) {
            column.append_option(counter);
        }
        self.metadata.append_value(utf8(metadata));
    }

    fn len(&self) -> usize {
        use datafusion::arrow::array::ArrayBuilder;
        self.seq.len()
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let mut columns = vec![
            array(self.date.finish()),
            array(self.source_id.finish()),
            array(self.seq.finish()),
            array(self.timestamp_ns.finish()),
            array(self.session_id.finish()),
            array(self.host.finish()),
            array(self.job_id.finish()),
        ];
        columns.extend(self.numbers.iter_mut().map(|column| array(column.finish())));
        columns.push(array(self.collector.finish()));
        columns.push(array(self.sampling_interval_ms.finish()));
        columns.push(array(self.schema_version.finish()));
        columns.push(array(self.event_type.finish()));
        columns.push(array(self.context.finish()));
        columns.extend(
            self.counters
                .iter_mut()
                .map(|column| array(column.finish())),
        );
        columns.push(array(self.metadata.finish()));
        columns
    }
}

#[derive(Default)]
struct StepColumns {
    date: Date32Builder,
    source_id: StringBuilder,
    seq: Int64Builder,
    timestamp_ns: Int64Builder,
    session_id: StringBuilder,
    numbers: [Int64Builder; 8],
}

impl StepColumns {
    fn push(&mut self, source_id: &str, seq: i64, event: EventRef<'_>, numbers: &Covered) {
        let origin = event.origin();
        self.date.append_value(day(event.timestamp_ns()));
        self.source_id.append_value(source_id);
        self.seq.append_value(seq);
        self.timestamp_ns.append_value(event.timestamp_ns());
        self.session_id.append_value(text(&origin.session_id));
        let [step, optimizer, step_count, peak, ..] = *numbers;
        let values = [
            Some(origin.rank),
            Some(origin.device_id),
            optimizer,
            step,
            step_count,
            event.allocated_bytes(),
            event.reserved_bytes(),
            peak,
        ];
        for (column, value) in self.numbers.iter_mut().zip(values) {
            column.append_option(value);
        }
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let mut columns = vec![
            array(self.date.finish()),
            array(self.source_id.finish()),
            array(self.seq.finish()),
            array(self.timestamp_ns.finish()),
            array(self.session_id.finish()),
        ];
        columns.extend(self.numbers.iter_mut().map(|column| array(column.finish())));
        columns
    }
}

/// A text in the form that tables have; a lone surrogate is replaced, as in other outputs.
pub(super) fn text(text: &Text) -> std::borrow::Cow<'_, str> {
    text.to_str_lossy()
}

fn utf8(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
