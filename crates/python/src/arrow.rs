//! Exports the columns of events as an Arrow stream through the PyCapsule interface.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringBuilder, StringDictionaryBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use stormlog_analysis::{EventRef, Events};
use stormlog_format::Text;

/// The number of events in each record batch of the Arrow stream; the last batch may be smaller.
const EVENTS_PER_BATCH: usize = 1 << 16;

/// The schema of the Arrow stream. Columns of texts that often repeat are dictionary-encoded, and
/// metadata is JSON text.
pub(crate) fn schema() -> SchemaRef {
    let word = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let mut fields = vec![
        Field::new("schema_version", DataType::Int64, false),
        Field::new("session_id", word(), false),
        Field::new("timestamp_ns", DataType::Int64, false),
        Field::new("event_type", word(), false),
        Field::new("collector", word(), false),
        Field::new("sampling_interval_ms", DataType::Int64, false),
        Field::new("pid", DataType::Int64, false),
        Field::new("host", word(), false),
        Field::new("job_id", word(), true),
        Field::new("rank", DataType::Int64, false),
        Field::new("local_rank", DataType::Int64, false),
        Field::new("world_size", DataType::Int64, false),
        Field::new("device_id", DataType::Int64, false),
    ];
    let counters = stormlog_format::Counters::default().named();
    fields.extend(counters.map(|(name, _)| Field::new(name, DataType::Int64, true)));
    fields.push(Field::new("context", word(), true));
    fields.push(Field::new("metadata", DataType::Utf8, false));
    Arc::new(Schema::new(fields))
}

/// An Arrow stream of the events, which keeps their columns alive.
pub(crate) fn stream(events: Events) -> FFI_ArrowArrayStream {
    let starts = (0..events.len()).step_by(EVENTS_PER_BATCH);
    let batches = starts.map(move |start| batch(&events, start));
    FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, schema())))
}

fn batch(events: &Events, start: usize) -> Result<RecordBatch, ArrowError> {
    let rows = start..(start + EVENTS_PER_BATCH).min(events.len());
    let rows: Vec<EventRef<'_>> = rows.filter_map(|row| events.get(row)).collect();
    let mut columns: Vec<ArrayRef> = vec![
        integers(&rows, |row| row.origin().version.number()),
        words(&rows, |row| Some(row.origin().session_id.as_bytes()))?,
        integers(&rows, EventRef::timestamp_ns),
        words(&rows, |row| Some(row.event_type()))?,
        words(&rows, |row| Some(row.origin().collector.as_bytes()))?,
        integers(&rows, |row| row.origin().sampling_interval_ms),
        integers(&rows, |row| row.origin().pid),
        words(&rows, |row| Some(row.origin().host.as_bytes()))?,
        words(&rows, |row| {
            row.origin().job_id.as_ref().map(Text::as_bytes)
        })?,
        integers(&rows, |row| row.origin().rank),
        integers(&rows, |row| row.origin().local_rank),
        integers(&rows, |row| row.origin().world_size),
        integers(&rows, |row| row.origin().device_id),
    ];
    for counter in 0..8 {
        let mut column = Int64Builder::with_capacity(rows.len());
        for row in &rows {
            column.append_option(row.counters().named()[counter].1);
        }
        columns.push(Arc::new(column.finish()));
    }
    columns.push(words(&rows, EventRef::context)?);
    let mut metadata = StringBuilder::new();
    for row in &rows {
        metadata.append_value(String::from_utf8_lossy(&row.metadata_json()));
    }
    columns.push(Arc::new(metadata.finish()));
    RecordBatch::try_new(schema(), columns)
}

fn integers<'a>(rows: &[EventRef<'a>], value: impl Fn(EventRef<'a>) -> i64) -> ArrayRef {
    let mut column = Int64Builder::with_capacity(rows.len());
    for row in rows {
        column.append_value(value(*row));
    }
    Arc::new(column.finish())
}

fn words<'a>(
    rows: &[EventRef<'a>],
    text: impl Fn(EventRef<'a>) -> Option<&'a [u8]>,
) -> Result<ArrayRef, ArrowError> {
    let mut column = StringDictionaryBuilder::<Int32Type>::new();
    for row in rows {
        match text(*row) {
            Some(text) => {
                column.append(String::from_utf8_lossy(text))?;
            }
            None => column.append_null(),
        }
    }
    Ok(Arc::new(column.finish()))
}
