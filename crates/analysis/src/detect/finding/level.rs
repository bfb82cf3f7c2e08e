//! The level of a finding: how bad it is, in the words that every output uses.

use super::Severity;

/// How bad a finding is. JSON output spells the levels as severities: `critical`, `warning`, `info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// May be harmless.
    Note,
    /// There is strong evidence for a problem, and the run survived it.
    Likely,
    /// It ended the run, or will soon end a run in progress.
    Problem,
}

stormlog_format::names!(Level {
    Note => "note",
    Likely => "likely",
    Problem => "problem",
});

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Critical => Self::Problem,
            Severity::Warning => Self::Likely,
            Severity::Info => Self::Note,
        }
    }
}
