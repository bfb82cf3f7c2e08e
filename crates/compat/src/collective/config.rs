//! The thresholds for attributing gaps to collective communication.

use stormlog_format::{Text, names, whole};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
const MILLISECOND: f64 = 1e6;

/// A named set of thresholds: how readily a gap is attributed to collective communication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Low sensitivity: few gaps are attributed to collective communication.
    Low,
    /// Medium sensitivity, between `Low` and `High`; the default.
    #[default]
    Medium,
    /// High sensitivity: many gaps are attributed to collective communication.
    High,
}

names!(Preset {
    Low => "low",
    Medium => "medium",
    High => "high",
});

/// The thresholds for attributing gaps to collective communication. Callers may give fractions for
/// thresholds that are usually whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct CollectiveConfig {
    pub min_samples_per_rank: f64,
    pub min_gap_bytes: f64,
    pub min_gap_ratio: f64,
    pub robust_zscore_threshold: f64,
    pub marker_window_ns: f64,
    pub interval_padding_ns: f64,
    pub synchrony_window_ns: f64,
    pub min_synchrony_ratio: f64,
    pub min_confidence: f64,
}

/// The names of the fields of [`CollectiveConfig`], in their order. Callers override thresholds by
/// these names.
pub const FIELDS: [&str; 9] = [
    "min_samples_per_rank",
    "min_gap_bytes",
    "min_gap_ratio",
    "robust_zscore_threshold",
    "marker_window_ns",
    "interval_padding_ns",
    "synchrony_window_ns",
    "min_synchrony_ratio",
    "min_confidence",
];

/// Why a preset or a threshold that the caller gave is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error messages document the variants")]
pub enum ConfigError {
    #[error("Unknown collective attribution preset: '{0}' (known: high, low, medium)")]
    UnknownPreset(String),
    #[error("Unknown collective attribution override fields: {0}")]
    UnknownFields(String),
    #[error("{field} must be {limit}")]
    OutOfRange {
        field: &'static str,
        limit: &'static str,
    },
}

impl Preset {
    /// Parses the name of a preset. An empty name means the medium preset.
    pub fn of_name(name: &Text) -> Result<Self, ConfigError> {
        let word = name.stripped().lowercased();
        let preset = match word.as_str() {
            Some("") => Some(Self::default()),
            word => word.and_then(Self::parse),
        };
        preset.ok_or_else(|| ConfigError::UnknownPreset(name.to_str_lossy().into_owned()))
    }

    /// The values of all thresholds for this preset, in the order of [`FIELDS`].
    pub fn values(self) -> [f64; 9] {
        let mut values = match self {
            Self::Low => [8.0, 256.0, 0.06, 3.0, 120.0, 100.0, 100.0, 0.6, 0.7],
            Self::Medium => [6.0, 128.0, 0.04, 2.5, 150.0, 120.0, 120.0, 0.5, 0.5],
            Self::High => [5.0, 64.0, 0.025, 1.8, 180.0, 160.0, 180.0, 0.34, 0.35],
        };
        values[1] *= MEBIBYTE;
        for window in &mut values[4..7] {
            *window *= MILLISECOND;
        }
        values
    }
}

impl Default for CollectiveConfig {
    fn default() -> Self {
        Self::of_values(Preset::default().values())
    }
}

impl CollectiveConfig {
    /// Creates thresholds from values in the order of [`FIELDS`].
    pub fn of_values(values: [f64; 9]) -> Self {
        let [
            samples,
            gap,
            ratio,
            zscore,
            marker,
            padding,
            window,
            synchrony,
            confidence,
        ] = values;
        Self {
            min_samples_per_rank: samples,
            min_gap_bytes: gap,
            min_gap_ratio: ratio,
            robust_zscore_threshold: zscore,
            marker_window_ns: marker,
            interval_padding_ns: padding,
            synchrony_window_ns: window,
            min_synchrony_ratio: synchrony,
            min_confidence: confidence,
        }
    }

    /// Checks that every threshold is in its valid range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let refuse = |field, limit| Err(ConfigError::OutOfRange { field, limit });
        if self.min_samples_per_rank < 3.0 {
            return refuse("min_samples_per_rank", ">= 3");
        }
        for (field, value) in [
            ("min_gap_bytes", self.min_gap_bytes),
            ("min_gap_ratio", self.min_gap_ratio),
        ] {
            if value < 0.0 {
                return refuse(field, ">= 0");
            }
        }
        if self.robust_zscore_threshold <= 0.0 {
            return refuse("robust_zscore_threshold", "> 0");
        }
        for (field, value) in [
            ("marker_window_ns", self.marker_window_ns),
            ("interval_padding_ns", self.interval_padding_ns),
            ("synchrony_window_ns", self.synchrony_window_ns),
        ] {
            if value < 0.0 {
                return refuse(field, ">= 0");
            }
        }
        for (field, value) in [
            ("min_synchrony_ratio", self.min_synchrony_ratio),
            ("min_confidence", self.min_confidence),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return refuse(field, "in [0, 1]");
            }
        }
        Ok(())
    }

    pub(super) fn padding_ns(&self) -> i64 {
        whole(self.interval_padding_ns)
    }
}

/// Returns an error that lists the given names which are not names of thresholds.
pub fn check_fields<'a>(fields: impl Iterator<Item = &'a str>) -> Result<(), ConfigError> {
    let mut unknown: Vec<&str> = fields.filter(|field| !FIELDS.contains(field)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    Err(ConfigError::UnknownFields(unknown.join(", ")))
}
