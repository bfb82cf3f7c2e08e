//! All eight questions put to a run, and the answers in one line.

use rayon::prelude::*;

use super::evidence::{Evidence, MIN_SAMPLES};
use super::finding::{Finding, Kind, Verdict};
use super::options::Options;
use super::run::Run;
use super::{drift, first_cause, fragmentation, imbalance, leak, oom, spike, step};

/// The answers to all eight questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// One verdict per kind, in the order of [`Kind::ALL`].
    pub verdicts: Vec<(Kind, Verdict)>,
    /// Whether all that was recorded is how full the device was.
    pub is_from_outside: bool,
}

/// Puts all eight questions to a run.
#[must_use]
pub fn diagnose(run: &Run, options: &Options) -> Diagnosis {
    let evidence = Evidence::of(run);
    let verdict = |kind| match kind {
        Kind::OomRisk => oom::check(&evidence, options),
        Kind::AllocatorLeak => leak::check(&evidence),
        Kind::HiddenDrift => drift::check(&evidence),
        Kind::Fragmentation => fragmentation::check(&evidence),
        Kind::StepChange => step::check(&evidence),
        Kind::TransientSpike => spike::check(&evidence),
        Kind::RankFirstCause => first_cause::check(&evidence),
        Kind::RankImbalance => imbalance::check(&evidence),
    };
    Diagnosis {
        verdicts: Kind::ALL
            .into_par_iter()
            .map(|kind| (kind, verdict(kind)))
            .collect(),
        is_from_outside: run.is_from_outside(),
    }
}

impl Diagnosis {
    /// All findings, the most severe first, then by kind, rank and time.
    #[must_use]
    pub fn findings(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self
            .verdicts
            .iter()
            .flat_map(|(_, v)| v.findings())
            .collect();
        all.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.kind, f.rank, f.onset_ns));
        all
    }

    /// Whether no question could be answered.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.verdicts
            .iter()
            .all(|(_, verdict)| *verdict == Verdict::TooShort)
    }

    /// The verdict in one line: the gravest finding, and how many others there are.
    #[must_use]
    pub fn headline(&self) -> String {
        let findings = self.findings();
        match findings.split_first() {
            None if self.is_too_short() && self.is_from_outside => {
                "Nothing can be said about growth: from outside, an allocator's cache looks like \
                 a leak; 'stormlog run' records the allocator's counters"
                    .to_owned()
            }
            None if self.is_too_short() => format!(
                "Too little was recorded to say anything: it takes {MIN_SAMPLES} samples with the \
                 allocator's counters"
            ),
            None => "Nothing is wrong with the memory of this run".to_owned(),
            Some((gravest, [])) => gravest.explanation.clone(),
            Some((gravest, [_])) => format!("{} (and 1 more finding)", gravest.explanation),
            Some((gravest, rest)) => {
                format!("{} (and {} more findings)", gravest.explanation, rest.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::Column;
    use super::super::sketch::{a_rank, mib, run_of};
    use super::*;

    #[test]
    fn says_nothing_when_nothing_is_wrong() {
        let diagnosis = diagnose(&run_of([a_rank(0)]), &Options::default());
        assert_eq!(diagnosis.findings(), Vec::<&Finding>::new());
        assert_eq!(
            diagnosis.headline(),
            "Nothing is wrong with the memory of this run"
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
    fn puts_the_gravest_first() {
        let run = run_of([a_rank(0).grows(mib(30), 100)]);
        let diagnosis = diagnose(&run, &Options::default());
        let kinds: Vec<Kind> = diagnosis.findings().iter().map(|f| f.kind).collect();
        assert_eq!(kinds, vec![Kind::OomRisk, Kind::AllocatorLeak]);
        assert!(diagnosis.headline().ends_with("(and 1 more finding)"));
    }
}
