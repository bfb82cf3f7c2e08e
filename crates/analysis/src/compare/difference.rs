//! Decides whether a number differs between the two sides of a comparison, or is the same apart
//! from noise.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::whole;

use crate::detect::{Levels, Measure, Metric, NOT_ENOUGH_EVIDENCE, TrackLevels, Unit};

/// A change counts when it exceeds this many standard deviations of both sides' combined noise.
const SIGMAS: f64 = 3.0;
/// Changes of a rank's memory below this many bytes are too small to be reported.
const SMALLEST_BYTES: f64 = 16.0 * 1_048_576.0;
/// A change of at least `SMALLEST_BYTES` matters when it reaches this share of the device's memory.
const SMALLEST_SHARE_OF_DEVICE: f64 = 0.005;
/// A change also matters when it reaches this share of the rank's peak. Without the limit relative
/// to the rank's peak, a small process on a large device could double its memory without a report.
const SMALLEST_SHARE_OF_PEAK: f64 = 0.05;

/// How a number of a run, such as peak memory, changed from the base side of a comparison to the
/// new side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The number differs by no more than the noise, or by too little to matter.
    Unchanged,
    /// The number is lower on the new side, beyond the noise and by enough to matter.
    Lower,
    /// The number is higher on the new side, beyond the noise and by enough to matter.
    Higher,
    /// The number is unknown on one side, or too little was recorded to estimate the noise.
    NotEnoughEvidence,
}

stormlog_format::names!(Change {
    Unchanged => "unchanged",
    Lower => "lower",
    Higher => "higher",
    NotEnoughEvidence => NOT_ENOUGH_EVIDENCE,
});

/// A metric on both sides of a comparison; its value is known on at least one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(into = "DifferenceKeys")]
pub struct Difference {
    /// The metric that is compared.
    pub metric: Metric,
    /// The value on the base side.
    pub base: Option<Measure>,
    /// The value on the new side.
    pub new: Option<Measure>,
    /// How the value changed.
    pub verdict: Change,
}

/// A [`Difference`] with the keys that it has in JSON output.
#[derive(Serialize, JsonSchema)]
struct DifferenceKeys {
    /// The metric.
    metric: Metric,
    /// The unit of the values and of their noise.
    unit: Unit,
    /// The value on the base side.
    base: Option<Amount>,
    /// The noise of the value on the base side.
    base_noise: Option<f64>,
    /// The value on the new side.
    new: Option<Amount>,
    /// The noise of the value on the new side.
    new_noise: Option<f64>,
    /// The new value minus the base value.
    change: Option<Amount>,
    /// The change as a share of the base value; null when a value is unknown or the base value is
    /// not positive.
    change_ratio: Option<f64>,
    /// Whether the value changed, beyond noise and by enough to matter.
    verdict: Change,
}

impl From<Difference> for DifferenceKeys {
    fn from(one: Difference) -> Self {
        let unit = one.metric.unit();
        let amount = |value: f64| Amount::of(unit, value);
        Self {
            metric: one.metric,
            unit,
            base: one.base.map(|measure| amount(measure.value)),
            base_noise: one.base.and_then(|measure| measure.noise),
            new: one.new.map(|measure| amount(measure.value)),
            new_noise: one.new.and_then(|measure| measure.noise),
            change: one.change().map(amount),
            change_ratio: one.ratio(),
            verdict: one.verdict,
        }
    }
}

/// A value in documents; bytes are written as whole numbers.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Amount {
    Whole(i64),
    Real(f64),
}

impl Amount {
    fn of(unit: Unit, value: f64) -> Self {
        match unit {
            Unit::Bytes => Self::Whole(whole(value.round())),
            Unit::BytesPerSecond | Unit::BytesPerStep => Self::Real(value),
        }
    }
}

impl Difference {
    /// The value on the new side minus the value on the base side; `None` when one of them is
    /// unknown.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        Some(self.new?.value - self.base?.value)
    }

    /// The change as a share of the base value; `None` when a value is unknown or the base value is
    /// not positive.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let base = self.base.map(|base| base.value);
        let base = base.filter(|bytes| *bytes > 0.0)?;
        Some(self.change()? / base)
    }

    /// The combined noise of both sides; `None` when the noise of a side is unknown.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        Some(self.base?.noise?.hypot(self.new?.noise?))
    }

    /// Whether the value on the new side is higher beyond the noise, even if the change is too
    /// small to matter. `None` when the value or noise of a side is unknown.
    #[must_use]
    pub fn grew_beyond_noise(&self) -> Option<bool> {
        Some(self.change()? > SIGMAS * self.noise()?)
    }
}

/// Whether a number is above zero by more than its noise; `None` when the noise is unknown.
pub(super) fn is_above_noise(measure: Measure) -> Option<bool> {
    Some(measure.value > SIGMAS * measure.noise?)
}

/// Whether a leak per step matters is decided by the bytes that it adds in this many steps.
const MANY_STEPS: f64 = 1000.0;

/// The memory sizes that a change in bytes is compared with to decide whether it matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yardstick {
    /// The size of the device in bytes; the smaller size when the two sides differ.
    device: Option<f64>,
    /// The highest memory use of the rank on the base side, in bytes.
    peak: f64,
    /// Length in seconds of the shorter one of the two recordings.
    seconds: f64,
}

impl Yardstick {
    pub(super) fn of(base: &TrackLevels, new: &TrackLevels) -> Self {
        let totals = [base, new].map(|side| side.device_total_bytes);
        let of_device = |metric: &Metric| metric.is_peak() && *metric != Metric::HostPeak;
        let peaks = Metric::ALL.into_iter().filter(of_device);
        let peaks = peaks.filter_map(|metric| base.levels.get(metric));
        Self {
            device: totals.into_iter().flatten().min().map(|bytes| bytes as f64),
            peak: peaks.map(|peak| peak.value).fold(0.0, f64::max),
            seconds: base.seconds.min(new.seconds),
        }
    }

    /// Whether a change is large enough to matter. A change of a growth rate is converted to the
    /// bytes that it adds during the recording, and a change of a leak per step to the bytes that
    /// it adds in [`MANY_STEPS`] steps.
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

/// Compares every metric of a rank or phase, except metrics that are unknown on both sides.
pub(super) fn all(base: &Levels, new: &Levels, yardstick: Yardstick) -> Vec<Difference> {
    let differences = Metric::ALL
        .into_iter()
        .map(|metric| difference(metric, base.get(metric), new.get(metric), yardstick));
    differences
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
        // 50 MiB are a small share of the device but a large share of the process's memory, so the
        // change is reported.
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
