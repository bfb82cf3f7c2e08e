//! Runs all detectors on a run, collects their findings, and states the result in one line.

mod companion;
mod phase_peak;
mod scope;

use rayon::prelude::*;
use stormlog_format::counted;

use super::answer::Answer;
use super::evidence::{Evidence, MIN_SAMPLES};
use super::finding::{Finding, Kind, Severity};
use super::host_leak::{self, HostEvidence};
use super::options::Options;
use super::{
    allocator_leak, fragmentation, hidden_drift, oom_risk, rank_first_cause, rank_imbalance,
    step_change, transient_spike,
};
use crate::timeline::{End, Run, Track};
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

/// Runs all detectors on a run. Host memory and devices are judged separately, because ranks are
/// comparable only on the same kind of resource.
#[must_use]
pub fn diagnose(run: &Run, options: &Options) -> Diagnosis {
    let judged = run.tracks.iter().filter(|track| !track.is_host_of_run());
    let (hosts, devices): (Vec<&Track>, Vec<&Track>) = judged.partition(|track| track.is_host());
    let groups: Vec<Evidence> = [devices, hosts]
        .into_iter()
        .filter(|tracks| !tracks.is_empty())
        .map(|tracks| Evidence::of_tracks(run, &tracks))
        .collect();
    let of_run = HostEvidence::of(run);
    let answer = |kind| {
        let of_groups = groups.iter().map(|evidence| match kind {
            Kind::OomRisk => oom_risk::check(evidence, options),
            Kind::AllocatorLeak => allocator_leak::check(evidence),
            Kind::HiddenDrift => hidden_drift::check(evidence),
            Kind::HostLeak => Answer::NotEnoughData,
            Kind::Fragmentation => fragmentation::check(evidence),
            Kind::StepChange => step_change::check(evidence),
            Kind::TransientSpike => transient_spike::check(evidence),
            Kind::RankFirstCause => rank_first_cause::check(evidence),
            Kind::RankImbalance => rank_imbalance::check(evidence),
        });
        let of_host = match kind {
            Kind::OomRisk => oom_risk::check_host(run, &of_run, options),
            Kind::HostLeak => host_leak::check(run, &of_run),
            Kind::AllocatorLeak
            | Kind::HiddenDrift
            | Kind::Fragmentation
            | Kind::StepChange
            | Kind::TransientSpike
            | Kind::RankFirstCause
            | Kind::RankImbalance => Answer::NotEnoughData,
        };
        let of_host = match of_host {
            Answer::Clear if !of_run.is_recorded() => Answer::NotEnoughData,
            answer => answer,
        };
        of_groups.fold(of_host, Answer::and)
    };
    let mut answers: Vec<(Kind, Answer)> = Kind::ALL
        .into_par_iter()
        .map(|kind| (kind, answer(kind)))
        .collect();
    companion::demote(&mut answers);
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
            _ => *answer == Answer::NotEnoughData,
        })
    }

    /// The verdict in one line: the most severe finding and the number of others. When the run
    /// ended abnormally, the line begins with the way it ended.
    #[must_use]
    pub fn headline(&self) -> String {
        self.headline_with(true)
    }

    /// The headline without the exit code, for output that already shows the exit code.
    #[must_use]
    pub fn headline_without_end(&self) -> String {
        self.headline_with(false)
    }

    fn headline_with(&self, has_end: bool) -> String {
        let findings = self.findings();
        let shown = findings
            .iter()
            .filter(|finding| finding.severity > Severity::Info)
            .count();
        let verdict = match findings.first() {
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
                let clear = if note.kind.is_growth() {
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
        let is_stated = findings.is_empty() && !self.is_too_short() || shown == 0;
        match &self.end {
            End::Signal { .. } | End::Exception { .. } | End::Vanished => {
                format!("{}. {verdict}", capitalized(&self.end.clause()))
            }
            End::Exit { code: Some(code) } if *code != 0 && !is_stated => {
                format!("{}. {verdict}", capitalized(&self.end.clause()))
            }
            End::StillRunning if !is_stated => format!("{verdict} (still running)"),
            _ => verdict,
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

const FOUND_NOTHING: &str = "No memory problem found";

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{a_rank, mib, run_of};
    use super::*;
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
    fn a_note_stays_in_the_headline_without_the_end() {
        let run = run_of([a_rank(0).grows(mib(30), 100)]);
        let mut diagnosis = diagnose(&run, &Options::default());
        diagnosis.end = End::Exit { code: Some(0) };
        for (_, answer) in &mut diagnosis.answers {
            if let Answer::Found(findings) = answer {
                for finding in findings {
                    finding.severity = Severity::Info;
                }
            }
        }
        let note = format!(". Note: {}", diagnosis.findings()[0].explanation);
        let (whole, short) = (diagnosis.headline(), diagnosis.headline_without_end());
        assert!(
            whole.contains("; ended with exit code 0. Note: "),
            "{whole}"
        );
        assert!(short.starts_with("No certain memory problem: "), "{short}");
        assert!(short.contains(&note) && !short.contains("ended"), "{short}");
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
