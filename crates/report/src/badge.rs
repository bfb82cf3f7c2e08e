//! The badge of a run: the level of its verdict as one word, in lists and above pages.

use stormlog_analysis::detect::{Diagnosis, Level, Outcome};

/// The word of an issue's severity: that of its level. Alerts may have other severities, which stay
/// as they are.
pub fn level_word(severity: &str) -> &str {
    match severity {
        "critical" => Level::Problem.as_str(),
        "warning" => Level::Likely.as_str(),
        "info" => Level::Note.as_str(),
        other => other,
    }
}

/// A word with the class of its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Badge {
    /// The word: a level, or what is known where nothing was found.
    pub word: &'static str,
    /// The class of the colour: a severity, `good`, or empty for neutral.
    pub class: &'static str,
}

impl Badge {
    /// The badge of a level.
    pub fn of_level(level: Level) -> Self {
        Self {
            word: level.as_str(),
            class: match level {
                Level::Problem => "critical",
                Level::Likely => "warning",
                Level::Note => "info",
            },
        }
    }

    /// The badge of a diagnosis.
    pub fn of(diagnosis: &Diagnosis) -> Self {
        match (diagnosis.verdict().level, diagnosis.outcome()) {
            (Some(level), _) => Self::of_level(level),
            (None, Outcome::NotEnoughEvidence) => Self {
                word: "too short",
                class: "",
            },
            (None, _) => Self {
                word: "ok",
                class: "good",
            },
        }
    }
}
