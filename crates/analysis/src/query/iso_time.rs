//! Parses ISO 8601 times in the forms that Python accepts, in files and on command lines.

use stormlog_format::whole;

/// Parses a time to microseconds since 1970; a time without a zone is UTC.
pub(crate) fn iso_to_micros(text: &str) -> Option<i64> {
    let (days, ns) = days_and_ns(text)?;
    Some(days * 86_400_000_000 + ns.div_euclid(1000))
}

/// Parses a time in a file to nanoseconds since 1970. The time is first converted to seconds as a
/// float, so that it is rounded as in Python.
pub fn iso_to_ns(text: &str) -> Option<i64> {
    let micros = iso_to_micros(text)?;
    Some(whole(micros as f64 / 1e6 * 1e9))
}

/// Parses a time that a person wrote to nanoseconds since 1970: an ISO 8601 date or time, or a time
/// as Stormlog prints it, `2026-11-15 10:49:03 UTC`. A time without a zone is UTC.
pub fn parse_time(text: &str) -> Option<i64> {
    let upper = text.trim().to_ascii_uppercase();
    let (days, ns) = days_and_ns(upper.strip_suffix(" UTC").unwrap_or(&upper))?;
    days.checked_mul(86_400_000_000_000)?.checked_add(ns)
}

/// Parses a time to days since 1970 and nanoseconds since the beginning of this day. The zone can
/// make the nanoseconds negative or longer than a day.
fn days_and_ns(text: &str) -> Option<(i64, i64)> {
    if !text.is_ascii() {
        return None;
    }
    let (days, rest) = date(text.as_bytes())?;
    let (clock, offset) = match rest {
        [] => (0, 0),
        [_] => return None,
        [_, time @ ..] => time_and_zone(time)?,
    };
    Some((days, clock - offset))
}

/// Parses a date to days since 1970, and returns the text after the date.
fn date(text: &[u8]) -> Option<(i64, &[u8])> {
    let year = number(text.get(..4)?)?;
    let rest = &text[4..];
    let dashed = rest.first() == Some(&b'-');
    let rest = rest.strip_prefix(b"-").unwrap_or(rest);
    if rest.first() == Some(&b'W') {
        let week = number(rest.get(1..3)?)?;
        let after = &rest[3..];
        // The day of an ISO week is optional, and has a dash before it if the week has one.
        let (day, after) = match (dashed, after) {
            (true, [b'-', day, after @ ..]) | (false, [day, after @ ..])
                if day.is_ascii_digit() =>
            {
                (i64::from(day - b'0'), after)
            }
            _ => (1, after),
        };
        return Some((week_to_days(year, week, day)?, after));
    }
    let month = number(rest.get(..2)?)?;
    let rest = &rest[2..];
    let rest = if dashed {
        rest.strip_prefix(b"-")?
    } else {
        rest
    };
    let day = number(rest.get(..2)?)?;
    Some((civil_to_days(year, month, day)?, &rest[2..]))
}

/// Parses a time of day to nanoseconds since midnight, and its zone to an offset in nanoseconds.
fn time_and_zone(text: &[u8]) -> Option<(i64, i64)> {
    let zone = text
        .iter()
        .position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    let (time, zone) = match zone {
        Some(index) => text.split_at(index),
        None => (text, &[][..]),
    };
    let offset = match zone {
        [] | [b'Z'] => 0,
        [sign @ (b'+' | b'-'), offset @ ..] => {
            let offset = clock(offset, 24)?;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Some((clock(time, 24)?, offset))
}

/// Parses `HH[:MM[:SS[.fff]]]`, with or without colons, to nanoseconds.
fn clock(text: &[u8], hours_limit: i64) -> Option<i64> {
    let mut rest = text;
    let mut parts = [0; 3];
    let colons = rest.get(2) == Some(&b':');
    let mut count = 0;
    while count < 3 {
        parts[count] = number(rest.get(..2)?)?;
        rest = &rest[2..];
        count += 1;
        match rest.first() {
            Some(b':') if colons && count < 3 => rest = &rest[1..],
            Some(byte) if !colons && byte.is_ascii_digit() && count < 3 => {}
            _ => break,
        }
    }
    let fraction = match rest {
        [] => 0,
        [b'.' | b',', digits @ ..] if count == 3 => fraction(digits)?,
        _ => return None,
    };
    let [hours, minutes, seconds] = parts;
    if hours >= hours_limit || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction)
}

/// Converts the digits after the decimal point to nanoseconds; digits after the ninth are ignored.
fn fraction(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = (0..9).map(|index| digits.get(index).map_or(0, |digit| i64::from(digit - b'0')));
    Some(nanos.fold(0, |value, digit| value * 10 + digit))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().all(u8::is_ascii_digit).then(|| {
        digits
            .iter()
            .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
    })
}

/// Days since 1970-01-01 of a date in the Gregorian calendar.
fn civil_to_days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1 || day < 1 || day > length {
        return None;
    }
    // To compute the day of the year, a year starts in March, so that the leap day is its last day.
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468)
}

/// Days since 1970-01-01 of a day in an ISO week.
fn week_to_days(year: i64, week: i64, day: i64) -> Option<i64> {
    let fourth = civil_to_days(year, 1, 4)?;
    let monday = fourth - (fourth + 3).rem_euclid(7);
    let next = civil_to_days(year + 1, 1, 4)?;
    let next_monday = next - (next + 3).rem_euclid(7);
    let days = monday + (week - 1) * 7;
    if week < 1 || days >= next_monday || !(1..=7).contains(&day) {
        return None;
    }
    Some(days + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_every_spelling() {
        let cases = [
            ("2025-11-02T03:04:05Z", Some(1_762_052_645_000_000)),
            (
                "2025-11-02T03:04:05.250000+02:00",
                Some(1_762_045_445_250_000),
            ),
            ("2025-11-01 00:00:00", Some(1_761_955_200_000_000)),
            ("2025-11-03", Some(1_762_128_000_000_000)),
            ("20251103T0102", Some(1_762_131_720_000_000)),
            ("2025-W45-1", Some(1_762_128_000_000_000)),
            ("1970-01-01T00:00:00,5", Some(500_000)),
            ("1969-12-31T23:59:59", Some(-1_000_000)),
            ("2024-02-29", Some(1_709_164_800_000_000)),
            ("2025-02-29", None),
            ("2025-11-02T24:00", None),
            ("yesterday", None),
            ("2025-11-02T", None),
            ("", None),
        ];
        for (text, micros) in cases {
            assert_eq!(iso_to_micros(text), micros, "{text}");
        }
    }

    #[test]
    fn times_as_people_write_them() {
        let second = 1_762_052_645_000_000_000;
        let cases = [
            ("2025-11-02T03:04:05Z", second),
            ("2025-11-02t03:04:05z", second),
            ("2025-11-02 03:04:05 UTC", second),
            (" 2025-11-02 03:04:05 ", second),
            ("2025-11-02T05:04:05.123456789+02:00", second + 123_456_789),
            ("2025-11-03", 1_762_128_000_000_000_000),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_time(text), Some(ns), "{text}");
        }
        for bad in [
            "",
            "UTC",
            "soon",
            "2025-11-02 03:04:05Z UTC+1",
            "9999-01-01",
            "2025-13-01",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn nanoseconds_round_as_python_does() {
        assert_eq!(
            iso_to_ns("2025-11-02T03:04:05.250000+02:00"),
            Some(1_762_045_445_249_999_872)
        );
    }
}
