//! Counts of rollovers to a new segment, deleted segments and remaining segments of a sink.

use serde::Serialize;

/// How many times a sink started a new segment (a rollover), how many segments and bytes it
/// deleted, and how many segments and bytes are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnostics {
    /// How often a full segment was closed and the next one begun.
    pub rollover_count: u64,
    /// Segments that were deleted to stay within the limits of the sink.
    pub pruned_segment_count: u64,
    /// Bytes of these segments.
    pub pruned_bytes: u64,
    /// Segments in the sink when it was closed.
    pub final_retained_files: u64,
    /// Bytes of the segments in the sink when it was closed.
    pub final_retained_bytes: u64,
}
