//! The wall clock of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// A time in seconds, as statistics and older exports spell it.
#[expect(
    clippy::cast_precision_loss,
    reason = "a float of seconds is the format"
)]
pub fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 / 1e9
}
