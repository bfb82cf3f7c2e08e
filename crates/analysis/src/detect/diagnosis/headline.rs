//! The verdict of a diagnosis in one line.

use std::fmt;

use stormlog_format::counted;

use super::Diagnosis;
use crate::detect::evidence::MIN_SAMPLES;
use crate::detect::finding::Level;
use crate::timeline::End;

/// The verdict in one line: the line of the first finding and the number of others, or that nothing
/// was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The level of the first finding; `None` when there is none.
    pub level: Option<Level>,
    /// The verdict without the end of the run.
    pub verdict: String,
    /// How the run ended, where the verdict does not say so and the end is known; otherwise empty.
    pub end: String,
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict)?;
        if !self.end.is_empty() {
            write!(f, "; {}", self.end)?;
        }
        Ok(())
    }
}

impl Diagnosis {
    /// The verdict in one line. Where nothing more than a note was found, it includes how the run
    /// ended.
    #[must_use]
    pub fn headline(&self) -> String {
        self.verdict().to_string()
    }

    /// The verdict, with its level and the end of the run separately.
    #[must_use]
    pub fn verdict(&self) -> Headline {
        let findings = self.findings();
        let level = findings.first().map(|finding| finding.level());
        let verdict = match findings.split_first() {
            None if self.is_too_short() && self.is_from_outside => {
                "Growth cannot be judged: from outside, an allocator's cache looks like a \
                 leak; 'stormlog run' records the allocator's counters"
                    .to_owned()
            }
            None if self.is_too_short() => {
                format!("Not enough data to judge: at least {MIN_SAMPLES} samples are needed")
            }
            None => format!("No memory problem found: {}", self.scope),
            Some((first, others)) => {
                // Notes beside a problem do not change what is to be done.
                let first_is_note = first.level() == Level::Note;
                let more = others
                    .iter()
                    .filter(|one| first_is_note || one.level() > Level::Note)
                    .count();
                let more = match (more, first_is_note) {
                    (0, _) => String::new(),
                    (more, true) => format!(" (and {})", counted(more, "more note")),
                    (more, false) => format!(" (and {})", counted(more, "more finding")),
                };
                format!("{}{more}", first.headline)
            }
        };
        let is_said = match &self.end {
            End::Unknown => true,
            End::OutOfMemory | End::KernelOomKill => level == Some(Level::Problem),
            End::Exit { code } => level.is_some() && code.is_none_or(|code| code == 0),
            _ => false,
        };
        let end = if is_said {
            String::new()
        } else {
            self.end.clause()
        };
        Headline {
            level,
            verdict,
            end,
        }
    }
}
