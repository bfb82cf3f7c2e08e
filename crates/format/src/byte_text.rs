//! Byte counts as the reference's reports spell them.

const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];

/// A byte count in the largest unit that keeps it at least one; units are powers of 1024.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn byte_text(bytes: i64) -> String {
    if bytes == 0 {
        return "0 B".into();
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::byte_text;

    #[test]
    fn two_digits_and_a_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023.00 B"),
            (1536, "1.50 KB"),
            (-(250 << 20), "-250.00 MB"),
            (i64::MAX, "8192.00 PB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(byte_text(bytes), text);
        }
    }
}
