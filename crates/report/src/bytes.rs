//! Bytes as people read them, in powers of 1024.

/// Units and their size, the largest first.
pub(crate) const UNITS: [(&str, f64); 6] = [
    ("PiB", 1_125_899_906_842_624.0),
    ("TiB", 1_099_511_627_776.0),
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
    ("B", 1.0),
];

/// The unit in which a value has at least one digit before the point.
pub(crate) fn unit_for(bytes: f64) -> (&'static str, f64) {
    let fits = UNITS.into_iter().find(|(_, size)| bytes.abs() >= *size);
    fits.unwrap_or(("B", 1.0))
}

/// Bytes with three significant digits or so: `10.6 GiB`, `770 MiB`, `12 B`.
pub fn human_bytes(bytes: i64) -> String {
    let (unit, size) = unit_for(bytes as f64);
    let value = bytes as f64 / size;
    let digits = match value.abs() {
        _ if size <= 1.0 => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1 << 20), "1.00 MiB");
        assert_eq!(human_bytes(150_109_880_320), "140 GiB");
        assert_eq!(human_bytes(-(3 << 29)), "-1.50 GiB");
    }

    #[test]
    fn thousands() {
        assert_eq!(grouped(-1_234_567), "-1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
