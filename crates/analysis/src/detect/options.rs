//! Options of a diagnosis (running all detectors on a recording).

/// Settings that change which findings a diagnosis reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Growth that fills the device within this many hours after the last sample is reported as a
    /// risk.
    pub oom_horizon_hours: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            oom_horizon_hours: 24.0,
        }
    }
}
