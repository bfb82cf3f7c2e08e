//! The clock that gives records their times in nanoseconds, and the conversion of times to seconds.

pub use crate::store::now_ns;

/// Converts a time from nanoseconds to seconds, the unit of times in statistics and in the events of
/// stormlog 0.3.9.
pub fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 / 1e9
}
