//! The growth that findings report, as metrics, so that the metrics of a comparison agree with its
//! findings.

use std::collections::BTreeSet;

use super::difference::Change;
use super::profile::Profile;
use crate::detect::{Kind, Metric};

/// The growth that a finding of this kind reports, as metrics. Empty for findings that are not about
/// growth.
fn growth_of(kind: &str, is_host: bool) -> &'static [Metric] {
    match Kind::parse(kind) {
        Some(Kind::AllocatorLeak) if is_host => &[Metric::HostSlope, Metric::LeakPerStep],
        Some(Kind::AllocatorLeak) => &[Metric::AllocatedSlope, Metric::LeakPerStep],
        Some(Kind::HiddenDrift) => &[Metric::GapSlope],
        Some(Kind::HostLeak) => &[Metric::HostSlope],
        _ => &[],
    }
}

/// The growing memory of a rank, by the findings of each side.
#[derive(Clone, Debug, Default)]
pub(super) struct Growing {
    base: BTreeSet<Metric>,
    new: BTreeSet<Metric>,
}

impl Growing {
    pub(super) fn of(base: &Profile, new: &Profile, rank: u32, device_id: i64) -> Self {
        let of_side = |side: &Profile| {
            let of_rank = side.findings.iter();
            let of_rank = of_rank.filter(|one| one.rank.is_none_or(|other| other == rank));
            let metrics = of_rank.flat_map(|one| growth_of(&one.kind, device_id < 0));
            metrics.copied().collect()
        };
        Self {
            base: of_side(base),
            new: of_side(new),
        }
    }

    /// How a metric changed by the findings: higher when only the new side has a finding that
    /// reports its growth, lower when only the base side has one.
    pub(super) fn change_of(&self, metric: Metric) -> Option<Change> {
        match (self.base.contains(&metric), self.new.contains(&metric)) {
            (false, true) => Some(Change::Higher),
            (true, false) => Some(Change::Lower),
            _ => None,
        }
    }

    /// Whether both sides have a finding that reports growth of the metric.
    pub(super) fn is_on_both_sides(&self, metric: Metric) -> bool {
        self.base.contains(&metric) && self.new.contains(&metric)
    }
}

#[cfg(test)]
impl Growing {
    pub(super) fn only_new(metric: Metric) -> Self {
        Self {
            base: BTreeSet::new(),
            new: BTreeSet::from([metric]),
        }
    }

    pub(super) fn both(metric: Metric) -> Self {
        Self {
            base: BTreeSet::from([metric]),
            new: BTreeSet::from([metric]),
        }
    }
}
