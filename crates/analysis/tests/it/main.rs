//! The readers against files: stories under `fixtures/runs`, hostile inputs made on the spot,
//! and properties that hold for every input.

mod allocator_snapshots;
mod bundles;
mod compressed;
mod csv;
mod damage;
mod documents;
mod event_stream;
mod hostile;
mod issue_states;
mod properties;
mod query;
mod random_records;
mod recording;
mod sinks;
mod streaming;
mod support;
mod verdicts;
