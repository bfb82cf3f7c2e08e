//! Runs all detectors on a run, collects their findings, and states the result in one line.

mod companion;
mod headline;
mod lines;
mod outcome;
mod phase_peak;
mod scope;
mod urgency;

use rayon::prelude::*;

use super::answer::Answer;
use super::detector::Context;
use super::finding::{Finding, Kind, Severity};
use super::options::Options;
use crate::timeline::{End, Run};
pub use headline::Headline;
pub use outcome::Outcome;
pub use phase_peak::PhasePeak;
pub use scope::Scope;

/// The answers of all detectors, the part of the run that they covered, and how the run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// For each kind of problem the answer of its detector, in the order of [`Kind::ALL`].
    pub answers: Vec<(Kind, Answer)>,
    /// Whether only the memory in use on devices was recorded, and no counter of an allocator.
    pub is_from_outside: bool,
    /// The part of the run that the diagnosis covered: processes, ranks, devices and time.
    pub scope: Scope,
    /// How the run ended, such as with an exit code or by a signal.
    pub end: End,
    /// Notes on phases, such as evaluations, that need much more memory than training steps. They
    /// are not problems by themselves.
    pub notes: Vec<PhasePeak>,
    /// The number of further such phases, for which there is no note because there are too many.
    pub notes_left_out: usize,
}

/// Runs all detectors on a run.
#[must_use]
pub fn diagnose(run: &Run, options: &Options) -> Diagnosis {
    let context = Context::of(run, options);
    let mut answers: Vec<(Kind, Answer)> = Kind::ALL
        .into_par_iter()
        .map(|kind| (kind, (kind.detector().check)(&context)))
        .collect();
    urgency::attach(&mut answers);
    companion::demote(&mut answers);
    companion::share_holder(&mut answers);
    lines::write(&mut answers, run);
    let (notes, notes_left_out) = phase_peak::notes(run);
    Diagnosis {
        answers,
        is_from_outside: run.is_from_outside(),
        scope: Scope::of(run),
        end: run.end(),
        notes,
        notes_left_out,
    }
}

impl Diagnosis {
    /// All findings, the most severe first, then by kind, rank and time.
    #[must_use]
    pub fn findings(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self
            .answers
            .iter()
            .flat_map(|(_, v)| v.findings())
            .collect();
        all.sort_by_key(|f| {
            // Among findings of severity info, growth comes before an OOM risk, because the risk
            // does not matter for a run that has ended.
            let is_note_of_risk = f.kind == Kind::OomRisk && f.severity == Severity::Info;
            let severity = std::cmp::Reverse(f.severity);
            (severity, is_note_of_risk, f.kind, f.rank, f.onset_ns)
        });
        all
    }

    /// Whether the recording is too short: no detector found a problem, and none had enough data to
    /// rule one out.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        // Even a short run shows that memory did not run out, so a clear answer about the OOM risk
        // does not count as enough data.
        self.answers.iter().all(|(kind, answer)| match kind {
            Kind::OomRisk => answer.findings().is_empty(),
            _ => *answer == Answer::NotEnoughEvidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{a_rank, mib, run_of};
    use super::*;
    use crate::detect::Level;
    use crate::timeline::Column;

    #[test]
    fn says_nothing_when_nothing_is_wrong() {
        let diagnosis = diagnose(&run_of([a_rank(0)]), &Options::default());
        assert_eq!(diagnosis.findings(), Vec::<&Finding>::new());
        assert_eq!(
            diagnosis.headline(),
            "No memory problem found: 1 process, GPU 0, 6 min 39 s"
        );
    }

    #[test]
    fn a_device_watched_from_outside_is_not_called_too_short() {
        let mut run = run_of([a_rank(0).grows(mib(30), 100)]);
        for track in &mut run.tracks {
            track.allocated = Column::default();
            track.reserved = Column::default();
        }
        let diagnosis = diagnose(&run, &Options::default());
        assert_eq!(diagnosis.findings(), Vec::<&Finding>::new());
        assert!(diagnosis.headline().contains("'stormlog run' records"));
    }

    #[test]
    fn the_end_is_in_the_headline_only_where_it_says_more() {
        let headline = |grows: bool, end: End| {
            let rank = if grows {
                a_rank(0).grows(mib(30), 100)
            } else {
                a_rank(0)
            };
            let mut diagnosis = diagnose(&run_of([rank]), &Options::default());
            diagnosis.end = end;
            diagnosis.headline()
        };
        let killed = End::Signal { number: 9 };
        assert!(headline(true, killed.clone()).ends_with("; ended by SIGKILL (signal 9)"));
        assert!(headline(false, killed).ends_with("; ended by SIGKILL (signal 9)"));
        let done = End::Exit { code: Some(0) };
        assert!(headline(true, done.clone()).ends_with("so far; device full in about 23 min)"));
        assert!(headline(false, done).ends_with("; ended with exit code 0"));
    }

    #[test]
    fn puts_the_gravest_first() {
        let run = run_of([a_rank(0).grows(mib(30), 100).runs_out_of_memory()]);
        let diagnosis = diagnose(&run, &Options::default());
        let kinds: Vec<Kind> = diagnosis.findings().iter().map(|f| f.kind).collect();
        assert_eq!(kinds, vec![Kind::OomRisk, Kind::AllocatorLeak]);
        let verdict = diagnosis.verdict();
        assert_eq!(verdict.level, Some(Level::Problem));
        assert!(verdict.verdict.starts_with("PROBLEM: OUT OF MEMORY  "));
        assert!(verdict.verdict.ends_with("(and 1 more finding)"));
    }
}
