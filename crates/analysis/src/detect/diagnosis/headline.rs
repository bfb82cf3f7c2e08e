//! The verdict of a diagnosis in one line.

use std::fmt;

use stormlog_format::counted;

use super::Diagnosis;
use crate::detect::evidence::MIN_SAMPLES;
use crate::detect::finding::Severity;
use crate::timeline::End;

const FOUND_NOTHING: &str = "No memory problem found";

/// The verdict in one line: the most severe finding and the number of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// How the run ended, if the line begins with it.
    pub end: Option<String>,
    /// The rest of the line.
    pub verdict: String,
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(end) = &self.end {
            write!(f, "{end}. ")?;
        }
        f.write_str(&self.verdict)
    }
}

impl Diagnosis {
    /// The verdict in one line: the most severe finding and the number of others. When the run
    /// ended abnormally, the line begins with the way it ended.
    #[must_use]
    pub fn headline(&self) -> String {
        self.headline_with(true).to_string()
    }

    /// The headline without the exit code, for output that already shows the exit code.
    #[must_use]
    pub fn headline_without_end(&self) -> Headline {
        self.headline_with(false)
    }

    fn headline_with(&self, has_end: bool) -> Headline {
        let findings = self.findings();
        let shown = findings
            .iter()
            .filter(|finding| finding.severity > Severity::Info)
            .count();
        let mut verdict = match findings.first() {
            None if self.is_too_short() && self.is_from_outside => {
                "Growth cannot be judged: from outside, an allocator's cache looks like a \
                 leak; 'stormlog run' records the allocator's counters"
                    .to_owned()
            }
            None if self.is_too_short() => {
                format!("Not enough data to judge: at least {MIN_SAMPLES} samples are needed")
            }
            None => self.clear(FOUND_NOTHING, has_end),
            Some(note) if shown == 0 => {
                let others = match findings.len() - 1 {
                    0 => String::new(),
                    count => format!(" (and {})", counted(count, "more note")),
                };
                let clear = if note.kind.detector().is_growth {
                    "No certain memory problem"
                } else {
                    FOUND_NOTHING
                };
                let clear = self.clear(clear, has_end);
                format!("{clear}. Note: {}{others}", note.explanation)
            }
            Some(most_severe) if shown == 1 => most_severe.explanation.clone(),
            Some(most_severe) => format!(
                "{} (and {})",
                most_severe.explanation,
                counted(shown - 1, "more finding")
            ),
        };
        // Without a finding that is more than a note, `clear` has already stated the end.
        let begins_with_end = match self.end {
            End::Signal { .. } | End::Exception { .. } | End::Vanished => true,
            End::Exit { code: Some(code) } => code != 0 && shown > 0,
            _ => false,
        };
        if self.end == End::StillRunning && shown > 0 {
            verdict.push_str(" (still running)");
        }
        Headline {
            end: begins_with_end.then(|| capitalized(&self.end.clause())),
            verdict,
        }
    }

    /// The headline when nothing was found: the verdict, the part of the run that was covered, and
    /// how the run ended.
    fn clear(&self, verdict: &str, has_end: bool) -> String {
        let end = match &self.end {
            // A signal, an exception or a vanished process is already named at the beginning of the
            // headline, so it is not repeated.
            End::Signal { .. } | End::Exception { .. } | End::Vanished => String::new(),
            End::Exit { .. } if !has_end => String::new(),
            end => end.clause(),
        };
        let end = if end.is_empty() {
            end
        } else {
            format!("; {end}")
        };
        format!("{verdict}: {}{end}", self.scope)
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
