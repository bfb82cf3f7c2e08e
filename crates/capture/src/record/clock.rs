//! The clock that gives records their times, and conversion to the seconds that statistics contain.

pub use crate::store::now_ns;

/// A time in seconds, as statistics and older exports contain it.
pub fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 / 1e9
}
