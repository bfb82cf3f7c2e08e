//! Parses a point in time of a session as users type it: `12.5`, `2m30s` or a time stamp.

use jiff::Timestamp;

use crate::error::DrawError;

const SECOND: f64 = 1e9;

/// Parses a point in time of a session that starts at `start_ns`: seconds since the start (`12.5`),
/// a duration since the start (`2m30s`), or a time stamp (`2026-11-15T07:02:03Z`).
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

/// Parses a duration such as `1h2m3.5s` or `90s`; returns it in nanoseconds.
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
}
