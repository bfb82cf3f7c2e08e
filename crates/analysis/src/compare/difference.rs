//! Decides whether a number differs between the two sides of a comparison, or is the same apart
//! from noise.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::whole;

use super::growing::Growing;
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
/// A change of the rate of a leak that both sides have matters when it reaches this share of the
/// rate. The rate over time follows the speed of the machine.
const SMALLEST_SHARE_OF_GROWTH: f64 = 0.25;

/// How a number of a run, such as peak memory, changed from the base side of a comparison to the
/// new side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The number is the same on both sides.
    Unchanged,
    /// The number differs by no more than the noise.
    WithinNoise,
    /// The number differs beyond the noise, but by too little to matter.
    TooSmall,
    /// The number is lower on the new side, beyond the noise and by enough to matter.
    Lower,
    /// The number is higher on the new side, beyond the noise and by enough to matter.
    Higher,
    /// The number does not show the growth that a finding of only one side reports: the side
    /// without the finding has a rate of a rise that does not go on, such as the loading of data.
    NotComparable,
    /// The number is unknown on one side, or too little was recorded to estimate the noise.
    NotEnoughEvidence,
}

stormlog_format::names!(Change {
    Unchanged => "unchanged",
    WithinNoise => "within_noise",
    TooSmall => "too_small",
    Lower => "lower",
    Higher => "higher",
    NotComparable => "not_comparable",
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

    /// By how much the number may differ between two runs of the same program: changes up to this
    /// value are within the noise. `None` when the noise of a side is unknown.
    #[must_use]
    pub fn tolerance(&self) -> Option<f64> {
        Some(SIGMAS * self.noise()?)
    }

    /// Whether both sides have the same value, as far as reports can print it.
    fn is_equal(&self) -> bool {
        let printed = if self.metric.is_slope() { 60.0 } else { 1.0 };
        self.change()
            .is_some_and(|change| (change * printed).abs() < 0.5)
    }

    /// Whether the value on the new side is higher beyond the noise, even if the change is too
    /// small to matter. `None` when the value or noise of a side is unknown.
    #[must_use]
    pub fn grew_beyond_noise(&self) -> Option<bool> {
        Some(self.change()? > self.tolerance()?)
    }
}

/// Whether a number is above zero by more than its noise; `None` when the noise is unknown.
pub(super) fn is_above_noise(measure: Measure) -> Option<bool> {
    Some(measure.value > SIGMAS * measure.noise?)
}

/// Whether a leak per step matters is decided by the bytes that it adds in this many steps.
const MANY_STEPS: f64 = 1000.0;

/// The metrics of a device that are compared as metrics of the host when a rank has no device: the
/// counters of its host memory are then those of its track.
const ON_HOST: [(Metric, Metric); 3] = [
    (Metric::HostPeak, Metric::PeakAllocated),
    (Metric::HostSteady, Metric::SteadyAllocated),
    (Metric::HostSlope, Metric::AllocatedSlope),
];

/// Pairs of metrics that answer the same question. The second one is compared only where a side does
/// not know the first, for example a baseline that an earlier version saved.
const PREFERRED: [(Metric, Metric); 4] = [
    (Metric::PeakOwn, Metric::PeakUsed),
    (Metric::SteadyOwn, Metric::SteadyUsed),
    (Metric::OwnSlope, Metric::UsedSlope),
    (Metric::PeakCounted, Metric::PeakAllocated),
];

/// Whether the use of a device cannot be compared, because only one side knows the share of its own
/// process. The other side may include the memory of other processes. What the allocator reserves
/// and hidden memory are compared instead.
pub(super) fn is_share_of_one_side(base: &Levels, new: &Levels) -> bool {
    let knows = |levels: &Levels, metric| levels.get(metric).is_some();
    knows(base, Metric::PeakOwn) != knows(new, Metric::PeakOwn)
        && [base, new].map(|side| knows(side, Metric::PeakReserved)) == [true; 2]
}

/// The metrics of a rank or of one of its phases that comparisons and gates read. A rank without a
/// device has only metrics of host memory and of steps.
pub(super) fn judged(levels: &Levels, device_id: i64) -> Levels {
    if device_id >= 0 {
        return *levels;
    }
    let mut host = Levels::default();
    for metric in [Metric::StepFloor, Metric::StepPeak, Metric::LeakPerStep] {
        host.set(metric, levels.get(metric));
    }
    for (metric, of_track) in ON_HOST {
        host.set(metric, levels.get(of_track).or(levels.get(metric)));
    }
    host
}

/// The memory sizes that a change in bytes is compared with to decide whether it matters.
#[derive(Clone, Debug)]
pub(super) struct Yardstick {
    /// The size of the device in bytes; the smaller size when the two sides differ.
    device: Option<f64>,
    /// The highest memory use of the rank's process on the base side, in bytes.
    peak: f64,
    /// The highest use of host memory on the base side, in bytes.
    host_peak: f64,
    /// Length in seconds of the shorter one of the two recordings.
    seconds: f64,
    /// Growth that findings report.
    growing: Growing,
}

impl Yardstick {
    pub(super) fn of(base: &TrackLevels, new: &TrackLevels, growing: Growing) -> Self {
        let totals = [base, new].map(|side| side.device_total_bytes);
        let known = judged(&base.levels, base.device_id);
        let value = |metric| known.get(metric).map(|peak| peak.value);
        let of_allocator = [
            Metric::PeakReserved,
            Metric::PeakCounted,
            Metric::PeakAllocated,
        ];
        let of_allocator = of_allocator.into_iter().filter_map(value);
        // The memory that other processes use on the device is no measure of this process.
        let peak = value(Metric::PeakOwn).or(of_allocator.reduce(f64::max));
        Self {
            device: totals.into_iter().flatten().min().map(|bytes| bytes as f64),
            peak: peak.or(value(Metric::PeakUsed)).unwrap_or(0.0),
            host_peak: value(Metric::HostPeak).unwrap_or(0.0),
            seconds: base.seconds.min(new.seconds),
            growing,
        }
    }

    /// Whether a change is large enough to matter. A change of a growth rate is converted to the
    /// bytes that it adds during the recording, and a change of a leak per step to the bytes that
    /// it adds in [`MANY_STEPS`] steps. The growth of a leak on both sides goes on, however short
    /// the recordings are, so its change is compared with the growth.
    fn matters(&self, metric: Metric, base: f64, change: f64) -> bool {
        if self.growing.is_on_both_sides(metric) {
            return change.abs() >= SMALLEST_SHARE_OF_GROWTH * base.abs();
        }
        let bytes = match metric {
            Metric::LeakPerStep => change.abs() * MANY_STEPS,
            metric if metric.is_slope() => change.abs() * self.seconds,
            _ => change.abs(),
        };
        let is_host = metric.is_of_host();
        let device = self.device.filter(|_| !is_host);
        let of_device = device.is_some_and(|device| bytes >= SMALLEST_SHARE_OF_DEVICE * device);
        let peak = if is_host { self.host_peak } else { self.peak };
        bytes >= SMALLEST_BYTES && (of_device || bytes >= SMALLEST_SHARE_OF_PEAK * peak)
    }
}

/// Compares every metric of a rank or phase, except metrics that are unknown on both sides, and of
/// two metrics that answer the same question the weaker one.
pub(super) fn all(base: &Levels, new: &Levels, yardstick: &Yardstick) -> Vec<Difference> {
    let both = |metric| base.get(metric).is_some() && new.get(metric).is_some();
    let left_out = PREFERRED.map(|(strong, weak)| if both(strong) { weak } else { strong });
    let no_use = is_share_of_one_side(base, new);
    let differences = Metric::ALL
        .into_iter()
        .filter(|metric| !left_out.contains(metric))
        .filter(|metric| !(no_use && metric.is_of_all_processes()))
        .map(|metric| difference(metric, base.get(metric), new.get(metric), yardstick));
    differences
        .filter(|one| one.base.is_some() || one.new.is_some())
        .collect()
}

fn difference(
    metric: Metric,
    base: Option<Measure>,
    new: Option<Measure>,
    yardstick: &Yardstick,
) -> Difference {
    let mut difference = Difference {
        metric,
        base,
        new,
        verdict: Change::NotEnoughEvidence,
    };
    let Some(change) = difference.change() else {
        return difference;
    };
    let sign = if change > 0.0 {
        Change::Higher
    } else {
        Change::Lower
    };
    let is_equal = difference.is_equal();
    difference.verdict = match (yardstick.growing.change_of(metric), difference.tolerance()) {
        // The detectors tell growth from noise by the course of the whole recording, and so better
        // than the scatter of a slope does. Metrics follow their answer.
        (Some(reported), _) if !is_equal && sign == reported => sign,
        (Some(_), _) => Change::NotComparable,
        (None, _) if is_equal => Change::Unchanged,
        (None, None) => Change::NotEnoughEvidence,
        (None, Some(tolerance)) if change.abs() <= tolerance => Change::WithinNoise,
        (None, Some(_)) => {
            let base = base.map_or(0.0, |base| base.value);
            let matters = yardstick.matters(metric, base, change);
            if matters { sign } else { Change::TooSmall }
        }
    };
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
            host_peak: 0.0,
            seconds: 600.0,
            growing: Growing::default(),
        };
        difference(metric, measure(base), measure(new), &yardstick).verdict
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
        assert_eq!(judge(GIB, 0.1 * GIB), Change::WithinNoise);
        assert_eq!(judge(0.1 * GIB, GIB), Change::WithinNoise);
    }

    #[test]
    fn a_change_must_matter() {
        let judge = |base, new, device| verdict(Metric::Gap, (base, 0.0), (new, 0.0), device);
        let large = Some(80.0 * GIB);
        assert_eq!(
            judge(10.0 * GIB, 10.0 * GIB + 8.0 * MIB, None),
            Change::TooSmall
        );
        assert_eq!(judge(10.0 * GIB, 10.0 * GIB, large), Change::Unchanged);
        assert_eq!(judge(10.0 * GIB, 10.1 * GIB, large), Change::TooSmall);
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
        assert_eq!(judge(0.01 * MIB), Change::TooSmall);
        assert_eq!(judge(0.2 * MIB), Change::Higher);
    }

    fn with_findings(base: f64, new: f64, growing: Growing) -> Change {
        let measure = |value| {
            Some(Measure {
                value,
                noise: Some(MIB),
            })
        };
        let yardstick = Yardstick {
            device: Some(80.0 * GIB),
            peak: 40.0 * GIB,
            host_peak: 0.0,
            seconds: 20.0,
            growing,
        };
        let (base, new) = (measure(base), measure(new));
        difference(Metric::AllocatedSlope, base, new, &yardstick).verdict
    }

    #[test]
    fn the_rate_of_growth_follows_the_findings() {
        let slope = Metric::AllocatedSlope;
        let (none, new) = (Growing::default(), Growing::only_new(slope));
        // A leak that adds little in a short recording, and less than the scatter of its slope.
        assert_eq!(with_findings(0.0, MIB, none), Change::WithinNoise);
        assert_eq!(with_findings(0.0, MIB, new.clone()), Change::Higher);
        assert_eq!(with_findings(0.0, 0.0, new.clone()), Change::NotComparable);
        assert_eq!(
            with_findings(90.0 * MIB, MIB, new),
            Change::NotComparable,
            "loading data is faster than a leak"
        );
        let both = Growing::both(slope);
        assert_eq!(
            with_findings(50.0 * MIB, 60.0 * MIB, both.clone()),
            Change::TooSmall
        );
        assert_eq!(with_findings(50.0 * MIB, 70.0 * MIB, both), Change::Higher);
    }

    #[test]
    fn the_share_of_the_process_is_compared_where_both_sides_know_it() {
        use Metric::{PeakOwn, PeakReserved, PeakUsed};

        let levels = |metrics: &[Metric]| {
            let mut levels = Levels::default();
            for &metric in metrics {
                let value = if metric == Metric::PeakUsed { GIB } else { MIB };
                levels.set(
                    metric,
                    Some(Measure {
                        value,
                        noise: Some(0.0),
                    }),
                );
            }
            levels
        };
        let compared = |base: &[Metric], new: &[Metric]| -> Vec<Metric> {
            let yardstick = Yardstick {
                device: None,
                peak: GIB,
                host_peak: 0.0,
                seconds: 1.0,
                growing: Growing::default(),
            };
            let differences = all(&levels(base), &levels(new), &yardstick);
            differences.into_iter().map(|one| one.metric).collect()
        };
        let (knows, does_not) = ([PeakOwn, PeakUsed, PeakReserved], [PeakUsed, PeakReserved]);
        assert_eq!(compared(&knows, &knows), [PeakOwn, PeakReserved]);
        assert_eq!(compared(&does_not, &does_not), [PeakUsed, PeakReserved]);
        assert_eq!(compared(&does_not, &knows), [PeakReserved]);
        assert_eq!(compared(&[PeakUsed], &[PeakOwn, PeakUsed]), [PeakUsed]);
    }

    #[test]
    fn unknown_is_not_unchanged() {
        let yardstick = Yardstick {
            device: None,
            peak: 0.0,
            host_peak: 0.0,
            seconds: 0.0,
            growing: Growing::default(),
        };
        let known = Measure {
            value: GIB,
            noise: None,
        };
        let other = Measure {
            value: 2.0 * GIB,
            noise: None,
        };
        for (base, new) in [
            (None, Some(known)),
            (Some(known), None),
            (Some(known), Some(other)),
        ] {
            let one = difference(Metric::PeakUsed, base, new, &yardstick);
            assert_eq!(one.verdict, Change::NotEnoughEvidence);
            assert_eq!(one.grew_beyond_noise(), None);
        }
    }
}
