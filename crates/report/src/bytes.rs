//! Amounts of memory as text, with binary units and three significant digits.

use stormlog_format::human_bytes;

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// The largest unit in which the amount is at least one, and the number of bytes in that unit.
pub(crate) fn unit_for(bytes: f64) -> (&'static str, f64) {
    let mut size = 1.0;
    for unit in UNITS {
        if bytes.abs() < size * 1024.0 || unit == UNITS[5] {
            return (unit, size);
        }
        size *= 1024.0;
    }
    (UNITS[0], 1.0)
}

/// A number with thousands separators: `11,370,000,384`.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An amount of memory: `1.50 GiB`, `640 MiB`, `12 B`.
pub fn human(bytes: i64) -> String {
    human_bytes(bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        assert_eq!(grouped(-1_234_567), "-1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
