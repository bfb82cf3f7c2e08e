//! Everything that happens after a run: loading its artifacts and analyzing them.
//!
//! The results depend only on the artifacts. The crate reads no clock and no state of the machine
//! it runs on.

pub mod allocator_snapshot;
pub mod analyze;
mod bytes;
pub mod catalog;
mod columns;
pub mod compare;
pub mod compression;
mod damage;
pub mod detect;
pub mod device_profile;
mod digest;
pub mod document;
pub mod expansion;
mod gather;
mod in_order;
pub mod issue;
mod issue_search;
pub mod listing;
mod liveness;
mod load;
mod load_error;
mod notices;
mod open_run;
mod overview;
pub mod pack;
pub mod query;
mod rank_name;
pub mod regular_file;
mod rollups;
mod segment_times;
mod stamp;
mod stats;
pub mod table_rows;
mod tail;
pub mod timeline;
mod untrusted;

pub use bytes::read_document as read_whole;
pub use catalog::{
    Artifact, Artifacts, artifacts_at, device_artifacts_at, find_artifacts, manifest_path,
    read_manifest, segment_paths, sink_names, sinks_of_run, tidy,
};
pub use columns::{EventRef, Events, EventsBuilder, Origin, RowId};
pub use damage::Damage;
pub use digest::{record_id, sha256_hex};
pub use gather::{Gathered, gather, load_all_events, load_all_sessions};
pub use load::{
    LoadOptions, Loaded, LoadedSession, OnError, ParsedFiles, Removed, StreamedLines, TooLarge,
    absolute, default_session, load_document, load_events, load_sessions, loaded_of_events,
    open_text, stream_events, stream_lines,
};
pub use load_error::LoadError;
pub use notices::{Noticed, event_label, notices};
pub use open_run::{Choice, DiagnosedRun, OpenRun, Pace, RefreshError};
pub use overview::{Overview, Peak};
pub use rank_name::{name_without_rank, rank_in_name};
pub use rollups::{read_rollups, rollup_path, session_rollup};
pub use stats::median;
