//! Counts of rollovers to a new segment, deleted segments and remaining segments of a sink.

/// How many times a sink started a new segment (a rollover), how many segments and bytes it
/// deleted, and how many segments and bytes are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Diagnostics {
    /// The names and values of all fields, in their order.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("rollover_count", self.rollover_count),
            ("pruned_segment_count", self.pruned_segment_count),
            ("pruned_bytes", self.pruned_bytes),
            ("final_retained_files", self.final_retained_files),
            ("final_retained_bytes", self.final_retained_bytes),
        ]
    }
}
