//! Gates: limits set by the user, evaluated on a comparison. A gate that cannot be evaluated counts
//! as not passed.

use super::difference::{Change, is_above_noise, judged};
use super::{
    Comparison, Difference, GrowthLimit, KnownFinding, RankComparison, SlopeLimit, StepLimit,
};
use crate::detect::{Measure, Metric, TrackLevels};

/// A condition, set with `--fail-on`, under which a comparison fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// The new side has a finding that the base side does not have.
    NewFindings,
    /// A number, such as peak memory, is higher on the new side than on the base side.
    Higher,
}

stormlog_format::names!(FailOn {
    NewFindings => "new-findings",
    Higher => "higher",
});

/// The limits and conditions that the user set for a comparison, each of which becomes a gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates {
    /// Limit on how much the peak memory of a rank may grow from the base side to the new side.
    pub max_peak_growth: Option<GrowthLimit>,
    /// Limit on how many bytes per second the memory of a rank may grow during the run on the new
    /// side.
    pub max_slope: Option<SlopeLimit>,
    /// Limit on how many bytes per training step the allocated memory of a rank may grow during the
    /// run on the new side.
    pub max_leak_per_step: Option<StepLimit>,
    /// Limit on how much the hidden memory of a rank (device memory in use outside the allocator)
    /// may grow from the base side to the new side.
    pub max_gap_growth: Option<GrowthLimit>,
    /// Conditions that fail the comparison, in addition to the limits.
    pub fail_on: Vec<FailOn>,
}

/// The kind of a gate, named after the command-line flag that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateKind {
    /// The gate of the flag `--max-peak-growth`.
    MaxPeakGrowth,
    /// The gate of the flag `--max-slope`.
    MaxSlope,
    /// The gate of the flag `--max-leak-per-step`.
    MaxLeakPerStep,
    /// The gate of the flag `--max-gap-growth`.
    MaxGapGrowth,
    /// The gate of the flag `--fail-on new-findings`.
    NewFindings,
    /// The gate of the flag `--fail-on higher`.
    Higher,
}

stormlog_format::names!(GateKind {
    MaxPeakGrowth => "max_peak_growth",
    MaxSlope => "max_slope",
    MaxLeakPerStep => "max_leak_per_step",
    MaxGapGrowth => "max_gap_growth",
    NewFindings => "new_findings",
    Higher => "higher",
});

impl GateKind {
    /// The command-line flag that sets the gate.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::MaxPeakGrowth => "--max-peak-growth",
            Self::MaxSlope => "--max-slope",
            Self::MaxLeakPerStep => "--max-leak-per-step",
            Self::MaxGapGrowth => "--max-gap-growth",
            Self::NewFindings | Self::Higher => "--fail-on",
        }
    }
}

/// Whether a gate (a limit or condition that the user set for a comparison) passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStatus {
    /// All measured values stay within the limit, and enough was recorded of every rank.
    Passed,
    /// A measured value exceeds the limit.
    Failed,
    /// Too little was recorded to decide whether the limit holds.
    NotJudged,
}

stormlog_format::names!(GateStatus {
    Passed => "passed",
    Failed => "failed",
    NotJudged => "not_judged",
});

/// Why a gate did not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Miss {
    /// A number of a rank grew from the base side to the new side, by more than the limit.
    Grew {
        /// The rank whose number grew.
        rank: u32,
        /// The device; set only when the rank has several devices.
        device_id: Option<i64>,
        /// The phase of the number that grew; `None` for the whole run.
        phase: Option<String>,
        /// The number that grew, with its values on both sides.
        difference: Difference,
    },
    /// On the new side, the memory of a rank grows by more bytes per second, or per step, than the
    /// limit allows.
    Grows {
        /// The rank whose memory grows.
        rank: u32,
        /// The device; set only when the rank has several devices.
        device_id: Option<i64>,
        /// The growth rate that exceeds the limit, such as [`Metric::AllocatedSlope`].
        metric: Metric,
        /// The value of the growth rate, in bytes per second or per step.
        slope: Measure,
    },
    /// The new side has a finding that the base side does not have.
    Found(KnownFinding),
    /// Too little was recorded of a rank to evaluate the gate.
    TooLittleOf {
        /// The rank of which too little was recorded.
        rank: u32,
        /// The device; set only when the rank has several devices.
        device_id: Option<i64>,
        /// Number of samples on the new side.
        samples: usize,
    },
    /// No rank has samples on both sides.
    NoRank,
    /// The recording on the new side is too short for some detectors, so the new side may have
    /// problems that were not found.
    NoDiagnosis,
}

impl Miss {
    /// Whether the reason is that too little was recorded, not that a limit was exceeded.
    fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::TooLittleOf { .. } | Self::NoRank | Self::NoDiagnosis
        )
    }
}

/// A gate with its limit, whether it passed, and the reasons if it did not.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    /// The kind of the gate.
    pub kind: GateKind,
    /// The limit of the gate as text, such as `20%`; for `--fail-on`, its value.
    pub limit: String,
    /// Whether the measured values stay within the limit.
    pub status: GateStatus,
    /// The reasons why the gate did not pass; empty if it passed.
    pub misses: Vec<Miss>,
}

impl GateOutcome {
    fn of(kind: GateKind, limit: &impl ToString, misses: Vec<Miss>) -> Self {
        let status = match (misses.is_empty(), misses.iter().all(Miss::is_unknown)) {
            (true, _) => GateStatus::Passed,
            (false, true) => GateStatus::NotJudged,
            (false, false) => GateStatus::Failed,
        };
        Self {
            kind,
            limit: limit.to_string(),
            status,
            misses,
        }
    }
}

pub(super) fn judge(comparison: &Comparison, gates: &Gates) -> Vec<GateOutcome> {
    let mut outcomes = Vec::new();
    if let Some(limit) = gates.max_peak_growth {
        let misses = growth(comparison, limit, Metric::is_peak);
        outcomes.push(GateOutcome::of(GateKind::MaxPeakGrowth, &limit, misses));
    }
    if let Some(limit) = &gates.max_slope {
        let misses = slopes(comparison, limit.bytes_per_s);
        outcomes.push(GateOutcome::of(GateKind::MaxSlope, limit, misses));
    }
    if let Some(limit) = &gates.max_leak_per_step {
        let misses = leaks(comparison, limit.bytes_per_step);
        outcomes.push(GateOutcome::of(GateKind::MaxLeakPerStep, limit, misses));
    }
    if let Some(limit) = gates.max_gap_growth {
        let misses = growth(comparison, limit, |metric| metric == Metric::Gap);
        outcomes.push(GateOutcome::of(GateKind::MaxGapGrowth, &limit, misses));
    }
    for kind in FailOn::ALL {
        if gates.fail_on.contains(&kind) {
            let (gate, misses) = match kind {
                FailOn::NewFindings => (GateKind::NewFindings, new_findings(comparison)),
                FailOn::Higher => (GateKind::Higher, higher(comparison)),
            };
            outcomes.push(GateOutcome::of(gate, &kind.as_str(), misses));
        }
    }
    outcomes
}

fn device_of(rank: &RankComparison) -> Option<i64> {
    rank.one_of_several.then_some(rank.device_id)
}

fn too_little_of(rank: &RankComparison) -> Miss {
    Miss::TooLittleOf {
        rank: rank.rank,
        device_id: device_of(rank),
        samples: rank.new_samples,
    }
}

fn growth(comparison: &Comparison, limit: GrowthLimit, applies: fn(Metric) -> bool) -> Vec<Miss> {
    if comparison.ranks.is_empty() {
        return vec![Miss::NoRank];
    }
    let mut misses = Vec::new();
    // A rank without a device has no hidden memory.
    let of_host = Metric::ALL
        .into_iter()
        .any(|metric| applies(metric) && metric.is_of_host());
    let ranks = comparison.ranks.iter();
    for rank in ranks.filter(|rank| of_host || rank.device_id >= 0) {
        let limited = rank.differences.iter().filter(|one| applies(one.metric));
        let known: Vec<(&Difference, bool)> = limited
            .filter_map(|one| Some((one, one.grew_beyond_noise()? && exceeds(one, limit)?)))
            .collect();
        if known.is_empty() {
            misses.push(too_little_of(rank));
        }
        let grown = known.into_iter().filter(|(_, fails)| *fails);
        misses.extend(grown.map(|(difference, _)| Miss::Grew {
            rank: rank.rank,
            device_id: device_of(rank),
            phase: None,
            difference: *difference,
        }));
    }
    misses
}

fn exceeds(difference: &Difference, limit: GrowthLimit) -> Option<bool> {
    let change = difference.change()?;
    Some(match limit {
        GrowthLimit::Bytes(bytes) => change > bytes,
        // There is no ratio if the value on the base side is zero; growth from zero exceeds any
        // limit given as a share.
        GrowthLimit::Share(share) => difference.ratio().is_none_or(|ratio| ratio > share),
    })
}

/// Evaluates the limit on growth rates, for all ranks of the new side; the base side is not used.
fn slopes(comparison: &Comparison, limit: f64) -> Vec<Miss> {
    let ranks = &comparison.new.profile.ranks;
    if ranks.is_empty() {
        return vec![Miss::NoRank];
    }
    let mut misses = Vec::new();
    for rank in ranks {
        let device_id = named_device(rank, ranks);
        let mut is_judged = false;
        // A caching allocator reserves more device memory whenever a step needs more than any step
        // before, so used memory may grow without a leak. Used memory is therefore checked only
        // when allocated memory is unknown.
        let levels = judged(&rank.levels, rank.device_id);
        let memory = if rank.device_id < 0 {
            Metric::HostSlope
        } else if levels.get(Metric::PeakAllocated).is_some() {
            Metric::AllocatedSlope
        } else if levels.get(Metric::OwnSlope).is_some() {
            Metric::OwnSlope
        } else {
            Metric::UsedSlope
        };
        for metric in [memory, Metric::GapSlope] {
            let Some(slope) = levels.get(metric) else {
                continue;
            };
            let Some(grows) = is_above_noise(slope) else {
                continue;
            };
            is_judged = true;
            if grows && slope.value > limit {
                misses.push(Miss::Grows {
                    rank: rank.rank,
                    device_id,
                    metric,
                    slope,
                });
            }
        }
        if !is_judged {
            misses.push(Miss::TooLittleOf {
                rank: rank.rank,
                device_id,
                samples: rank.samples,
            });
        }
    }
    misses
}

/// The device of a rank for messages; `None` when the rank has only one device, which messages do
/// not name.
fn named_device(rank: &TrackLevels, ranks: &[TrackLevels]) -> Option<i64> {
    super::has_several(ranks, rank.rank).then_some(rank.device_id)
}

/// Evaluates the limit on the leak per step, for the new side only. The leak per step is unknown on
/// a device that no step uses. A rank with several devices therefore counts as recorded too little
/// only when the leak per step is unknown on all of its devices.
fn leaks(comparison: &Comparison, limit: f64) -> Vec<Miss> {
    let ranks = &comparison.new.profile.ranks;
    if ranks.is_empty() {
        return vec![Miss::NoRank];
    }
    let leak_of = |rank: &TrackLevels| {
        let leak = rank.levels.get(Metric::LeakPerStep)?;
        Some((leak, is_above_noise(leak)?))
    };
    let mut misses = Vec::new();
    for rank in ranks {
        match leak_of(rank) {
            Some((slope, true)) if slope.value > limit => misses.push(Miss::Grows {
                rank: rank.rank,
                device_id: named_device(rank, ranks),
                metric: Metric::LeakPerStep,
                slope,
            }),
            Some(_) => {}
            None => {
                let mut same = ranks.iter().filter(|other| other.rank == rank.rank);
                let is_first = same.clone().next().is_some_and(|first| first == rank);
                if is_first && same.all(|other| leak_of(other).is_none()) {
                    misses.push(Miss::TooLittleOf {
                        rank: rank.rank,
                        device_id: None,
                        samples: rank.samples,
                    });
                }
            }
        }
    }
    misses
}

fn new_findings(comparison: &Comparison) -> Vec<Miss> {
    let found = comparison.findings.new.iter().cloned().map(Miss::Found);
    let mut misses: Vec<Miss> = found.collect();
    let new = &comparison.new.profile;
    if new.ranks.is_empty() || !new.unanswered.is_empty() {
        misses.push(Miss::NoDiagnosis);
    }
    misses
}

fn higher(comparison: &Comparison) -> Vec<Miss> {
    if comparison.ranks.is_empty() {
        return vec![Miss::NoRank];
    }
    // Equal values of a short recording are no evidence that nothing is higher.
    let unknown = comparison.ranks.iter().filter(|rank| {
        let differences = rank.differences.iter();
        differences
            .map(Difference::noise)
            .all(|noise| noise.is_none())
    });
    let mut misses: Vec<Miss> = comparison
        .differences()
        .filter(|(_, _, one)| one.verdict == Change::Higher)
        .map(|(rank, phase, difference)| Miss::Grew {
            rank: rank.rank,
            device_id: device_of(rank),
            phase: phase.map(str::to_owned),
            difference: *difference,
        })
        .collect();
    misses.extend(unknown.map(too_little_of));
    misses
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rank, side};
    use super::super::{Side, compare};
    use super::*;

    const GIB: f64 = 1_073_741_824.0;

    fn outcome(base: Side, new: Side, gates: &Gates) -> GateOutcome {
        compare(base, new, gates).gates.remove(0)
    }

    fn peaks(limit: &str) -> Gates {
        Gates {
            max_peak_growth: Some(limit.parse().unwrap()),
            ..Gates::default()
        }
    }

    fn slope(limit: &str) -> Gates {
        Gates {
            max_slope: Some(limit.parse().unwrap()),
            ..Gates::default()
        }
    }

    fn with(
        mut profile: TrackLevels,
        metric: Metric,
        value: f64,
        noise: Option<f64>,
    ) -> TrackLevels {
        profile.levels.set(metric, Some(Measure { value, noise }));
        profile
    }

    #[test]
    fn peaks_may_grow_up_to_the_limit() {
        let status = |grown: f64, limit: &str| {
            let base = side(vec![rank(0, 0, 10.0 * GIB), rank(1, 0, 10.0 * GIB)]);
            let new = side(vec![rank(0, 0, 10.0 * GIB), rank(1, 0, grown * GIB)]);
            outcome(base, new, &peaks(limit)).status
        };
        assert_eq!(status(11.9, "20%"), GateStatus::Passed);
        assert_eq!(status(12.1, "20%"), GateStatus::Failed);
        assert_eq!(status(9.0, "0%"), GateStatus::Passed);
        assert_eq!(status(10.6, "512MiB"), GateStatus::Failed);
        assert_eq!(status(10.4, "512MiB"), GateStatus::Passed);
    }

    #[test]
    fn noise_does_not_fail_a_gate() {
        let base = with(rank(0, 0, GIB), Metric::PeakUsed, 10.0 * GIB, Some(GIB));
        let new = with(rank(0, 0, GIB), Metric::PeakUsed, 12.5 * GIB, Some(GIB));
        let judged = outcome(side(vec![base]), side(vec![new]), &peaks("20%"));
        assert_eq!(judged.status, GateStatus::Passed);
    }

    #[test]
    fn what_cannot_be_judged_does_not_pass() {
        let known = || side(vec![rank(0, 0, GIB)]);
        let short = || side(vec![with(rank(0, 0, GIB), Metric::PeakUsed, GIB, None)]);
        let other = || side(vec![rank(1, 0, GIB)]);
        for (base, new) in [
            (known(), short()),
            (short(), known()),
            (known(), other()),
            (known(), side(vec![])),
        ] {
            let judged = outcome(base, new, &peaks("20%"));
            assert_eq!(judged.status, GateStatus::NotJudged);
            assert_eq!(judged.misses.len(), 1);
        }
        let judged = outcome(known(), known(), &slope("10MB/min"));
        assert_eq!(judged.status, GateStatus::NotJudged);
        let findings = Gates {
            fail_on: vec![FailOn::NewFindings],
            ..Gates::default()
        };
        let mut new = known();
        new.profile.unanswered = vec!["oom_risk".into()];
        let judged = outcome(known(), new, &findings);
        assert_eq!(judged.misses, [Miss::NoDiagnosis]);
        assert_eq!(
            outcome(known(), known(), &findings).status,
            GateStatus::Passed
        );
    }

    #[test]
    fn slopes_are_those_of_the_new_side() {
        let growing = || with(rank(0, 0, GIB), Metric::GapSlope, 1e6, Some(1e3));
        let still = || with(rank(0, 0, GIB), Metric::GapSlope, 0.0, Some(1e3));
        let noisy = || with(rank(0, 0, GIB), Metric::GapSlope, 1e6, Some(1e6));
        let status =
            |base, new| outcome(side(vec![base]), side(vec![new]), &slope("10MB/min")).status;
        assert_eq!(status(still(), growing()), GateStatus::Failed);
        assert_eq!(status(growing(), still()), GateStatus::Passed);
        assert_eq!(status(growing(), noisy()), GateStatus::Passed);
    }

    #[test]
    fn a_leak_per_step_is_that_of_the_new_side() {
        let gates = Gates {
            max_leak_per_step: Some("64KiB/step".parse().unwrap()),
            ..Gates::default()
        };
        let leaks = |bytes, noise| with(rank(0, 0, GIB), Metric::LeakPerStep, bytes, Some(noise));
        let status = |base, new| outcome(side(base), side(new), &gates).status;
        let (leak, small) = (|| leaks(1e6, 10.0), || leaks(4096.0, 10.0));
        assert_eq!(status(vec![small()], vec![leak()]), GateStatus::Failed);
        assert_eq!(status(vec![leak()], vec![small()]), GateStatus::Passed);
        let noisy = leaks(1e6, 1e6);
        assert_eq!(status(vec![leak()], vec![noisy]), GateStatus::Passed);
        // Without recorded steps the gate cannot be evaluated. Host memory recorded next to a
        // device has no steps, which does not make the result unknown.
        let without = || vec![rank(0, 0, GIB)];
        assert_eq!(status(without(), without()), GateStatus::NotJudged);
        let host = rank(0, -1, GIB);
        assert_eq!(status(without(), vec![host, small()]), GateStatus::Passed);
    }

    #[test]
    fn growth_from_nothing_is_beyond_any_share() {
        let gap = |value| side(vec![with(rank(0, 0, GIB), Metric::Gap, value, Some(0.0))]);
        let gates = Gates {
            max_gap_growth: Some(GrowthLimit::Share(0.5)),
            ..Gates::default()
        };
        assert_eq!(
            outcome(gap(0.0), gap(GIB), &gates).status,
            GateStatus::Failed
        );
        assert_eq!(
            outcome(gap(0.0), gap(0.0), &gates).status,
            GateStatus::Passed
        );
    }

    #[test]
    fn anything_higher_can_fail() {
        let gates = Gates {
            fail_on: vec![FailOn::Higher],
            ..Gates::default()
        };
        let status = |base, new| {
            outcome(
                side(vec![rank(0, 0, base)]),
                side(vec![rank(0, 0, new)]),
                &gates,
            )
            .status
        };
        assert_eq!(status(GIB, GIB), GateStatus::Passed);
        assert_eq!(status(GIB, 2.0 * GIB), GateStatus::Failed);
    }
}
