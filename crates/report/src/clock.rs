//! Moments and durations: as people write them and as they read them.

use jiff::Timestamp;

use crate::error::DrawError;

const SECOND: f64 = 1e9;

/// Wall time in UTC, to the second.
pub(crate) fn wall_time(time_ns: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(time_ns)) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{time_ns} ns"),
    }
}

/// A duration with a unit that suits it: `85.2 ms`, `12.4 s`, `3 min 20 s`, `2 h 05 min`.
pub(crate) fn human_duration(duration_ns: i64) -> String {
    let seconds = duration_ns as f64 / SECOND;
    let whole = seconds.abs().round() as i64;
    match seconds.abs() {
        s if s < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        s if s < 1.0 => format!("{:.0} ms", seconds * 1e3),
        s if s < 10.0 => format!("{seconds:.2} s"),
        s if s < 120.0 => format!("{seconds:.1} s"),
        s if s < 7200.0 => format!("{} min {:02} s", whole / 60, whole % 60),
        s if s < 172_800.0 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86400, whole / 3600 % 24),
    }
}

/// A moment of a session that starts at `start_ns`: seconds since the start (`12.5`), a
/// duration since the start (`2m30s`), or a time stamp (`2026-11-15T07:02:03Z`).
pub fn parse_moment(text: &str, start_ns: i64) -> Result<i64, DrawError> {
    let bad = || DrawError::BadMoment(text.to_owned());
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<f64>() {
        if !seconds.is_finite() || seconds.abs() > 1e10 {
            return Err(bad());
        }
        return Ok(start_ns.saturating_add((seconds * SECOND).round() as i64));
    }
    if let Some(offset) = duration(trimmed) {
        return Ok(start_ns.saturating_add(offset));
    }
    let time: Timestamp = trimmed.parse().map_err(|_| bad())?;
    i64::try_from(time.as_nanosecond()).map_err(|_| bad())
}

/// `1h2m3.5s` and parts of it, in nanoseconds.
fn duration(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let units = [
            ("ms", 1e-3),
            ("d", 86400.0),
            ("h", 3600.0),
            ("m", 60.0),
            ("s", 1.0),
        ];
        let (unit, seconds) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += number * seconds;
    }
    (total.abs() < 1e10 && !text.is_empty()).then_some((total * SECOND).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_as_people_write_them() {
        assert_eq!(parse_moment("12.5", 1000).unwrap(), 12_500_001_000);
        assert_eq!(parse_moment("2m30s", 0).unwrap(), 150_000_000_000);
        assert_eq!(parse_moment("250ms", 0).unwrap(), 250_000_000);
        let stamp = parse_moment("1970-01-01T00:01:00Z", 5).unwrap();
        assert_eq!(stamp, 60_000_000_000);
        for bad in ["", "soon", "1x", "nan", "1e99", "h"] {
            assert!(parse_moment(bad, 0).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_as_people_read_them() {
        assert_eq!(human_duration(85_200_000), "85 ms");
        assert_eq!(human_duration(200_000_000_000), "3 min 20 s");
        assert_eq!(human_duration(7_500_000_000_000), "2 h 05 min");
    }
}
