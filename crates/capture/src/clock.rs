//! The clock that gives records their times in nanoseconds, and the conversion of times to seconds.

use std::time::{SystemTime, UNIX_EPOCH};

use stormlog_format::signed;

/// The time of the wall clock, in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| signed(since.as_nanos()))
}

/// Converts a time from nanoseconds to seconds, the unit of times in statistics and in the events of
/// stormlog 0.3.9.
pub fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 / 1e9
}
