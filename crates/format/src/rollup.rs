//! Rollups are totals and peaks of the events of a sink per session, rank and time window; they
//! answer queries without reading the events.

mod build;
mod file;
mod lines;
mod numbers;
mod observe;
mod read;
mod skim;

pub use build::{SegmentRollup, SessionRollupBuilder};
pub use file::{
    AlertSummary, CounterSummary, Coverage, HealthSummary, OomSummary, Peak, RankRollup,
    RollupFile, SessionRollup, WindowRollup,
};
pub use lines::{LineError, events_of_lines, observe_lines};
pub use numbers::Numbers;
pub use observe::{Health, Incident, Kind, MetadataContent, Observation};
pub use read::RollupError;
pub use skim::without_windows;

/// The name of the rollup file in a sink.
pub const ROLLUP_FILENAME: &str = crate::file_names::ROLLUPS;

/// The value of the key `format` in a rollup file.
pub const ROLLUP_FORMAT: &str = "stormlog.telemetry_rollups";

/// The version of the rollup file that Stormlog writes.
pub const ROLLUP_VERSION: i64 = 1;

/// The default length of a time window of rollups, in nanoseconds.
pub const DEFAULT_WINDOW_NS: i64 = 60_000_000_000;
