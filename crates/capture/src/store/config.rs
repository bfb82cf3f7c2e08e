//! The configuration of a sink: where it is, and when it flushes, rolls over and prunes.

use std::path::PathBuf;
use std::time::Duration;

use stormlog_format::SinkNames;

use super::thinning::Thinning;

/// How a sink stores its events.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkConfig {
    /// The directory of the sink. The directory is created when it is missing.
    pub root_dir: PathBuf,
    /// The file names of the sink. A host sink has no rollups.
    pub names: SinkNames,
    /// Flush when this many events are buffered.
    pub flush_every_events: u64,
    /// Flush when this much time passed since the last flush.
    pub flush_every: Duration,
    /// Start a new segment when the current one has this many bytes.
    pub rollover_max_bytes: u64,
    /// Start a new segment when the current one has this many events.
    pub rollover_max_events: u64,
    /// Keep at most this many segments.
    pub retention_max_files: u64,
    /// Keep at most this many bytes of segments.
    pub retention_max_total_bytes: u64,
    /// Write `rollups.json` when the sink is closed.
    pub write_rollups: bool,
    /// The length of a window in the rollups.
    pub rollup_window: Duration,
    /// Keep the whole run within a budget by thinning its older part. The limits of retention then
    /// do not apply. `None` on a directory that an earlier sink has thinned means the budget of
    /// that sink.
    pub thinning: Option<Thinning>,
}

impl SinkConfig {
    /// The defaults for a directory.
    pub fn new(root_dir: impl Into<PathBuf>) -> Self {
        Self {
            root_dir: root_dir.into(),
            names: SinkNames::Ordinary,
            flush_every_events: 50,
            flush_every: Duration::from_secs(2),
            rollover_max_bytes: 64 << 20,
            rollover_max_events: 10_000,
            retention_max_files: 8,
            retention_max_total_bytes: 512 << 20,
            write_rollups: true,
            rollup_window: Duration::from_mins(1),
            thinning: None,
        }
    }

    /// The size at which a segment rolls over.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let by_thinning = self.thinning.map(Thinning::segment_bytes);
        by_thinning.map_or(self.rollover_max_bytes, |bytes| {
            bytes.min(self.rollover_max_bytes)
        })
    }
}
