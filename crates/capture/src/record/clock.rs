//! The clock that gives records their times in nanoseconds, and the conversion of times to seconds.

pub use crate::store::now_ns;

/// Converts a time from nanoseconds to seconds, which statistics and the events of stormlog 0.3.9
/// contain.
pub fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 / 1e9
}
