//! The texts of events. The texts of events are the same as in stormlog 0.3.9, because other tools
//! search for them.

/// Formats byte counts in the texts of events, as stormlog 0.3.9 does.
pub use stormlog_format::byte_text as human;

use crate::collect::Reading;

/// Whose memory the text of an event describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// Memory of an accelerator.
    Device,
    /// Host memory of the recorded process.
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
