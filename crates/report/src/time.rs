//! Formats times and durations in nanoseconds as text for people.

use jiff::Timestamp;

/// Formats a point in time as `2026-11-15 10:49:03 UTC`. A time outside the range of the calendar
/// is printed in nanoseconds.
pub fn moment(timestamp_ns: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(timestamp_ns)) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{timestamp_ns} ns"),
    }
}

/// Formats a duration as `1.2 s`, `3 min 20 s`, `2 h 05 min` or `3 d 4 h`.
pub fn span(nanoseconds: i64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        _ if nanoseconds < 0 => format!("-{}", span(nanoseconds.saturating_neg())),
        0 => format!("{} ms", nanoseconds / 1_000_000),
        1..=59 => format!("{}.{} s", seconds, nanoseconds / 100_000_000 % 10),
        60..=3599 => format!("{minutes} min {:02} s", seconds % 60),
        3600..=86_399 => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let second = 1_000_000_000;
        let cases = [
            (0, "0 ms"),
            (second / 4, "250 ms"),
            (59 * second + second / 2, "59.5 s"),
            (200 * second, "3 min 20 s"),
            (7500 * second, "2 h 05 min"),
            (3 * 86_400 * second + 4 * 3600 * second, "3 d 4 h"),
            (-second, "-1.0 s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(span(nanoseconds), text);
        }
    }

    #[test]
    fn moments() {
        assert_eq!(moment(1_794_726_516_168_924_406), "2026-11-15 07:08:36 UTC");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
    }
}
