//! What the caller may choose.

/// Choices that change what is reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How far ahead running out of memory counts as a risk, in hours after the last sample.
    pub oom_horizon_hours: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            oom_horizon_hours: 24.0,
        }
    }
}
