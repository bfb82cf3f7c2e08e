//! What a diagnosis says: kinds, findings and the three answers a detector can give.

use std::fmt;

use super::cause::Cause;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The run ran out of memory, or its trend reaches the device's total soon.
    OomRisk,
    /// The floor of allocated memory keeps growing.
    AllocatorLeak,
    /// Memory outside the allocator keeps growing.
    HiddenDrift,
    /// The host memory of a process keeps growing.
    HostLeak,
    /// Reserved memory climbs away from what was ever allocated.
    Fragmentation,
    /// The floor, or hidden memory, jumped once and stayed.
    StepChange,
    /// A short excursion above the normal peak.
    TransientSpike,
    /// The rank on which a trouble of all ranks began.
    RankFirstCause,
    /// One rank holds persistently more than the others.
    RankImbalance,
}

impl Kind {
    /// Every kind, the most urgent first.
    pub const ALL: [Self; 9] = [
        Self::OomRisk,
        Self::AllocatorLeak,
        Self::HiddenDrift,
        Self::HostLeak,
        Self::Fragmentation,
        Self::StepChange,
        Self::TransientSpike,
        Self::RankFirstCause,
        Self::RankImbalance,
    ];

    /// The name used in reports and flags.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OomRisk => "oom_risk",
            Self::AllocatorLeak => "allocator_leak",
            Self::HiddenDrift => "hidden_drift",
            Self::HostLeak => "host_leak",
            Self::Fragmentation => "fragmentation",
            Self::StepChange => "step_change",
            Self::TransientSpike => "transient_spike",
            Self::RankFirstCause => "rank_first_cause",
            Self::RankImbalance => "rank_imbalance",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much a finding matters to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the run is not in danger.
    Info,
    /// Costs memory that the run or another process may need.
    Warning,
    /// Ended the run, or will.
    Critical,
}

impl Severity {
    /// The name used in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that went wrong, with the numbers that convinced us.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What went wrong.
    pub kind: Kind,
    /// How much it matters.
    pub severity: Severity,
    /// The rank concerned; `None` when the trouble is that of all ranks.
    pub rank: Option<u32>,
    /// The device it was seen on.
    pub device_id: i64,
    /// The session it was seen in.
    pub session_id: String,
    /// Since when, in the clock of the session; `None` where the kind has no beginning.
    pub onset_ns: Option<i64>,
    /// Until when; the last sample for what is still going on.
    pub end_ns: Option<i64>,
    /// Bytes grown, jumped, added or held too much.
    pub magnitude_bytes: Option<i64>,
    /// Rate of growth at the end, where something grows.
    pub rate_bytes_per_s: Option<f64>,
    /// Seconds from the last sample until the device is full, where something grows towards it.
    pub time_to_full_s: Option<f64>,
    /// How often findings said with this confidence are right, 0 to 1.
    pub confidence: f64,
    /// The marked phase in which it began, where one was marked.
    pub phase: Option<String>,
    /// The numbers behind the finding, by name.
    pub evidence: Vec<(&'static str, f64)>,
    /// One sentence with this case's numbers.
    pub explanation: String,
    /// What to do about it.
    pub advice: String,
    /// The line and the holder behind it, where evidence names them.
    pub cause: Option<Cause>,
}

/// A detector's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Enough was recorded, and nothing is wrong.
    Clear,
    /// Something is wrong; never empty.
    Found(Vec<Finding>),
    /// Too little was recorded to say.
    TooShort,
}

impl Verdict {
    /// `Found` when there are findings, otherwise `Clear`.
    #[must_use]
    pub fn from_findings(findings: Vec<Finding>) -> Self {
        if findings.is_empty() {
            Self::Clear
        } else {
            Self::Found(findings)
        }
    }

    /// The answer to a question that was put to two parts of a run.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Found(mut findings), other) => {
                findings.extend_from_slice(other.findings());
                Self::Found(findings)
            }
            (one, Self::Found(findings)) => {
                debug_assert!(one.findings().is_empty());
                Self::Found(findings)
            }
            (Self::TooShort, Self::TooShort) => Self::TooShort,
            _ => Self::Clear,
        }
    }

    /// The findings; none unless the verdict is `Found`.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Found(findings) => findings,
            Self::Clear | Self::TooShort => &[],
        }
    }
}
