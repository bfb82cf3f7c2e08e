//! Converts rows of `samples` and `events` to events; queries select the same columns from both
//! tables.

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{SortColumn, lexsort_to_indices, take_record_batch};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use stormlog_analysis::{Events, EventsBuilder};
use stormlog_format::json::RawString;
use stormlog_format::scan::{RawOrigin, RawRecord};
use stormlog_format::{Counters, SampleNumber, SampleNumbers, Version};
use stormlog_lake_tables::{covered, join_metadata};

use crate::columns::{Ints, Texts};

/// The columns of an event that the tables `samples` and `events` both have.
const SHARED: [&str; 17] = [
    "source_id",
    "seq",
    "timestamp_ns",
    "session_id",
    "host",
    "job_id",
    "pid",
    "rank",
    "local_rank",
    "world_size",
    "device_id",
    "collector",
    "sampling_interval_ms",
    "schema_version",
    "event_type",
    "context",
    "metadata",
];

/// Those of the [`SHARED`] columns that contain texts; the others contain integers.
const TEXTS: [&str; 8] = [
    "source_id",
    "session_id",
    "host",
    "job_id",
    "collector",
    "event_type",
    "context",
    "metadata",
];

/// The columns of an event, in the order in which queries select them, and whether each is a text.
pub(crate) fn event_columns() -> Vec<(&'static str, bool)> {
    let numbers = covered().map(|(_, column)| column);
    let columns = SHARED.into_iter().chain(Counters::NAMES).chain(numbers);
    columns.map(|name| (name, TEXTS.contains(&name))).collect()
}

/// A query for events of the tables `samples` and `events`, with the same columns from both.
#[derive(Debug, Default)]
pub(crate) struct EventQuery {
    /// The `WITH` clause at the start of the SQL statement; may be empty.
    pub(crate) with: String,
    /// The SQL condition for rows of the table `samples`; `None` selects none of them.
    pub(crate) of_samples: Option<String>,
    /// The SQL condition for rows of the table `events`; `None` selects none of them.
    pub(crate) of_events: Option<String>,
}

impl EventQuery {
    /// The SQL statement. `chosen` is the name of a relation with the columns `source_id` and
    /// `session_id`. The statement selects rows of the sessions in this relation, or of all
    /// sessions if `chosen` is empty.
    pub(crate) fn sql(&self, chosen: &str) -> String {
        let parts = [
            (
                "samples",
                &self.of_samples,
                covered().map(|(_, column)| column.to_owned()).collect(),
            ),
            (
                "events",
                &self.of_events,
                covered()
                    .map(|(_, column)| format!("CAST(NULL AS BIGINT) AS {column}"))
                    .collect::<Vec<_>>(),
            ),
        ];
        let selections = parts.into_iter().filter_map(|(table, condition, numbers)| {
            let condition = condition.as_ref()?;
            let shared = SHARED.into_iter().chain(Counters::NAMES);
            let columns = shared.map(|column| format!("{table}.{column} AS {column}"));
            let columns: Vec<String> = columns.chain(numbers).collect();
            let join = if chosen.is_empty() {
                String::new()
            } else {
                format!(
                    " JOIN {chosen} ON {table}.source_id = {chosen}.source_id \
                     AND {table}.session_id = {chosen}.session_id"
                )
            };
            let columns = columns.join(", ");
            Some(format!(
                "SELECT {columns} FROM {table}{join} WHERE {condition}"
            ))
        });
        let selections: Vec<String> = selections.collect();
        format!("{} {}", self.with, selections.join(" UNION ALL "))
    }
}

/// Sorts rows by time; rows of the same time stay in the order in which they were recorded.
pub(crate) fn in_time_order(batch: &RecordBatch) -> Result<RecordBatch> {
    let key = |name: &str| -> Result<SortColumn> {
        let column: &ArrayRef = batch
            .column_by_name(name)
            .ok_or_else(|| exec_datafusion_err!("the rows have no column '{name}'"))?;
        Ok(SortColumn {
            values: ArrayRef::clone(column),
            options: None,
        })
    };
    let indices = lexsort_to_indices(&[key("timestamp_ns")?, key("seq")?], None)?;
    Ok(take_record_batch(batch, &indices)?)
}

/// Converts rows with the columns of [`event_columns`] to events, in the order of the rows.
pub(crate) fn events_of(batch: &RecordBatch) -> Result<Events> {
    let mut builder = EventsBuilder::default();
    EventRows::of(batch)?.push_to(&mut builder);
    Ok(builder.finish())
}

/// Rows of events with typed access to their columns.
pub(crate) struct EventRows {
    rows: usize,
    pub(crate) source_id: Texts,
    pub(crate) session_id: Texts,
    timestamp_ns: Ints,
    host: Texts,
    job_id: Texts,
    pid: Ints,
    rank: Ints,
    local_rank: Ints,
    world_size: Ints,
    device_id: Ints,
    collector: Texts,
    sampling_interval_ms: Ints,
    schema_version: Ints,
    event_type: Texts,
    context: Texts,
    metadata: Texts,
    counters: Vec<Ints>,
    numbers: Vec<(SampleNumber, Ints)>,
}

impl EventRows {
    pub(crate) fn of(batch: &RecordBatch) -> Result<Self> {
        let text = |name| Texts::of(batch, name);
        let int = |name| Ints::of(batch, name);
        Ok(Self {
            rows: batch.num_rows(),
            source_id: text("source_id")?,
            session_id: text("session_id")?,
            timestamp_ns: int("timestamp_ns")?,
            host: text("host")?,
            job_id: text("job_id")?,
            pid: int("pid")?,
            rank: int("rank")?,
            local_rank: int("local_rank")?,
            world_size: int("world_size")?,
            device_id: int("device_id")?,
            collector: text("collector")?,
            sampling_interval_ms: int("sampling_interval_ms")?,
            schema_version: int("schema_version")?,
            event_type: text("event_type")?,
            context: text("context")?,
            metadata: text("metadata")?,
            counters: Counters::NAMES
                .iter()
                .map(|name| int(name))
                .collect::<Result<_>>()?,
            numbers: covered()
                .map(|(number, column)| Ok((number, int(column)?)))
                .collect::<Result<_>>()?,
        })
    }

    fn push_to(&self, builder: &mut EventsBuilder) {
        for row in 0..self.rows {
            self.push_row(row, builder);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Converts the row with this index to an event and adds it to the builder.
    pub(crate) fn push_row(&self, row: usize, builder: &mut EventsBuilder) {
        let mut numbers = SampleNumbers::default();
        for (number, column) in &self.numbers {
            numbers[*number] = column.get(row);
        }
        let mut counters = [None; 8];
        for (value, column) in counters.iter_mut().zip(&self.counters) {
            *value = column.get(row);
        }
        let metadata = join_metadata(self.metadata.text(row).as_bytes(), &numbers);
        let context = self.context.get(row).map(|text| RawString {
            bytes: text.as_bytes(),
            escaped: false,
        });
        builder.push(&RawRecord {
            timestamp_ns: self.timestamp_ns.number(row),
            origin: RawOrigin {
                version: version(self.schema_version.number(row)),
                session_id: self.session_id.text(row).as_bytes(),
                collector: self.collector.text(row).as_bytes(),
                sampling_interval_ms: self.sampling_interval_ms.number(row),
                pid: self.pid.number(row),
                host: self.host.text(row).as_bytes(),
                job_id: self.job_id.get(row).map(str::as_bytes),
                rank: self.rank.number(row),
                local_rank: self.local_rank.number(row),
                world_size: self.world_size.number(row),
                device_id: self.device_id.number(row),
            },
            event_type: self.event_type.text(row).as_bytes(),
            context,
            metadata: &metadata,
            repeats_metadata: false,
            counters,
        });
    }
}

/// The version of a record by its number. It is 3 or 4, because records of older versions were
/// converted when they were loaded.
fn version(number: i64) -> Version {
    if number == Version::V4.number() {
        Version::V4
    } else {
        Version::V3
    }
}
