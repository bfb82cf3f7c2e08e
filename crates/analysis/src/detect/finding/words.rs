//! Formats numbers for the sentences in findings.

/// Formats bytes in binary units with three digits: `1.52 GiB`, `283 MiB`.
pub(crate) use stormlog_format::human_bytes as bytes;
/// Formats a growth rate per second, minute or hour: `16.0 MiB/s`, `1.20 GiB/h`.
pub(crate) use stormlog_format::human_rate as rate;
use stormlog_format::{human_duration, whole};

/// The growth per step behind a growth rate: ` (+1.00 MiB per step)`; empty when unknown.
pub(crate) fn per_step(bytes_per_step: Option<f64>) -> String {
    bytes_per_step.map_or_else(String::new, |per_step| {
        format!(" (+{} per step)", bytes(per_step))
    })
}

/// A duration in one unit: `42 s`, `3.5 min`, `11 h`, `2.1 days`.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s < 90.0 => (seconds, "s"),
        s if s < 5400.0 => (seconds / 60.0, "min"),
        s if s < 48.0 * 3600.0 => (seconds / 3600.0, "h"),
        _ => (seconds / 86400.0, "days"),
    };
    if value.abs() < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// A time in seconds since the start of a recording: `13.2 s`, `4 min 10 s`, `3 h 5 min`.
pub(crate) fn moment(seconds: f64) -> String {
    human_duration(whole(seconds.max(0.0) * 1e9))
}

/// A share between 0 and 1 as a percentage: `12 %`, `0.8 %`.
pub(crate) fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if value.abs() < 10.0 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1_632_087_572.0), "1.52 GiB");
        assert_eq!(bytes(296_441_232.0), "283 MiB");
        assert_eq!(bytes(17_112_760_320.0), "15.9 GiB");
        assert_eq!(bytes(1010.0 * 1024.0 * 1024.0), "0.986 GiB");
        assert_eq!(bytes(f64::MAX).split(' ').next_back(), Some("EiB"));
    }

    #[test]
    fn times_pick_their_unit() {
        assert_eq!(duration(42.0), "42 s");
        assert_eq!(duration(210.0), "3.5 min");
        assert_eq!(duration(200_000.0), "2.3 days");
        assert_eq!(percent(0.005), "0.5 %");
        assert_eq!(moment(11_100.0), "3 h 5 min");
    }
}
