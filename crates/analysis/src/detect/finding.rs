//! A finding: a problem with the memory of a run that a detector found, with its kind and severity.

pub(crate) mod confidence;
pub(crate) mod draft;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
pub use stormlog_format::classify::Severity;
use stormlog_format::json::by_name;

use super::cause::Cause;

/// The kind of problem that a detector looks for; the most urgent kind comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The run ran out of memory, or growing memory will soon fill the device.
    OomRisk,
    /// The floor of allocated memory (the memory held between steps) keeps growing.
    AllocatorLeak,
    /// Hidden memory (in use outside the allocator) keeps growing.
    HiddenDrift,
    /// The host memory of a process keeps growing.
    HostLeak,
    /// The memory that the allocator reserves rises ever further above the highest number of bytes
    /// that were allocated at once.
    Fragmentation,
    /// The floor of allocated or hidden memory jumped once and did not fall back.
    StepChange,
    /// Memory rose above its normal peak for a short time.
    TransientSpike,
    /// A leak, a drift or a jump of all ranks began on one rank clearly before the others.
    RankFirstCause,
    /// One rank permanently holds more memory than the others.
    RankImbalance,
}

stormlog_format::names!(Kind {
    OomRisk => "oom_risk",
    AllocatorLeak => "allocator_leak",
    HiddenDrift => "hidden_drift",
    HostLeak => "host_leak",
    Fragmentation => "fragmentation",
    StepChange => "step_change",
    TransientSpike => "transient_spike",
    RankFirstCause => "rank_first_cause",
    RankImbalance => "rank_imbalance",
});

impl Kind {
    /// Whether memory that keeps growing is the problem.
    #[must_use]
    pub fn is_growth(self) -> bool {
        match self {
            Self::AllocatorLeak | Self::HiddenDrift | Self::HostLeak => true,
            Self::OomRisk
            | Self::Fragmentation
            | Self::StepChange
            | Self::TransientSpike
            | Self::RankFirstCause
            | Self::RankImbalance => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One problem, with the numbers that support it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The kind of problem.
    pub kind: Kind,
    /// How urgent the problem is.
    pub severity: Severity,
    /// The affected rank; `None` when the problem affects all ranks.
    pub rank: Option<u32>,
    /// The device on which the problem was found.
    pub device_id: i64,
    /// The session in which the problem was found.
    pub session_id: String,
    /// When the problem began, in nanoseconds by the clock of the session. The onset is `None` for
    /// kinds of problems without a beginning.
    pub onset_ns: Option<i64>,
    /// When the problem ended. For a problem that still continues, the time of the last sample.
    pub end_ns: Option<i64>,
    /// The size of the problem in bytes: how much memory grew, jumped or was held in excess.
    pub magnitude_bytes: Option<i64>,
    /// Growth rate at the end of the track, in bytes per second; `None` when nothing grows.
    pub rate_bytes_per_s: Option<f64>,
    /// Seconds from the last sample until the device is full; `None` when growth does not fill the
    /// device.
    pub time_to_full_s: Option<f64>,
    /// Estimated probability that the finding is correct, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// The marked phase in which the problem began.
    pub phase: Option<String>,
    /// The numbers behind the finding, each with its name.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub evidence: Vec<(&'static str, f64)>,
    /// One sentence that explains the finding with its numbers.
    pub explanation: String,
    /// What the user should do about the problem.
    pub advice: String,
    /// The line of code and the holder that cause the problem, when evidence names them.
    pub cause: Option<Cause>,
}
