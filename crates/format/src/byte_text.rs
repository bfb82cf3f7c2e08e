//! Formats counts and byte counts: [`human_bytes`] for Stormlog's own output, [`byte_text`] for
//! texts that stormlog 0.3.9 defines. Parses byte counts as people and programs write them.

use crate::number::plain_decimal;

const BINARY_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];

/// The units of [`parse_bytes`] in lower case, with their number of bytes. A single letter is a
/// binary unit, as in the errors of XLA and in the options of most programs.
const SIZES: [(&str, f64); 15] = [
    ("", 1.0),
    ("b", 1.0),
    ("bytes", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("k", 1024.0),
    ("kib", 1024.0),
    ("m", 1_048_576.0),
    ("mib", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("gib", 1_073_741_824.0),
    ("t", 1_099_511_627_776.0),
    ("tib", 1_099_511_627_776.0),
];

/// Parses an amount of memory such as `512MiB`, `1.5 GB` or `4096`. `MB` is a million bytes, `MiB`
/// and `M` are 1,048,576 bytes, and a number without a unit is in bytes.
pub fn parse_bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|ch: char| ch.is_ascii_alphabetic());
    let (amount, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.to_ascii_lowercase();
    let (_, size) = SIZES.into_iter().find(|(name, _)| *name == unit)?;
    let bytes = plain_decimal(amount.trim_end())? * size;
    bytes.is_finite().then_some(bytes)
}

/// Formats bytes in binary units with three significant digits: `1.52 GiB`, `283 MiB`, `12 B`.
pub fn human_bytes(bytes: f64) -> String {
    let mut value = bytes.round();
    let mut unit = 0;
    if value.abs() >= 1024.0 {
        (value, unit) = (bytes / 1024.0, 1);
    }
    // From 999.5 on, the number would be rounded to four digits, so the next larger unit is used.
    while unit > 0 && value.abs() >= 999.5 && unit + 1 < BINARY_UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = match value.abs() {
        _ if unit == 0 => 0,
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", BINARY_UNITS[unit])
}

/// Formats a rate in bytes per second, minute or hour, whichever gives at least one MiB:
/// `16.0 MiB/s`, `1.20 GiB/h`.
pub fn human_rate(bytes_per_s: f64) -> String {
    const MIB: f64 = 1_048_576.0;
    let (seconds, unit) = match bytes_per_s.abs() {
        rate if rate >= MIB => (1.0, "s"),
        rate if rate * 60.0 >= MIB => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    format!("{}/{unit}", human_bytes(bytes_per_s * seconds))
}

/// A byte count in the format of stormlog 0.3.9: two decimals, with units that are powers of 1024.
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

/// Formats a number with thousands separators: `11,370,000,384`. A number that does not fit into 64
/// bits becomes the largest one that does.
pub fn grouped(number: impl TryInto<i64>) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
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

/// Formats a count with its noun: `1 sample`, `12,000 samples`, `2 processes`.
pub fn counted(count: impl TryInto<i64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(i64::MAX);
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::{byte_text, counted, grouped, human_bytes, human_rate, parse_bytes};

    #[test]
    fn amounts_as_people_write_them() {
        let cases = [
            ("4096", 4096.0),
            ("0", 0.0),
            ("12 bytes", 12.0),
            ("8GB", 8e9),
            ("8GiB", 8_589_934_592.0),
            ("8G", 8_589_934_592.0),
            ("1.5 gib", 1_610_612_736.0),
            (" 100 kB ", 1e5),
            ("2T", 2_199_023_255_552.0),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for bad in [
            "",
            "GB",
            "8GBB",
            "8II",
            "8XB",
            "-1",
            "+1MB",
            "1e3",
            "nan",
            ".",
            "5 bananas",
            "20%",
        ] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
        let huge = format!("{}TB", "9".repeat(300));
        assert_eq!(parse_bytes(&huge), None);
    }

    #[test]
    fn thousands() {
        assert_eq!(grouped(-1_234_567), "-1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
        assert_eq!(counted(1_usize, "sample"), "1 sample");
        assert_eq!(counted(1_234_567, "sample"), "1,234,567 samples");
        assert_eq!(counted(0, "process"), "0 processes");
    }

    #[test]
    fn rates_pick_their_unit() {
        assert_eq!(human_rate(2.0 * 1024.0 * 1024.0), "2.00 MiB/s");
        assert_eq!(human_rate(100_000.0), "5.72 MiB/min");
        assert_eq!(human_rate(-1000.0), "-3.43 MiB/h");
    }

    #[test]
    fn three_significant_digits() {
        let cases = [
            (0.0, "0 B"),
            (0.4, "0 B"),
            (1023.0, "1023 B"),
            (1023.6, "1.00 KiB"),
            (1024.0, "1.00 KiB"),
            (10_485_760.0, "10.0 MiB"),
            (671_088_640.0, "640 MiB"),
            (1_059_061_760.0, "0.986 GiB"),
            (1_073_741_823.0, "1.00 GiB"),
            (150_109_880_320.0, "140 GiB"),
            (-1_610_612_736.0, "-1.50 GiB"),
            (9.3e18, "8.07 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human_bytes(bytes), text);
        }
    }

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
