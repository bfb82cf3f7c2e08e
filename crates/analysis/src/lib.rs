//! What lives after the crash: loads artifacts and says what they show.
//!
//! Given the same folder it says the same thing: it reads no clock and asks nothing of the
//! machine that it runs on.

pub mod allocator_snapshot;
mod columns;
pub mod compare;
pub mod detect;
pub mod device_profile;
mod folder;
mod gather;
pub mod issue;
mod load;
mod overview;
pub mod parity;
pub mod query;
pub mod regular_file;
pub mod report;
mod rollups;
pub mod timeline;

pub use columns::{EventRef, Events, Origin};
pub use folder::{Artifacts, artifacts_at, device_artifacts_at, find_artifacts};
pub use gather::{Gathered, gather};
pub use load::{
    Artifact, Damage, LiveLook, LiveRun, LoadError, LoadOptions, Loaded, LoadedSession, OnError,
    Removed, TooLarge, default_session, load_events, load_sessions, manifest_path, read_manifest,
    segment_paths, sink_names, stream_events,
};
pub use overview::{Overview, Peak};
pub use rollups::{read_rollups, rollup_path, session_rollup};
