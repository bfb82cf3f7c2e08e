//! The result of a detector: no problem, problems, or not enough data to decide.

use super::finding::Finding;

/// The word of JSON output for a question that too little was recorded to answer.
pub const NOT_ENOUGH_EVIDENCE: &str = "not_enough_evidence";

/// The result of a detector, which searches a run for one kind of problem, such as a leak.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The recording was long enough, and the detector found no problem.
    Clear,
    /// The detector found at least one problem; the list is never empty.
    Found(Vec<Finding>),
    /// Not enough data was recorded for the detector to decide.
    NotEnoughEvidence,
}

impl Answer {
    /// `Found` when there are findings, otherwise `Clear`.
    #[must_use]
    pub fn from_findings(findings: Vec<Finding>) -> Self {
        if findings.is_empty() {
            Self::Clear
        } else {
            Self::Found(findings)
        }
    }

    /// Combines the answers of one detector about two parts of a run, such as host memory and
    /// devices. `NotEnoughEvidence` remains only if it is the answer for both parts.
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
            (Self::NotEnoughEvidence, Self::NotEnoughEvidence) => Self::NotEnoughEvidence,
            _ => Self::Clear,
        }
    }

    /// The findings; empty unless the answer is `Found`.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Found(findings) => findings,
            Self::Clear | Self::NotEnoughEvidence => &[],
        }
    }
}
