//! Formats points in time as text for people.

use jiff::Timestamp;

/// Formats a point in time as `2026-11-15 10:49:03 UTC`. A time outside the range of the calendar
/// is printed in nanoseconds.
pub fn moment(timestamp_ns: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(timestamp_ns)) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{timestamp_ns} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        assert_eq!(moment(1_794_726_516_168_924_406), "2026-11-15 07:08:36 UTC");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
    }
}
