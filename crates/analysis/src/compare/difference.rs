//! One number on two sides: is it another number, or the same one with noise?

use super::profile::RankProfile;
use crate::detect::{Levels, Measure, Metric};

/// A change must be this many standard deviations of both sides' noise.
const SIGMAS: f64 = 3.0;
/// A change below this many bytes is not relevant,
const SMALLEST_BYTES: f64 = 16.0 * 1_048_576.0;
/// nor one that is below this share of the device
const SMALLEST_SHARE_OF_DEVICE: f64 = 0.005;
/// and also below this share of what the rank needs: a small process on a large device may
/// double before the device notices.
const SMALLEST_SHARE_OF_PEAK: f64 = 0.05;

/// What became of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It differs by no more than noise, or by too little to matter.
    Unchanged,
    /// It is lower, beyond the noise, by enough to matter.
    Lower,
    /// It is higher, beyond the noise, by enough to matter.
    Higher,
    /// One side is unknown, or too little was recorded to know its noise.
    NotEnoughEvidence,
}

impl Change {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::NotEnoughEvidence => "not_enough_evidence",
        }
    }
}

/// A metric on two sides; at least one of them is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Which number.
    pub metric: Metric,
    /// On the base.
    pub base: Option<Measure>,
    /// On the new side.
    pub new: Option<Measure>,
    /// What became of it.
    pub verdict: Change,
}

impl Difference {
    /// By how much it changed, where both sides are known.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        Some(self.new?.value - self.base?.value)
    }

    /// The change as a share of the base; unknown where the base is nothing or less.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let base = self.base.map(|base| base.value);
        let base = base.filter(|bytes| *bytes > 0.0)?;
        Some(self.change()? / base)
    }

    /// The noise of both sides together, where it is known.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        Some(self.base?.noise?.hypot(self.new?.noise?))
    }

    /// Whether the new side is higher beyond the noise, whether that matters or not; unknown
    /// where a side or its noise is.
    #[must_use]
    pub fn grew_beyond_noise(&self) -> Option<bool> {
        Some(self.change()? > SIGMAS * self.noise()?)
    }
}

/// Whether a number is above nothing beyond its own noise; unknown where the noise is.
pub(super) fn is_above_noise(measure: Measure) -> Option<bool> {
    Some(measure.value > SIGMAS * measure.noise?)
}

/// Steps of a run that goes on for a while.
const MANY_STEPS: f64 = 1000.0;

/// What bytes are measured against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yardstick {
    /// The size of the device, the smaller one where they differ.
    device: Option<f64>,
    /// The most that the rank needed on the base.
    peak: f64,
    /// Seconds that both sides were watched.
    seconds: f64,
}

impl Yardstick {
    pub(super) fn of(base: &RankProfile, new: &RankProfile) -> Self {
        let totals = [base, new].map(|side| side.device_total_bytes);
        let of_device = |metric: &Metric| metric.is_peak() && *metric != Metric::HostPeak;
        let peaks = Metric::ALL.into_iter().filter(of_device);
        let peaks = peaks.filter_map(|metric| base.levels.get(metric));
        Self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a share of a device needs no 53rd bit"
            )]
            device: totals.into_iter().flatten().min().map(|bytes| bytes as f64),
            peak: peaks.map(|peak| peak.value).fold(0.0, f64::max),
            seconds: base.seconds.min(new.seconds),
        }
    }

    /// Whether a change matters to anybody. A slope matters by what it comes to while the run
    /// is watched, a leak by what it comes to in many steps.
    fn matters(self, metric: Metric, change: f64) -> bool {
        let bytes = match metric {
            Metric::LeakPerStep => change.abs() * MANY_STEPS,
            metric if metric.is_slope() => change.abs() * self.seconds,
            _ => change.abs(),
        };
        let of_device = self
            .device
            .is_some_and(|device| bytes >= SMALLEST_SHARE_OF_DEVICE * device);
        bytes >= SMALLEST_BYTES && (of_device || bytes >= SMALLEST_SHARE_OF_PEAK * self.peak)
    }
}

/// Every metric that is known of at least one side.
pub(super) fn all(base: &Levels, new: &Levels, yardstick: Yardstick) -> Vec<Difference> {
    let known = Metric::ALL
        .into_iter()
        .map(|metric| difference(metric, base.get(metric), new.get(metric), yardstick));
    known
        .filter(|one| one.base.is_some() || one.new.is_some())
        .collect()
}

fn difference(
    metric: Metric,
    base: Option<Measure>,
    new: Option<Measure>,
    yardstick: Yardstick,
) -> Difference {
    let mut difference = Difference {
        metric,
        base,
        new,
        verdict: Change::NotEnoughEvidence,
    };
    if let (Some(change), Some(noise)) = (difference.change(), difference.noise()) {
        let is_change = change.abs() > SIGMAS * noise && yardstick.matters(metric, change);
        difference.verdict = match is_change {
            false => Change::Unchanged,
            true if change > 0.0 => Change::Higher,
            true => Change::Lower,
        };
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = 1_073_741_824.0;
    const MIB: f64 = 1_048_576.0;

    fn verdict(metric: Metric, base: (f64, f64), new: (f64, f64), device: Option<f64>) -> Change {
        let measure = |(value, noise)| {
            Some(Measure {
                value,
                noise: Some(noise),
            })
        };
        let yardstick = Yardstick {
            device,
            peak: base.0,
            seconds: 600.0,
        };
        difference(metric, measure(base), measure(new), yardstick).verdict
    }

    #[test]
    fn a_change_must_exceed_the_noise_of_both_sides() {
        let judge = |base_noise, new_noise| {
            verdict(
                Metric::PeakUsed,
                (10.0 * GIB, base_noise),
                (12.0 * GIB, new_noise),
                Some(80.0 * GIB),
            )
        };
        assert_eq!(judge(0.1 * GIB, 0.1 * GIB), Change::Higher);
        assert_eq!(judge(GIB, 0.1 * GIB), Change::Unchanged);
        assert_eq!(judge(0.1 * GIB, GIB), Change::Unchanged);
    }

    #[test]
    fn a_change_must_matter() {
        let judge = |base, new, device| verdict(Metric::Gap, (base, 0.0), (new, 0.0), device);
        let large = Some(80.0 * GIB);
        assert_eq!(
            judge(10.0 * GIB, 10.0 * GIB + 8.0 * MIB, None),
            Change::Unchanged
        );
        assert_eq!(judge(10.0 * GIB, 10.1 * GIB, large), Change::Unchanged);
        assert_eq!(judge(10.0 * GIB, 10.5 * GIB, large), Change::Higher);
        // Little to the device, much to the process.
        assert_eq!(judge(100.0 * MIB, 150.0 * MIB, large), Change::Higher);
        assert_eq!(judge(150.0 * MIB, 100.0 * MIB, large), Change::Lower);
    }

    #[test]
    fn a_slope_matters_by_what_it_comes_to() {
        let judge = |new| {
            let base = (0.0, 0.0);
            verdict(Metric::AllocatedSlope, base, (new, 1.0), Some(16.0 * GIB))
        };
        assert_eq!(judge(0.01 * MIB), Change::Unchanged);
        assert_eq!(judge(0.2 * MIB), Change::Higher);
    }

    #[test]
    fn unknown_is_not_unchanged() {
        let yardstick = Yardstick {
            device: None,
            peak: 0.0,
            seconds: 0.0,
        };
        let known = Measure {
            value: GIB,
            noise: None,
        };
        for (base, new) in [
            (None, Some(known)),
            (Some(known), None),
            (Some(known), Some(known)),
        ] {
            let one = difference(Metric::PeakUsed, base, new, yardstick);
            assert_eq!(one.verdict, Change::NotEnoughEvidence);
            assert_eq!(one.grew_beyond_noise(), None);
        }
    }
}
