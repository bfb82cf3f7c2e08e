//! Tests the readers on files: the runs in `fixtures/runs`, generated hostile inputs, and
//! properties that hold for every input.

mod allocator_snapshots;
mod bundles;
mod comparisons;
mod compressed;
mod csv;
mod damage;
mod documents;
mod event_stream;
mod hostile;
mod issue_states;
mod properties;
mod query;
mod query_runs;
mod random_records;
mod recording;
mod sinks;
mod streaming;
mod support;
mod verdicts;
