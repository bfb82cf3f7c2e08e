//! Formats points in time as text for people.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use stormlog_format::counted;

/// Formats a point in time as `2026-11-15 10:49:03 UTC`. A time outside the range of the calendar
/// is printed in nanoseconds.
pub fn moment(timestamp_ns: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(timestamp_ns)) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{timestamp_ns} ns"),
    }
}

/// The present and the time zone of a reader, for short times such as `12:58` and `3 min ago`.
#[derive(Clone, Debug)]
pub struct LocalTime {
    now_ns: i64,
    zone: TimeZone,
}

impl LocalTime {
    /// The time zone of this machine, at the given time in nanoseconds since 1970.
    pub fn of_this_machine(now_ns: i64) -> Self {
        let zone = TimeZone::system();
        Self { now_ns, zone }
    }

    /// UTC, at the given time in nanoseconds since 1970.
    pub fn in_utc(now_ns: i64) -> Self {
        let zone = TimeZone::UTC;
        Self { now_ns, zone }
    }

    fn at(&self, timestamp_ns: i64) -> Option<Zoned> {
        let moment = Timestamp::from_nanosecond(i128::from(timestamp_ns)).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }

    /// Formats a point in time for a list: `12:58` today, `Nov 18 12:58` in the same year, otherwise
    /// `2025-11-18 12:58`.
    pub fn short(&self, timestamp_ns: i64) -> String {
        let (Some(time), Some(now)) = (self.at(timestamp_ns), self.at(self.now_ns)) else {
            return moment(timestamp_ns);
        };
        let form = if time.date() == now.date() {
            "%H:%M"
        } else if time.year() == now.year() {
            "%b %-d %H:%M"
        } else {
            "%Y-%m-%d %H:%M"
        };
        time.strftime(form).to_string()
    }

    /// Formats how long ago a point in time was: `3 min ago`, `2 days ago`. A point in the future,
    /// as after an error of a clock, is formatted like [`short`](Self::short).
    pub fn ago(&self, timestamp_ns: i64) -> String {
        const SECOND: i64 = 1_000_000_000;
        match self.now_ns.saturating_sub(timestamp_ns) / SECOND {
            _ if timestamp_ns > self.now_ns => self.short(timestamp_ns),
            seconds @ ..60 => format!("{seconds} s ago"),
            seconds @ 60..3600 => format!("{} min ago", seconds / 60),
            seconds @ 3600..86_400 => format!("{} h ago", seconds / 3600),
            seconds => format!("{} ago", counted(seconds / 86_400, "day")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_short() {
        const SECOND: i64 = 1_000_000_000;
        let then = 1_794_726_516_168_924_406;
        let after = |seconds: i64| LocalTime::in_utc(then + seconds * SECOND);
        assert_eq!(after(60).short(then), "07:08");
        assert_eq!(after(86_400).short(then), "Nov 15 07:08");
        assert_eq!(after(86_400 * 60).short(then), "2026-11-15 07:08");
        let ago = |seconds: i64| after(seconds).ago(then);
        assert_eq!(
            [0, 59, 60, 7199, 86_400, 200_000].map(ago),
            [
                "0 s ago",
                "59 s ago",
                "1 min ago",
                "1 h ago",
                "1 day ago",
                "2 days ago"
            ]
        );
        assert_eq!(after(-1).ago(then), "07:08");
    }

    #[test]
    fn moments() {
        assert_eq!(moment(1_794_726_516_168_924_406), "2026-11-15 07:08:36 UTC");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
    }
}
