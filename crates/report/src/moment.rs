//! Parses a point in time of a session as users type it: `12.5`, `2m30s` or a time.

use stormlog_analysis::query::parse_time;
use stormlog_format::parse_duration;

use crate::error::DrawError;

const SECOND: f64 = 1e9;

/// Parses a point in time of a session that starts at `start_ns`: seconds since the start (`12.5`),
/// a duration since the start (`2m30s`), or a time (`2026-11-15 07:02:03 UTC`).
pub fn parse_moment(text: &str, start_ns: i64) -> Result<i64, DrawError> {
    let bad = || DrawError::BadMoment(text.to_owned());
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<f64>() {
        if !seconds.is_finite() || seconds.abs() > 1e10 {
            return Err(bad());
        }
        return Ok(start_ns.saturating_add((seconds * SECOND).round() as i64));
    }
    parse_duration(trimmed)
        .map(|offset| start_ns.saturating_add(offset))
        .or_else(|| parse_time(trimmed))
        .ok_or_else(bad)
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
        assert_eq!(parse_moment("1970-01-01 00:01:00 UTC", 5).unwrap(), stamp);
        assert_eq!(parse_moment("1970-01-02", 5).unwrap(), 1440 * stamp);
        for bad in ["", "soon", "1x", "nan", "1e99", "h"] {
            assert!(parse_moment(bad, 0).is_err(), "{bad}");
        }
    }
}
