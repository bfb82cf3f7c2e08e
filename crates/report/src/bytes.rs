//! Amounts of memory as people read them: binary units, three digits that matter.

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// The unit in which a value has digits before the point, and its size in bytes.
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

/// A number with thousands separated: `11,370,000,384`.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.5 GiB`, `640 MiB`, `12 B`.
pub fn human(bytes: i64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match (unit, value.abs()) {
        (0, _) => 0,
        (_, size) if size < 9.995 => 2,
        (_, size) if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `1.50 GB`: two decimals and the unit names of the reference's reports, powers of 1024 too.
pub fn as_reference(bytes: i64) -> String {
    if bytes == 0 {
        return "0 B".to_owned();
    }
    let units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let sign = if bytes < 0 { "-" } else { "" };
    let mut value = bytes.unsigned_abs() as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{sign}{value:.2} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_two_decimals() {
        assert_eq!(as_reference(0), "0 B");
        assert_eq!(as_reference(1536), "1.50 KB");
        assert_eq!(as_reference(-(1 << 40)), "-1.00 TB");
    }

    #[test]
    fn three_digits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 << 20, "10.0 MiB"),
            (640 << 20, "640 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (150_109_880_320, "140 GiB"),
            (-(3 << 29), "-1.50 GiB"),
            (i64::MAX, "8192 PiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn thousands() {
        assert_eq!(grouped(-1_234_567), "-1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
