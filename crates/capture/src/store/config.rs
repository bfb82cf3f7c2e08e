//! The configuration of a sink: its directory, and when it flushes, starts a new segment and
//! deletes old segments.

use std::path::{self, PathBuf};
use std::time::Duration;

use stormlog_format::SinkNames;

use super::thinning::Thinning;

/// Where a sink stores its events, and when it writes, splits and deletes its files.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkConfig {
    /// The directory of the sink, which is created when it is missing. An absolute path, because the
    /// program may change its working directory.
    pub root_dir: PathBuf,
    /// The file names of the sink. A host sink, which records host memory, has no rollups.
    pub names: SinkNames,
    /// The number of events in the buffer at which the sink writes them to its segment file.
    pub flush_every_events: u64,
    /// The time after the last flush at which the sink writes the buffered events to its segment
    /// file, however few they are.
    pub flush_every: Duration,
    /// The size in bytes at which the sink closes a segment, one of its files of events, and starts
    /// the next.
    pub rollover_max_bytes: u64,
    /// The number of events in a segment at which the sink starts a new one.
    pub rollover_max_events: u64,
    /// The largest number of segments that the sink keeps; it deletes the oldest segments above
    /// this limit.
    pub retention_max_files: u64,
    /// The largest number of bytes of segments that the sink keeps; it deletes the oldest segments
    /// above this limit.
    pub retention_max_total_bytes: u64,
    /// Whether `rollups.json`, a summary of every session in time windows, is written when the sink
    /// is closed.
    pub write_rollups: bool,
    /// The length of a time window in `rollups.json`.
    pub rollup_window: Duration,
    /// The number of bytes (the budget) that the whole sink may occupy; its older part is thinned,
    /// so that the sink stays within the budget. With a budget, the sink ignores the limits of
    /// retention. In a directory that an earlier sink has thinned, `None` means the budget of that
    /// earlier sink.
    pub thinning: Option<Thinning>,
}

impl SinkConfig {
    /// The default configuration of a sink that stores its events in `root_dir`, relative to the
    /// current working directory.
    pub fn new(root_dir: impl Into<PathBuf>) -> Self {
        let root_dir = root_dir.into();
        Self {
            root_dir: path::absolute(&root_dir).unwrap_or(root_dir),
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

    /// The size in bytes at which the sink starts a new segment:
    /// [`rollover_max_bytes`](Self::rollover_max_bytes), or less if the thinning budget needs
    /// smaller segments.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let by_thinning = self.thinning.map(Thinning::segment_bytes);
        by_thinning.map_or(self.rollover_max_bytes, |bytes| {
            bytes.min(self.rollover_max_bytes)
        })
    }
}
