//! The names and columns of a lake's tables.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use stormlog_format::Counters;

use crate::metadata::covered;

/// A table of the lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// One row for each sample: the counters, and the numbers in its metadata.
    Samples,
    /// One row for each sample that was taken at the end of an optimizer step.
    Steps,
    /// One row for each event that is not a sample.
    Events,
    /// One row for each minute of a track (the samples of one device in one session and rank). A
    /// minute whose samples were ingested in parts has several rows.
    Rollups,
    /// One row for each session.
    Sessions,
    /// One row for each OOM bundle, a report about an out-of-memory error.
    Ooms,
    /// One row for each run. A run consists of the sessions of all ranks of one launch of a job.
    Runs,
    /// One row for each finding (a detected memory problem) of a run.
    Findings,
    /// One row for each issue (a recurring problem) of a run.
    Issues,
    /// One row for each unit (sink, file or bundle) that was ingested.
    Sources,
}

/// The type of a column; a column whose kind starts with `Maybe` can be `NULL`.
#[derive(Clone, Copy)]
enum Kind {
    Date,
    Int,
    MaybeInt,
    MaybeFloat,
    Flag,
    Text,
    MaybeText,
}

use Kind::{Date, Flag, Int, MaybeFloat, MaybeInt, MaybeText, Text};

type Columns = &'static [(&'static str, Kind)];

/// The columns that show where a row of events comes from and when it was recorded.
const ORIGIN: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("seq", Int),
    ("timestamp_ns", Int),
    ("session_id", Text),
    ("host", Text),
    ("job_id", MaybeText),
    ("pid", Int),
    ("rank", Int),
    ("local_rank", Int),
    ("world_size", Int),
    ("device_id", Int),
    ("collector", Text),
    ("sampling_interval_ms", Int),
    ("schema_version", Int),
    ("event_type", Text),
    ("context", MaybeText),
];

const OF_EVENTS: Columns = &[("is_oom", Flag), ("is_alert", Flag)];

const STEPS: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("seq", Int),
    ("timestamp_ns", Int),
    ("session_id", Text),
    ("rank", Int),
    ("device_id", Int),
    ("optimizer", MaybeInt),
    ("step", Int),
    ("step_count", MaybeInt),
    ("floor_bytes", MaybeInt),
    ("reserved_bytes", MaybeInt),
    ("peak_counter_bytes", MaybeInt),
];

const ROLLUPS: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("session_id", Text),
    ("host", Text),
    ("job_id", MaybeText),
    ("rank", Int),
    ("device_id", Int),
    ("minute_ns", Int),
    ("samples", Int),
    ("first_ns", Int),
    ("last_ns", Int),
    ("sampling_interval_ms", Int),
    ("allocated_known", Int),
    ("allocated_sum_bytes", MaybeInt),
    ("allocated_min_bytes", MaybeInt),
    ("allocated_max_bytes", MaybeInt),
    ("allocated_first_bytes", MaybeInt),
    ("allocated_last_bytes", MaybeInt),
    ("reserved_known", Int),
    ("reserved_sum_bytes", MaybeInt),
    ("reserved_min_bytes", MaybeInt),
    ("reserved_max_bytes", MaybeInt),
    ("used_known", Int),
    ("used_sum_bytes", MaybeInt),
    ("used_min_bytes", MaybeInt),
    ("used_max_bytes", MaybeInt),
    ("unused_known", Int),
    ("unused_sum_bytes", MaybeInt),
    ("free_min_bytes", MaybeInt),
    ("total_max_bytes", MaybeInt),
    ("step_ends", Int),
    ("step_floor_min_bytes", MaybeInt),
];

const SESSIONS: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("run_id", Text),
    ("session_id", Text),
    ("status", Text),
    ("effective_status", Text),
    ("started_at_ns", Int),
    ("ended_at_ns", MaybeInt),
    ("host", Text),
    ("pid", Int),
    ("job_id", MaybeText),
    ("rank", Int),
    ("local_rank", Int),
    ("world_size", Int),
    ("source", Text),
    ("recorder", MaybeText),
    ("source_path", Text),
    ("source_kind", Text),
    ("source_count", Int),
    ("warning_count", Int),
    ("event_count", MaybeInt),
    ("oom_bundle_count", Int),
    ("thinned_until_ns", MaybeInt),
    ("start_metadata", MaybeText),
    ("owner", MaybeText),
    // The path of the file with the session's first events, or the path of the source if the
    // session was not loaded.
    ("first_file", Text),
    // Whether a manifest of the source lists the session.
    ("is_listed", Flag),
];

const OOMS: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("bundle_path", Text),
    ("created_at_utc", MaybeText),
    ("created_ns", MaybeInt),
    ("backend", MaybeText),
    ("reason", MaybeText),
    ("event_count", MaybeInt),
    ("session_id", MaybeText),
    ("session_status", MaybeText),
    ("exception_type", MaybeText),
    ("exception_module", MaybeText),
    // The text of the bundle's `metadata.json`, from which detectors read the numbers of the failed
    // allocation.
    ("details", MaybeText),
];

const RUNS: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("run_id", Text),
    ("job_id", MaybeText),
    ("program", MaybeText),
    ("git_commit", MaybeText),
    ("framework", MaybeText),
    ("framework_version", MaybeText),
    ("owner", MaybeText),
    ("world_size", Int),
    ("ranks", Int),
    ("sessions", Int),
    ("session_ids", Text),
    ("hosts", Text),
    ("started_at_ns", Int),
    ("ended_at_ns", MaybeInt),
    ("samples", Int),
    ("peak_allocated_bytes", MaybeInt),
    ("peak_reserved_bytes", MaybeInt),
    ("peak_used_bytes", MaybeInt),
    ("verdict", Text),
    ("severity", MaybeText),
    ("findings", Int),
    ("document", MaybeText),
];

const FINDINGS: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("run_id", Text),
    ("place", Int),
    ("session_id", Text),
    ("kind", Text),
    ("severity", Text),
    ("rank", MaybeInt),
    ("device_id", Int),
    ("onset_ns", MaybeInt),
    ("end_ns", MaybeInt),
    ("magnitude_bytes", MaybeInt),
    ("rate_bytes_per_s", MaybeFloat),
    ("time_to_full_s", MaybeFloat),
    ("confidence", MaybeFloat),
    ("phase", MaybeText),
    ("explanation", Text),
    ("advice", Text),
    ("document", Text),
];

const ISSUES: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("fingerprint_id", Text),
    ("kind", Text),
    ("severity", Text),
    ("title", Text),
    ("state", Text),
    ("hit_count", Int),
    ("first_seen_ns", MaybeInt),
    ("last_seen_ns", MaybeInt),
    ("affected_sessions", Text),
    ("document", Text),
];

const SOURCES: Columns = &[
    ("date", Date),
    ("source_id", Text),
    ("path", Text),
    ("kind", Text),
    ("bytes", Int),
    // A JSON object. Its keys are hashes of the source's content, and its values are the
    // `source_id` of the rows with that content.
    ("streams", Text),
    ("ingested_at_ns", Int),
    ("damage", Text),
    ("manifest_path", MaybeText),
    // The text of `rollups.json`. NULL when it cannot be read, or when it does not match the
    // segments, events or bytes in the manifest.
    ("rollups", MaybeText),
    // The attachments in files `stormlog_attachments.json` beside the source, as a JSON list.
    ("attachments", MaybeText),
];

/// The columns that the tables `samples` and `events` have in common.
fn event_columns() -> impl Iterator<Item = (&'static str, Kind)> {
    let counters = Counters::NAMES.map(|name| (name, MaybeInt));
    let metadata = [("metadata", Text)];
    ORIGIN.iter().copied().chain(counters).chain(metadata)
}

impl Table {
    /// All tables, in the order in which an ingest commits them.
    pub const ALL: [Self; 10] = [
        Self::Samples,
        Self::Steps,
        Self::Events,
        Self::Rollups,
        Self::Sessions,
        Self::Ooms,
        Self::Runs,
        Self::Findings,
        Self::Issues,
        Self::Sources,
    ];

    /// The tables to which an ingest only adds rows, without replacing older ones.
    pub const APPENDED: [Self; 4] = [Self::Samples, Self::Steps, Self::Events, Self::Rollups];

    /// The tables in which the rows of a source are replaced when the source has grown.
    pub const REPLACED: [Self; 6] = [
        Self::Sessions,
        Self::Ooms,
        Self::Runs,
        Self::Findings,
        Self::Issues,
        Self::Sources,
    ];

    /// The name of the table in SQL, which is also the name of its directory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Steps => "steps",
            Self::Events => "events",
            Self::Rollups => "rollups",
            Self::Sessions => "sessions",
            Self::Ooms => "ooms",
            Self::Runs => "runs",
            Self::Findings => "findings",
            Self::Issues => "issues",
            Self::Sources => "sources",
        }
    }

    /// The table with this SQL name; `None` if there is no such table.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    fn columns(self) -> Vec<(&'static str, Kind)> {
        let columns = match self {
            Self::Samples => {
                let numbers = covered().map(|(_, column)| (column, MaybeInt));
                return event_columns().chain(numbers).collect();
            }
            Self::Events => return event_columns().chain(OF_EVENTS.iter().copied()).collect(),
            Self::Steps => STEPS,
            Self::Rollups => ROLLUPS,
            Self::Sessions => SESSIONS,
            Self::Ooms => OOMS,
            Self::Runs => RUNS,
            Self::Findings => FINDINGS,
            Self::Issues => ISSUES,
            Self::Sources => SOURCES,
        };
        columns.to_vec()
    }

    /// The columns of the table, including the partition column `date`.
    pub fn schema(self) -> SchemaRef {
        let fields = self.columns().into_iter().map(|(name, kind)| {
            let (data_type, is_nullable) = match kind {
                Date => (DataType::Date32, false),
                Int => (DataType::Int64, false),
                MaybeInt => (DataType::Int64, true),
                MaybeFloat => (DataType::Float64, true),
                Flag => (DataType::Boolean, false),
                Text => (DataType::Utf8, false),
                MaybeText => (DataType::Utf8, true),
            };
            Field::new(name, data_type, is_nullable)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}
