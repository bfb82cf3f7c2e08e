//! Formats and parses durations as people write them.

use crate::number::{plain_decimal, whole};

const SECOND: i64 = 1_000_000_000;

/// The names of units of time in lower case, with their length in seconds.
const UNITS: [(&str, f64); 18] = [
    ("ms", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("minute", 60.0),
    ("minutes", 60.0),
    ("h", 3600.0),
    ("hour", 3600.0),
    ("hours", 3600.0),
    ("d", 86_400.0),
    ("day", 86_400.0),
    ("days", 86_400.0),
    ("w", 604_800.0),
    ("week", 604_800.0),
    ("weeks", 604_800.0),
];

/// The length in seconds of a unit of time, such as `min` or `h`.
pub fn seconds_of_unit(name: &str) -> Option<f64> {
    let name = name.to_ascii_lowercase();
    let (_, seconds) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
    Some(seconds)
}

/// Parses a duration in one or several units, such as `14d`, `1h30m`, `2.5s` or `3 min 20 s`;
/// returns it in nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    loop {
        let (number, after) = rest.split_at(rest.find(|ch: char| !is_in_number(ch))?);
        let after = after.trim_start();
        let end = after.find(|ch: char| !ch.is_ascii_alphabetic());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        seconds += plain_decimal(number)? * seconds_of_unit(unit)?;
        rest = after.trim_start();
        if rest.is_empty() {
            break;
        }
    }
    let nanoseconds = (seconds * 1e9).round();
    // 2^63 nanoseconds do not fit.
    (nanoseconds < 9_223_372_036_854_775_808.0).then(|| whole(nanoseconds))
}

fn is_in_number(ch: char) -> bool {
    ch.is_ascii_digit() || ch == '.'
}

/// Formats a duration in nanoseconds, rounded to its one or two largest units: `250 ms`, `17.9 s`,
/// `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. A second unit that is zero is omitted.
pub fn human_duration(nanoseconds: i64) -> String {
    let rounded = |unit: i64| nanoseconds.saturating_add(unit / 2) / unit;
    if nanoseconds < 0 {
        return format!("-{}", human_duration(nanoseconds.saturating_neg()));
    }
    let milliseconds = rounded(SECOND / 1000);
    let tenths = rounded(SECOND / 10);
    let (seconds, minutes) = (rounded(SECOND), rounded(60 * SECOND));
    if milliseconds == 0 {
        "0 s".to_owned()
    } else if milliseconds < 1000 {
        format!("{milliseconds} ms")
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else if seconds < 3600 {
        in_two_units(seconds, 60, ["min", "s"])
    } else if minutes < 24 * 60 {
        in_two_units(minutes, 60, ["h", "min"])
    } else {
        in_two_units(rounded(3600 * SECOND), 24, ["d", "h"])
    }
}

/// Formats a number of small units, `size` of which make a large one.
fn in_two_units(small: i64, size: i64, [large_unit, small_unit]: [&str; 2]) -> String {
    match small % size {
        0 => format!("{} {large_unit}", small / size),
        rest => format!("{} {large_unit} {rest} {small_unit}", small / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        let cases = [
            ("14d", 14 * 86_400 * SECOND),
            ("2w", 14 * 86_400 * SECOND),
            ("1h30m", 5400 * SECOND),
            ("1h2m3.5s", 3_723_500_000_000),
            ("250ms", SECOND / 4),
            ("5min", 300 * SECOND),
            (" 3 min 20 s ", 200 * SECOND),
            ("1 D 3 Hours", 27 * 3600 * SECOND),
            ("0s", 0),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse_duration(text), Some(nanoseconds), "{text}");
        }
        for nanoseconds in [0, SECOND / 4, 200 * SECOND, 7500 * SECOND, 97_200 * SECOND] {
            let text = human_duration(nanoseconds);
            assert_eq!(parse_duration(&text), Some(nanoseconds), "{text}");
        }
        for bad in [
            "",
            "soon",
            "1x",
            "14",
            "h",
            "-1s",
            "1e3s",
            ".s",
            "1h 30",
            "1.2.3s",
            "300000d",
            "1 fortnight",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        let huge = format!("{}d", "9".repeat(400));
        assert_eq!(parse_duration(&huge), None);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let cases = [
            (0, "0 s"),
            (400_000, "0 s"),
            (SECOND / 4, "250 ms"),
            (999_600_000, "1.0 s"),
            (13_240_000_000, "13.2 s"),
            (59 * SECOND + SECOND / 2, "59.5 s"),
            (59_960_000_000, "1 min"),
            (200 * SECOND, "3 min 20 s"),
            (3599 * SECOND + SECOND / 2, "1 h"),
            (7500 * SECOND, "2 h 5 min"),
            (86_399 * SECOND, "1 d"),
            ((27 * 60 + 5) * 60 * SECOND, "1 d 3 h"),
            (-SECOND, "-1.0 s"),
            (i64::MAX, "106751 d 23 h"),
            (i64::MIN, "-106751 d 23 h"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(human_duration(nanoseconds), text);
        }
    }
}
