//! Rows of `samples` and `events` as the events that they were made of.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::DataFusionError;
use stormlog_format::json::parse;
use stormlog_format::{Counters, Event, Map, Text, Value, Version};

use crate::error::LakeError;
use crate::metadata::{COVERED, Covered, join_metadata};

/// The events of some rows, each with its `seq`; the columns may be in any order. Rows of `events` have
/// no columns of metadata.
pub fn events_of(rows: &RecordBatch) -> Result<Vec<(i64, Event)>, LakeError> {
    let columns = Columns::of(rows)?;
    (0..rows.num_rows()).map(|row| columns.event(row)).collect()
}

struct Columns {
    seq: Int64Array,
    timestamp_ns: Int64Array,
    session_id: StringArray,
    host: StringArray,
    job_id: StringArray,
    pid: Int64Array,
    rank: Int64Array,
    local_rank: Int64Array,
    world_size: Int64Array,
    device_id: Int64Array,
    collector: StringArray,
    sampling_interval_ms: Int64Array,
    schema_version: Int64Array,
    event_type: StringArray,
    context: StringArray,
    counters: [Int64Array; 8],
    metadata: StringArray,
    covered: Vec<Option<Int64Array>>,
}

impl Columns {
    fn of(rows: &RecordBatch) -> Result<Self, LakeError> {
        let counter = |name| integers(rows, name);
        let covered = COVERED.iter().map(|(name, ..)| {
            let is_there = rows.column_by_name(name).is_some();
            is_there.then(|| integers(rows, name)).transpose()
        });
        Ok(Self {
            seq: integers(rows, "seq")?,
            timestamp_ns: integers(rows, "timestamp_ns")?,
            session_id: texts(rows, "session_id")?,
            host: texts(rows, "host")?,
            job_id: texts(rows, "job_id")?,
            pid: integers(rows, "pid")?,
            rank: integers(rows, "rank")?,
            local_rank: integers(rows, "local_rank")?,
            world_size: integers(rows, "world_size")?,
            device_id: integers(rows, "device_id")?,
            collector: texts(rows, "collector")?,
            sampling_interval_ms: integers(rows, "sampling_interval_ms")?,
            schema_version: integers(rows, "schema_version")?,
            event_type: texts(rows, "event_type")?,
            context: texts(rows, "context")?,
            counters: [
                counter("allocator_allocated_bytes")?,
                counter("allocator_reserved_bytes")?,
                counter("allocator_active_bytes")?,
                counter("allocator_inactive_bytes")?,
                counter("allocator_change_bytes")?,
                counter("device_used_bytes")?,
                counter("device_free_bytes")?,
                counter("device_total_bytes")?,
            ],
            metadata: texts(rows, "metadata")?,
            covered: covered.collect::<Result<_, LakeError>>()?,
        })
    }

    fn event(&self, row: usize) -> Result<(i64, Event), LakeError> {
        let counter = |place: usize| number(&self.counters[place], row);
        let mut numbers = Covered::default();
        for (number_of, column) in numbers.iter_mut().zip(&self.covered) {
            *number_of = column.as_ref().and_then(|column| number(column, row));
        }
        let metadata = join_metadata(self.metadata.value(row).as_bytes(), &numbers);
        let metadata = match parse(&metadata) {
            Ok(Value::Map(map)) => map,
            _ => Map::new(),
        };
        let version = match self.schema_version.value(row) {
            3 => Version::V3,
            4 => Version::V4,
            other => {
                let reason = format!("schema_version {other} of a row is unknown");
                return Err(DataFusionError::Execution(reason).into());
            }
        };
        let event = Event {
            version,
            session_id: stored(self.session_id.value(row)),
            timestamp_ns: self.timestamp_ns.value(row),
            event_type: stored(self.event_type.value(row)),
            collector: stored(self.collector.value(row)),
            sampling_interval_ms: self.sampling_interval_ms.value(row),
            pid: self.pid.value(row),
            host: stored(self.host.value(row)),
            job_id: text(&self.job_id, row),
            rank: self.rank.value(row),
            local_rank: self.local_rank.value(row),
            world_size: self.world_size.value(row),
            device_id: self.device_id.value(row),
            counters: Counters {
                allocator_allocated_bytes: counter(0),
                allocator_reserved_bytes: counter(1),
                allocator_active_bytes: counter(2),
                allocator_inactive_bytes: counter(3),
                allocator_change_bytes: counter(4),
                device_used_bytes: counter(5),
                device_free_bytes: counter(6),
                device_total_bytes: counter(7),
            },
            context: text(&self.context, row),
            metadata,
        };
        Ok((self.seq.value(row), event))
    }
}

fn stored(value: &str) -> Text {
    Text::from(value)
}

fn text(column: &StringArray, row: usize) -> Option<Text> {
    column.is_valid(row).then(|| stored(column.value(row)))
}

fn number(column: &Int64Array, row: usize) -> Option<i64> {
    column.is_valid(row).then(|| column.value(row))
}

fn column(rows: &RecordBatch, name: &str, data_type: &DataType) -> Result<ArrayRef, LakeError> {
    let column = rows.column_by_name(name).ok_or_else(|| {
        let reason = format!("the rows have no column '{name}'");
        DataFusionError::Execution(reason)
    })?;
    let column = cast(column, data_type).map_err(DataFusionError::from)?;
    Ok(column)
}

fn integers(rows: &RecordBatch, name: &str) -> Result<Int64Array, LakeError> {
    let column = column(rows, name, &DataType::Int64)?;
    Ok(column.as_primitive::<Int64Type>().clone())
}

fn texts(rows: &RecordBatch, name: &str) -> Result<StringArray, LakeError> {
    let column = column(rows, name, &DataType::Utf8)?;
    Ok(column.as_string::<i32>().clone())
}
