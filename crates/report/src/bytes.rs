//! Amounts of memory as text, with binary units and three significant digits.

pub(crate) use stormlog_format::grouped;
use stormlog_format::human_bytes;

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// The largest unit in which the amount is at least one, and the size of that unit in bytes, such
/// as 1024 for `KiB`.
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

/// Formats a number of bytes with a binary unit: `1.50 GiB`, `640 MiB`, `12 B`.
pub fn human(bytes: i64) -> String {
    human_bytes(bytes as f64)
}
