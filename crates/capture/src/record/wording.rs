//! What events say, in the words that other tools already look for.

use crate::collect::Reading;

/// Whose memory the words speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// An accelerator's.
    Device,
    /// The process's own.
    Host,
}

impl Wording {
    pub(crate) fn started(self) -> &'static str {
        match self {
            Self::Device => "Memory tracking started",
            Self::Host => "CPU memory tracking started",
        }
    }

    pub(crate) fn stopped(self) -> &'static str {
        match self {
            Self::Device => "Memory tracking stopped",
            Self::Host => "CPU memory tracking stopped",
        }
    }

    pub(crate) fn peak(self, bytes: i64) -> String {
        match self {
            Self::Device => format!("New peak memory: {}", human(bytes)),
            Self::Host => format!("New CPU peak RSS: {}", human(bytes)),
        }
    }

    pub(crate) fn grown(self, bytes: i64) -> String {
        match self {
            Self::Device => format!("Memory allocated: {}", human(bytes)),
            Self::Host => format!("RSS increased by {}", human(bytes)),
        }
    }

    pub(crate) fn shrunk(self, bytes: i64) -> String {
        match self {
            Self::Device => format!("Memory freed: {}", human(bytes)),
            Self::Host => format!("RSS decreased by {}", human(bytes)),
        }
    }

    pub(crate) fn sampled(self, reading: &Reading) -> String {
        let fields = crate::collect::health::unique(&reading.partial_fields).join(", ");
        match self {
            Self::Host => "Collected CPU telemetry sample.".into(),
            Self::Device if fields.is_empty() => "Collected telemetry sample.".into(),
            Self::Device => format!("Collected partial telemetry sample ({fields})."),
        }
    }
}

/// A byte count with two digits after the point, units of 1024.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn human(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    if bytes == 0 {
        return "0 B".into();
    }
    let sign = if bytes < 0 { "-" } else { "" };
    let mut value = bytes.unsigned_abs() as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{sign}{value:.2} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_as_the_reference_spells_them() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1), "1.00 B");
        assert_eq!(human(50 << 20), "50.00 MB");
        assert_eq!(human(-1536), "-1.50 KB");
        assert_eq!(human(i64::MAX), "8192.00 PB");
    }
}
