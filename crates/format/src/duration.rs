//! Formats durations as text for people.

const SECOND: i64 = 1_000_000_000;

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
