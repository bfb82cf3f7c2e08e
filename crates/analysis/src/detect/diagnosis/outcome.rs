//! Whether anything was found.

use super::Diagnosis;
use crate::detect::answer::NOT_ENOUGH_EVIDENCE;

/// The result of all detectors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No detector found a problem.
    Clear,
    /// At least one detector found a problem.
    Findings,
    /// The recording is too short to be judged.
    NotEnoughEvidence,
}

stormlog_format::names!(Outcome {
    Clear => "clear",
    Findings => "findings",
    NotEnoughEvidence => NOT_ENOUGH_EVIDENCE,
});

impl Outcome {
    /// The outcome of several runs together.
    #[must_use]
    pub fn of_all(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let worse = |one, other| match (one, other) {
            (Self::Findings, _) | (_, Self::Findings) => Self::Findings,
            (Self::NotEnoughEvidence, Self::NotEnoughEvidence) => Self::NotEnoughEvidence,
            _ => Self::Clear,
        };
        let together = outcomes.into_iter().reduce(worse);
        together.unwrap_or(Self::NotEnoughEvidence)
    }
}

impl Diagnosis {
    /// Whether anything was found.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if !self.findings().is_empty() {
            Outcome::Findings
        } else if self.is_too_short() {
            Outcome::NotEnoughEvidence
        } else {
            Outcome::Clear
        }
    }
}
