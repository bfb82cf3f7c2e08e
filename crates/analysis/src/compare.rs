//! Compares two runs: which numbers became higher or lower beyond the noise, which findings are new
//! or gone, and whether the user's limits hold.
//!
//! A side of the comparison is a [`Profile`]: a few numbers per rank and phase, from loaded runs or
//! a saved baseline. [`compare`] is a pure function; [`read_side`] and [`read_baseline`] read
//! files.
//!
//! ```
//! use stormlog_analysis::compare::{Gates, Profile, Side, compare};
//!
//! let nothing = || Side { source: "empty".into(), profile: Profile::default() };
//! let comparison = compare(nothing(), nothing(), &Gates::default());
//! assert!(comparison.ranks.is_empty() && comparison.passed());
//! ```

mod baseline;
mod difference;
mod findings;
mod gate;
mod growing;
mod held;
mod limit;
mod profile;
mod side;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::human_bytes;

pub use baseline::{
    BASELINE_FORMAT, Baseline, BaselineError, baseline_text, parse_baseline, read_baseline,
};
pub use difference::{Change, Difference};
pub use findings::FindingChanges;
pub use gate::{FailOn, GateKind, GateOutcome, GateStatus, Gates, Miss};
pub use held::KnownHolder;
pub use limit::{BadLimit, GrowthLimit, SlopeLimit, StepLimit};
pub use profile::{KnownFinding, Profile, profile_of};
pub use side::{Side, SideError, read_side};

use crate::detect::{Levels, Metric, PhaseLevels, TrackLevels};
use difference::Yardstick;
use growing::Growing;

/// A phase of a rank, with its numbers on both sides of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseComparison {
    /// The name of the phase.
    pub name: String,
    /// The difference of every metric of the phase that is known on at least one side.
    #[serde(rename = "metrics")]
    pub differences: Vec<Difference>,
}

/// A rank, with its numbers on both sides of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankComparison {
    /// The rank.
    pub rank: u32,
    /// The rank's device on the new side.
    pub device_id: i64,
    /// Whether the rank has several devices, so that output must name the device too.
    #[serde(skip)]
    pub one_of_several: bool,
    /// Number of samples on the base side.
    pub base_samples: usize,
    /// Number of samples on the new side.
    pub new_samples: usize,
    /// The difference of every metric of the rank that is known on at least one side.
    #[serde(rename = "metrics")]
    pub differences: Vec<Difference>,
    /// Phases that both sides have, sorted by name.
    pub phases: Vec<PhaseComparison>,
    /// Names of phases that only the base side has.
    pub phases_only_in_base: Vec<String>,
    /// Names of phases that only the new side has.
    pub phases_only_in_new: Vec<String>,
}

/// A rank that only one side of the comparison has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoneRank {
    /// The rank.
    pub rank: u32,
    /// The device.
    pub device_id: i64,
}

/// The result of comparing the base side with the new side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The base side: the older or reference run, which the new side is compared with.
    pub base: Side,
    /// The new side: the run in which changes are looked for.
    pub new: Side,
    /// The ranks that both sides have, with the differences of their numbers.
    pub ranks: Vec<RankComparison>,
    /// Ranks that only the base side has.
    pub only_in_base: Vec<LoneRank>,
    /// Ranks that only the new side has.
    pub only_in_new: Vec<LoneRank>,
    /// The findings of both sides, grouped into new, gone and shared ones.
    pub findings: FindingChanges,
    /// The results of the gates, which are limits that the user set for the comparison.
    pub gates: Vec<GateOutcome>,
    /// Sentences for the user on what the comparison does not cover, such as missing data, and on
    /// holders that hold more memory on the new side than on the base side.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Every difference with its rank and, if it concerns a phase, the phase's name.
    pub fn differences(
        &self,
    ) -> impl Iterator<Item = (&RankComparison, Option<&str>, &Difference)> {
        self.ranks.iter().flat_map(|rank| {
            let whole = rank
                .differences
                .iter()
                .map(move |difference| (rank, None, difference));
            let phases = rank.phases.iter().flat_map(move |phase| {
                let name = Some(phase.name.as_str());
                phase
                    .differences
                    .iter()
                    .map(move |difference| (rank, name, difference))
            });
            whole.chain(phases)
        })
    }

    /// Whether every gate (limit set by the user) passed. Without gates the result is true.
    pub fn passed(&self) -> bool {
        self.gates
            .iter()
            .all(|gate| gate.status == GateStatus::Passed)
    }

    /// Whether any gate failed. Gates that could not be evaluated do not count as failed.
    pub fn failed(&self) -> bool {
        self.gates
            .iter()
            .any(|gate| gate.status == GateStatus::Failed)
    }
}

/// Compares the numbers and findings of two runs, the base side and the new side, and evaluates the
/// gates, the user's limits, on the result.
#[must_use]
pub fn compare(base: Side, new: Side, gates: &Gates) -> Comparison {
    let (ranks, only_in_base, only_in_new) = match_ranks(&base.profile, &new.profile);
    let findings = findings::changes(&base.profile, &new.profile);
    let mut notes = notes(&base, &new);
    if !base.profile.unanswered.is_empty() && !findings.new.is_empty() {
        notes.push(
            "base: too little was recorded to know all its findings; findings listed as new may not \
             be new"
                .into(),
        );
    }
    notes.extend(held::holds_more(&base.profile, &new.profile));
    notes.extend(
        ranks
            .iter()
            .filter_map(|(base, new)| devices_differ(base, new)),
    );
    notes.extend(
        ranks
            .iter()
            .filter_map(|(base, new)| uses_of_device(base, new)),
    );
    let ranks: Vec<RankComparison> = ranks
        .into_iter()
        .map(|(base_rank, new_rank)| {
            let several = has_several(&new.profile.ranks, new_rank.rank);
            let (rank, device_id) = (new_rank.rank, new_rank.device_id);
            let growing = Growing::of(&base.profile, &new.profile, rank, device_id);
            compare_rank(base_rank, new_rank, growing, several)
        })
        .collect();
    let mut comparison = Comparison {
        base,
        new,
        ranks,
        only_in_base,
        only_in_new,
        findings,
        gates: Vec::new(),
        notes,
    };
    comparison.gates = gate::judge(&comparison, gates);
    comparison
}

type Matched<'a> = (
    Vec<(&'a TrackLevels, &'a TrackLevels)>,
    Vec<LoneRank>,
    Vec<LoneRank>,
);

/// Matches the ranks of both sides by number. A rank with one device on each side is matched even
/// when the device numbers differ, because a scheduler may assign a different device in each run.
fn match_ranks<'a>(base: &'a Profile, new: &'a Profile) -> Matched<'a> {
    let devices_of = |profile: &'a Profile, rank: u32| -> &'a [TrackLevels] {
        let ranks = &profile.ranks;
        let first = ranks.partition_point(|one| one.rank < rank);
        let end = ranks.partition_point(|one| one.rank <= rank);
        &ranks[first..end]
    };
    let all: BTreeSet<u32> = base
        .ranks
        .iter()
        .chain(&new.ranks)
        .map(|one| one.rank)
        .collect();
    let (mut both, mut only_base, mut only_new) = (Vec::new(), Vec::new(), Vec::new());
    for rank in all {
        let (in_base, in_new) = (devices_of(base, rank), devices_of(new, rank));
        if let ([in_base], [in_new]) = (in_base, in_new) {
            both.push((in_base, in_new));
            continue;
        }
        let with_id = |devices: &'a [TrackLevels], id: i64| {
            devices.iter().find(|device| device.device_id == id)
        };
        for one in in_base {
            match with_id(in_new, one.device_id) {
                Some(other) => both.push((one, other)),
                None => only_base.push(one.place()),
            }
        }
        let lone = in_new
            .iter()
            .filter(|one| with_id(in_base, one.device_id).is_none());
        only_new.extend(lone.map(TrackLevels::place));
    }
    (both, only_base, only_new)
}

fn has_several(ranks: &[TrackLevels], rank: u32) -> bool {
    let devices = ranks.iter().filter(|one| one.rank == rank);
    devices.count() > 1
}

fn compare_rank(
    base: &TrackLevels,
    new: &TrackLevels,
    growing: Growing,
    one_of_several: bool,
) -> RankComparison {
    let yardstick = Yardstick::of(base, new, growing);
    let differences = |old: &Levels, now: &Levels| {
        let old = difference::judged(old, base.device_id);
        let now = difference::judged(now, new.device_id);
        difference::all(&old, &now, &yardstick)
    };
    let phase = |profile: &TrackLevels, name: &str| -> Option<usize> {
        profile.phases.iter().position(|phase| phase.name == name)
    };
    let lone = |profile: &TrackLevels, other: &TrackLevels| -> Vec<String> {
        profile
            .phases
            .iter()
            .filter(|one| phase(other, &one.name).is_none())
            .map(|one| one.name.clone())
            .collect()
    };
    let compared = |old: &PhaseLevels| {
        let now = &new.phases[phase(new, &old.name)?];
        Some(PhaseComparison {
            name: old.name.clone(),
            differences: differences(&old.levels, &now.levels),
        })
    };
    RankComparison {
        rank: new.rank,
        device_id: new.device_id,
        one_of_several,
        base_samples: base.samples,
        new_samples: new.samples,
        differences: differences(&base.levels, &new.levels),
        phases: base.phases.iter().filter_map(compared).collect(),
        phases_only_in_base: lone(base, new),
        phases_only_in_new: lone(new, base),
    }
}

fn notes(base: &Side, new: &Side) -> Vec<String> {
    let of = |name: &str, side: &Side| -> Vec<String> {
        let notes = side.profile.notes.iter();
        notes.map(|note| format!("{name}: {note}")).collect()
    };
    let mut notes = of("base", base);
    notes.extend(of("new", new));
    if base.profile.ranks.is_empty() {
        notes.push("base: no samples were recorded".into());
    }
    if new.profile.ranks.is_empty() {
        notes.push("new: no samples were recorded".into());
    }
    notes
}

/// A sentence for a rank whose use of the device includes other processes, or is not compared because
/// it might.
fn uses_of_device(base: &TrackLevels, new: &TrackLevels) -> Option<String> {
    let rank = new.rank;
    let knows = |metric| [base, new].map(|side| side.levels.get(metric).is_some());
    if new.device_id < 0 {
        return None;
    }
    if difference::is_share_of_one_side(&base.levels, &new.levels) {
        return Some(format!(
            "rank {rank}: the memory in use on the device is not compared, because the share of \
             this process is known of only one run"
        ));
    }
    let is_of_all = knows(Metric::PeakOwn) != [true; 2] && knows(Metric::PeakUsed) == [true; 2];
    is_of_all.then(|| {
        format!(
            "rank {rank}: the memory used by all processes on the device is compared, because the \
             share of this process was not recorded"
        )
    })
}

fn devices_differ(base: &TrackLevels, new: &TrackLevels) -> Option<String> {
    let sizes = [base.device_total_bytes?, new.device_total_bytes?];
    let [old, now] = sizes.map(|bytes| human_bytes(bytes as f64));
    // Two drivers report sizes of the same device that differ by less than the printed digits.
    (old != now).then(|| {
        format!(
            "rank {}: the devices differ in size (base: {old}, new: {now})",
            new.rank
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::Measure;

    pub(super) fn rank(rank: u32, device_id: i64, peak: f64) -> TrackLevels {
        let mut levels = Levels::default();
        let measure = Measure {
            value: peak,
            noise: Some(0.0),
        };
        levels.set(Metric::PeakUsed, Some(measure));
        TrackLevels {
            rank,
            device_id,
            samples: 100,
            seconds: 100.0,
            device_total_bytes: Some(80 << 30),
            levels,
            phases: Vec::new(),
            phases_left_out: 0,
        }
    }

    pub(super) fn side(ranks: Vec<TrackLevels>) -> Side {
        Side {
            source: "a".into(),
            profile: Profile {
                ranks,
                ..Profile::default()
            },
        }
    }

    const GIB: f64 = 1_073_741_824.0;

    #[test]
    fn a_rank_that_moved_to_another_device_is_the_same_rank() {
        let base = side(vec![rank(0, 0, GIB), rank(1, 1, GIB)]);
        let new = side(vec![rank(0, 7, 2.0 * GIB), rank(2, 2, GIB)]);
        let comparison = compare(base, new, &Gates::default());
        assert_eq!(comparison.ranks.len(), 1);
        assert_eq!(comparison.ranks[0].differences[0].verdict, Change::Higher);
        let lone = |ranks: &[LoneRank]| ranks.iter().map(|one| one.rank).collect::<Vec<_>>();
        assert_eq!(lone(&comparison.only_in_base), [1]);
        assert_eq!(lone(&comparison.only_in_new), [2]);
    }

    #[test]
    fn several_devices_of_a_rank_are_told_apart() {
        let base = side(vec![rank(0, 0, GIB), rank(0, 1, GIB)]);
        let new = side(vec![rank(0, 1, GIB), rank(0, 2, GIB)]);
        let comparison = compare(base, new, &Gates::default());
        assert_eq!(comparison.ranks.len(), 1);
        assert!(comparison.ranks[0].one_of_several);
        assert_eq!(comparison.only_in_base[0].device_id, 0);
        assert_eq!(comparison.only_in_new[0].device_id, 2);
    }

    #[test]
    fn phases_are_matched_by_name() {
        let phase = |name: &str| PhaseLevels {
            name: name.into(),
            visits: 1,
            samples: 1,
            levels: Levels::default(),
        };
        let (mut old, mut now) = (rank(0, 0, GIB), rank(0, 0, GIB));
        old.phases = vec![phase("eval"), phase("load")];
        now.phases = vec![phase("checkpoint"), phase("eval")];
        let comparison = compare(side(vec![old]), side(vec![now]), &Gates::default());
        let of_rank = &comparison.ranks[0];
        assert_eq!(of_rank.phases[0].name, "eval");
        assert_eq!(of_rank.phases_only_in_base, ["load"]);
        assert_eq!(of_rank.phases_only_in_new, ["checkpoint"]);
    }

    #[test]
    fn other_devices_and_empty_sides_are_noted() {
        let mut small = rank(0, 0, GIB);
        small.device_total_bytes = Some(1 << 30);
        let comparison = compare(
            side(vec![rank(0, 0, GIB)]),
            side(vec![small]),
            &Gates::default(),
        );
        assert!(comparison.notes[0].contains("differ in size"));
        let comparison = compare(side(vec![]), side(vec![rank(0, 0, GIB)]), &Gates::default());
        assert_eq!(comparison.notes, ["base: no samples were recorded"]);
    }
}
