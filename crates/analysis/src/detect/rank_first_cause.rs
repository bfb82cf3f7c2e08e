//! `rank_first_cause`: the rank on which a leak, a drift or a jump of all ranks began.

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::floor::Floor;
use super::evidence::signals::seconds_between;
use super::evidence::{Channel, Evidence, Subject};
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use super::growth::trend::{SHAPES, Trend};
use super::growth::{self, jump};
use crate::stats::{median, robust_sigma};
use crate::timeline;

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::RankFirstCause,
    title: "Rank on which a problem began",
    noun: "first rank of the problem",
    label: "started here",
    resource: Judged::Device,
    is_growth: false,
    draws_end: false,
    formerly: None,
    check: |context| context.of_tracks(check),
};

/// Smallest lead of the first rank's onset over the second rank's onset, as a share of the run and
/// in sampling intervals; the larger limit applies. By definition, the first cause leads by 2.5 %
/// of the run and by five samples. The limits here are lower, because both onsets are estimates
/// with an error.
const MIN_LEAD_SHARE: f64 = 0.0175;
const MIN_LEAD_SAMPLES: f64 = 3.5;

/// Largest spread of the ranks' growth rates, as a share of their median, at which all ranks are
/// assumed to grow at the same rate.
const MAX_PACE_SPREAD: f64 = 0.3;

/// The shape of the growth (at a constant rate or accelerating) is determined from at most this
/// many ranks, to limit the time it takes.
const ENOUGH_RANKS: usize = 64;

/// When all ranks leak, drift or jump, finds the rank on which that began first.
fn check(evidence: &Evidence) -> Answer {
    if evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    let troubles = [
        Trouble::Leak,
        Trouble::Drift,
        Trouble::Step,
        Trouble::HiddenStep,
    ];
    let found = troubles
        .into_iter()
        .filter_map(|trouble| leader(evidence, trouble))
        .take(1)
        .collect();
    Answer::from_findings(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Leak,
    Drift,
    Step,
    HiddenStep,
}

impl Trouble {
    fn channel(self) -> Channel {
        match self {
            Self::Leak | Self::Step => Channel::Allocated,
            Self::Drift | Self::HiddenStep => Channel::Hidden,
        }
    }

    fn is_growth(self) -> bool {
        matches!(self, Self::Leak | Self::Drift)
    }

    fn onset(self, subject: &Subject) -> Option<f64> {
        let course = subject.course(self.channel());
        if self.is_growth() {
            course.growth.map(|g| g.onset)
        } else {
            course.jump.map(|j| j.onset)
        }
    }

    fn is_evident_on(self, subject: &Subject) -> bool {
        let course = subject.course(self.channel());
        if self.is_growth() {
            course.growth.is_some_and(|g| g.meets(&growth::ALONE))
        } else {
            course.jump.is_some_and(|j| j.odds >= jump::ALONE)
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Leak => "growth of allocated memory",
            Self::Drift => "growth of memory outside the allocator",
            Self::Step => "jump of allocated memory",
            Self::HiddenStep => "jump of memory outside the allocator",
        }
    }
}

fn leader(evidence: &Evidence, trouble: Trouble) -> Option<Finding> {
    let mut affected: Vec<&Subject> = evidence
        .subjects
        .iter()
        .filter(|s| trouble.onset(s).is_some())
        .collect();
    // For a rank that restarted, only the first session counts, because the problem began in that
    // session.
    affected.sort_by_key(|s| (s.signals.track.rank, s.signals.start_ns));
    affected.dedup_by_key(|s| s.signals.track.rank);
    if !draft::is_run_wide(affected.len(), draft::ranks(evidence).len()) {
        return None;
    }
    // Ranks whose growth was accepted only because their peers grow have no reliable onset.
    affected.retain(|s| trouble.is_evident_on(s));
    let ahead =
        timeline::clocks::ahead(&affected.iter().map(|s| s.signals.track).collect::<Vec<_>>());
    let origin = affected.iter().map(|s| s.signals.start_ns).min()?;
    let onsets = onsets(&affected, trouble)?;
    let mut common: Vec<(f64, &Subject)> = Vec::new();
    for ((subject, onset), ahead) in affected.iter().zip(onsets).zip(ahead) {
        let wall = seconds_between(origin, subject.signals.start_ns);
        common.push((wall + onset - ahead, subject));
    }
    common.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, second) = (common.first()?, common.get(1)?);
    let (lead, subject) = (second.0 - first.0, first.1);
    let signals = &subject.signals;
    let least = (MIN_LEAD_SHARE * signals.span).max(MIN_LEAD_SAMPLES * signals.interval);
    (lead >= least).then(|| describe(subject, trouble, lead, lead / least, common.len()))
}

fn describe(
    subject: &Subject,
    trouble: Trouble,
    lead: f64,
    lead_over_least: f64,
    ranks: usize,
) -> Finding {
    let signals = &subject.signals;
    let rank = signals.track.rank;
    let mut finding = draft::finding(Kind::RankFirstCause, Severity::Warning, subject);
    let onset = trouble.onset(subject);
    finding.onset_ns = onset.map(|onset| signals.ns(onset));
    finding.confidence = confidence::of_lead(lead_over_least);
    finding.phase = onset.and_then(|onset| signals.phase_at(onset));
    let compared = ranks as f64;
    finding.evidence = vec![("lead_s", lead), ("ranks_compared", compared)];
    finding.size_words = format!(
        "the {} began here, {} before the other ranks",
        trouble.words(),
        words::duration(lead),
    );
    finding.explanation = format!(
        "The {trouble} that all ranks show began on rank {rank}, {lead} before it reached any of \
         the {others} other ranks that were compared (after their clocks were aligned)",
        trouble = trouble.words(),
        lead = words::duration(lead),
        others = ranks - 1,
    );
    finding.advice = format!(
        "Look at rank {rank} first: its input shard, its host and whatever it alone does \
         (logging, data loading, a slow or failing device); the other ranks follow it"
    );
    finding
}

/// The time at which the problem began on each rank, in seconds since the rank's own track began.
fn onsets(affected: &[&Subject], trouble: Trouble) -> Option<Vec<f64>> {
    if !trouble.is_growth() {
        return affected.iter().map(|s| trouble.onset(s)).collect();
    }
    let shape = common_shape(affected, trouble)?;
    let fits: Option<Vec<(Floor, Trend)>> =
        affected.iter().map(|s| fitted(s, trouble, shape)).collect();
    let fits = fits?;
    // The same fault makes memory grow at the same rate on every rank, so fitting all ranks with
    // their common rate makes the onsets more precise.
    let paces: Vec<f64> = fits.iter().map(|f| f.1.pace()).collect();
    let pace = median(&paces);
    let alike = robust_sigma(&paces) <= MAX_PACE_SPREAD * pace;
    let onset = |((floor, trend), subject): (&(Floor, Trend), &&Subject)| {
        if alike {
            trend.at_pace(pace, floor, &subject.signals).onset
        } else {
            trend.onset
        }
    };
    Some(fits.iter().zip(affected).map(onset).collect())
}

/// The shape of growth that fits best over at most [`ENOUGH_RANKS`] ranks. All ranks use the same
/// shape, because onsets fitted with different shapes cannot be compared.
fn common_shape(affected: &[&Subject], trouble: Trouble) -> Option<i32> {
    let stride = affected.len().div_ceil(ENOUGH_RANKS).max(1);
    let misfit = |shape: i32| {
        let fits = affected
            .iter()
            .step_by(stride)
            .filter_map(|s| fitted(s, trouble, shape));
        fits.map(|f| f.1.misfit).sum::<f64>()
    };
    SHAPES
        .into_iter()
        .map(|shape| (misfit(shape), shape))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|best| best.1)
}

/// Fits growth with the exponent `shape` to the memory floor of one rank, and returns the floor
/// with the fitted trend. `None` when the memory of the rank does not
/// grow or the fit fails.
fn fitted(subject: &Subject, trouble: Trouble, shape: i32) -> Option<(Floor, Trend)> {
    let signals = &subject.signals;
    let (series, floor) = signals.channel(trouble.channel());
    let rough = subject.course(trouble.channel()).growth?.trend;
    let floor = growth::floor_along(series, &rough, floor, signals);
    let trend = Trend::fit(&floor, signals, &[shape])?;
    Some((floor, trend))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{Sketch, a_rank, gib, mib, run_of, seconds_since_start};
    use super::*;

    /// Creates eight ranks, of which rank 5 has its onset 30 samples before the others.
    fn after_rank_5(trouble: impl Fn(Sketch, i64) -> Sketch) -> Vec<Sketch> {
        let onset = |rank: u32| {
            if rank == 5 {
                140
            } else {
                170 + i64::from(rank)
            }
        };
        (0..8)
            .map(|rank| trouble(a_rank(rank), onset(rank)))
            .collect()
    }

    fn answer_on(sketches: Vec<Sketch>) -> Answer {
        check(&Evidence::of(&run_of(sketches)))
    }

    #[test]
    fn names_the_rank_that_leaked_first() {
        let answer = answer_on(after_rank_5(|rank, at| rank.grows(mib(20), at)));
        let [found] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(found.rank, Some(5));
        assert!(
            (130..=160).contains(&seconds_since_start(found.onset_ns)),
            "{found:?}"
        );
    }

    #[test]
    fn names_the_rank_that_drifted_or_jumped_first() {
        let drift = answer_on(after_rank_5(|rank, at| rank.hidden_grows(mib(10), at)));
        let jump = answer_on(after_rank_5(|rank, at| rank.jumps(gib(4), at)));
        let hidden = answer_on(after_rank_5(|rank, at| rank.hidden_jumps(gib(4), at)));
        for answer in [drift, jump, hidden] {
            let [found] = answer.findings() else {
                panic!("{answer:?}")
            };
            assert_eq!(found.rank, Some(5));
        }
    }

    #[test]
    fn is_not_misled_by_clocks_or_late_recorders() {
        let mut sketches = after_rank_5(|rank, at| rank.grows(mib(20), at));
        sketches[5] = sketches[5].clone().clock_ahead(60);
        sketches[2] = sketches[2].clone().clock_ahead(-45);
        sketches[7] = sketches[7].clone().attached_at(60);
        let answer = answer_on(sketches);
        let [found] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(found.rank, Some(5));
        assert!(
            (190..=220).contains(&seconds_since_start(found.onset_ns)),
            "{found:?}"
        );
    }

    #[test]
    fn nobody_began_when_all_did() {
        let together = (0..8)
            .map(|rank| a_rank(rank).grows(mib(20), 150))
            .collect();
        assert_eq!(answer_on(together), Answer::Clear);
    }

    #[test]
    fn a_rank_alone_is_no_first_cause() {
        let alone = (0..8).map(|r| {
            if r == 5 {
                a_rank(r).grows(mib(20), 150)
            } else {
                a_rank(r)
            }
        });
        assert_eq!(answer_on(alone.collect()), Answer::Clear);
    }
}
