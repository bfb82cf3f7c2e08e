//! `rank_imbalance`: one rank permanently holds more memory than the others.

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::{Evidence, Subject};
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use crate::stats::{median, quantile, robust_sigma};

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::RankImbalance,
    title: "Rank imbalance",
    noun: "rank imbalance",
    label: "uses more than other ranks",
    resource: Judged::Device,
    is_growth: false,
    draws_end: false,
    formerly: None,
    check: |context| context.of_tracks(check),
};

/// Smallest excess of a rank's memory over the median of the other ranks that is reported, as a
/// share of that median. Ordinary differences between ranks stay below 6 %, real cases start at
/// 13 %, and an imbalance is defined as more than 10 %.
const MIN_SHARE: f64 = 0.10;
/// Smallest excess of a rank's memory that is reported, as a multiple of the standard deviation of
/// the excesses of all ranks.
const MIN_SIGMAS: f64 = 4.0;
/// Minimum number of ranks needed to compute the standard deviation between ranks.
const MIN_RANKS_FOR_SCATTER: usize = 6;
/// Ranks are compared at these quantiles of their samples, from near the lowest memory of a step
/// (0.05) to near the peak (0.95).
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// Minimum number of samples after the warm-up that a rank needs to be compared with others.
const MIN_SAMPLES: usize = 16;

type Profile = [f64; QUANTILES.len()];

/// Compares how much memory the ranks hold after the warm-up, and reports each rank that holds
/// clearly more than the others, unless a leak or jump explains it.
fn check(evidence: &Evidence) -> Answer {
    if evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    // Only different ranks are compared, not several tracks of a single rank.
    if !evidence.has_ranks {
        return Answer::Clear;
    }
    let profiles: Vec<Option<Profile>> = evidence.subjects.iter().map(profile).collect();
    let sorted: Vec<Vec<f64>> = (0..QUANTILES.len())
        .map(|q| {
            let mut all: Vec<f64> = profiles.iter().flatten().map(|p| p[q]).collect();
            all.sort_unstable_by(f64::total_cmp);
            all
        })
        .collect();
    let shares: Vec<Option<(f64, f64)>> = profiles
        .iter()
        .map(|own| above_others(own.as_ref()?, &sorted))
        .collect();
    let least = MIN_SHARE.max(MIN_SIGMAS * scatter_of(&shares));
    let found = evidence
        .subjects
        .iter()
        .zip(&shares)
        .filter_map(|(subject, share)| {
            let (share, typical) = (*share)?;
            // A leak or jump of the rank has its own finding, which already explains why the rank
            // holds more.
            let course = &subject.allocated;
            let explained = course.growth.is_some() || course.jump.is_some();
            (share > least && !explained).then(|| describe(subject, share, typical))
        });
    let mut found: Vec<Finding> = found.collect();
    found.sort_by_key(|f| f.rank);
    found.dedup_by_key(|f| f.rank);
    Answer::from_findings(found)
}

fn profile(subject: &Subject) -> Option<Profile> {
    let signals = &subject.signals;
    let from = signals.allocated.index_at(signals.warm_end);
    let steady = &signals.allocated.y[from..];
    (steady.len() >= MIN_SAMPLES).then(|| QUANTILES.map(|q| quantile(steady, q)))
}

/// How far a rank's memory exceeds the median of the other ranks, as a share of that median, and
/// the median itself in bytes. Ranks are compared at each of the `QUANTILES`, and the middle result
/// is returned, because one or two quantiles may depend on where in the steps the samples happened
/// to fall.
fn above_others(own: &Profile, sorted: &[Vec<f64>]) -> Option<(f64, f64)> {
    let mut shares: Vec<(f64, f64)> = own
        .iter()
        .zip(sorted)
        .filter_map(|(&own, all)| {
            let typical = median_of_others(all, own)?;
            (typical > 0.0).then(|| (own / typical - 1.0, typical))
        })
        .collect();
    shares.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    shares.get(shares.len() / 2).copied()
}

/// Standard deviation of the ranks' excess shares; 0 when there are too few ranks. With few samples
/// at random points of a step, ranks seem to differ more than they really do, and this standard
/// deviation measures by how much.
fn scatter_of(shares: &[Option<(f64, f64)>]) -> f64 {
    let known: Vec<f64> = shares.iter().flatten().map(|s| s.0).collect();
    if known.len() < MIN_RANKS_FOR_SCATTER {
        0.0
    } else {
        robust_sigma(&known)
    }
}

/// The median of a sorted list of numbers without one of its members, `excluded`; `None` when the
/// list has no other member.
fn median_of_others(sorted: &[f64], excluded: f64) -> Option<f64> {
    let others = sorted.len().checked_sub(1).filter(|&n| n > 0)?;
    let at = sorted.partition_point(|&v| v < excluded);
    let other = |k: usize| sorted[if k < at { k } else { k + 1 }];
    Some(median(&[other((others - 1) / 2), other(others / 2)]))
}

fn describe(subject: &Subject, share: f64, typical: f64) -> Finding {
    let signals = &subject.signals;
    let mut finding = draft::finding(Kind::RankImbalance, Severity::Info, subject);
    finding.magnitude_bytes = Some(draft::whole(share * typical));
    finding.confidence = confidence::of_imbalance(share);
    finding.evidence = vec![
        ("share_above_others", share),
        ("typical_of_others_bytes", typical),
    ];
    finding.size_words = format!(
        "{} ({}) more than the other ranks",
        words::bytes(share * typical),
        words::percent(share),
    );
    finding.explanation = format!(
        "Rank {rank} typically holds {share} more than the other ranks: {excess} more than their \
         median of {typical}",
        rank = signals.track.rank,
        share = words::percent(share),
        excess = words::bytes(share * typical),
        typical = words::bytes(typical),
    );
    finding.advice = "This rank will run out of memory first: change how pipeline stages, \
                      embeddings, experts, logging or data are distributed over the ranks; an \
                      extra copy on rank 0 can often be kept on the CPU"
        .into();
    finding
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{a_rank, mib, run_of};
    use super::*;

    #[test]
    fn finds_the_rank_that_holds_more() {
        let run = run_of([a_rank(0), a_rank(1).holds(1.2), a_rank(2), a_rank(3)]);
        let answer = check(&Evidence::of(&run));
        let [found] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!((found.rank, found.onset_ns), (Some(1), None));
        assert!(
            found.explanation.contains("holds 20 % more"),
            "{}",
            found.explanation
        );
    }

    #[test]
    fn small_differences_are_ordinary() {
        let run = run_of([a_rank(0), a_rank(1).holds(1.05), a_rank(2), a_rank(3)]);
        assert_eq!(check(&Evidence::of(&run)), Answer::Clear);
    }

    #[test]
    fn a_leak_explains_itself() {
        let run = run_of([a_rank(0), a_rank(1).grows(mib(60), 100), a_rank(2)]);
        assert_eq!(check(&Evidence::of(&run)), Answer::Clear);
    }

    #[test]
    fn one_rank_has_nothing_to_be_compared_with() {
        assert_eq!(check(&Evidence::of(&run_of([a_rank(0)]))), Answer::Clear);
    }

    #[test]
    fn median_leaves_itself_out() {
        assert_eq!(median_of_others(&[1.0, 2.0, 9.0], 9.0), Some(1.5));
        assert_eq!(median_of_others(&[1.0, 2.0, 9.0], 1.0), Some(5.5));
        assert_eq!(median_of_others(&[1.0], 1.0), None);
    }
}
