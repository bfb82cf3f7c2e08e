//! Fits a trend, a constant level followed by growth, to the knots (points) of a floor. The fitted
//! growth continues to the end of the track, at a constant or increasing rate. Single knots that
//! lie far from the trend hardly affect the fit.

use crate::detect::evidence::floor::{Floor, Knot};
use crate::detect::evidence::signals::Signals;
use crate::stats::{median, quantile, smooth3, theil_sen, weighted_median};

/// Exponents of the growth over time: 1 is growth at a constant rate, 2 and 3 are accelerating
/// growth.
pub(crate) const SHAPES: [i32; 3] = [1, 2, 3];
/// Minimum number of knots (points of the floor) needed to fit growth.
const MIN_KNOTS: usize = 8;
/// Minimum number of knots (points of the floor) before an onset needed to determine the level
/// before the growth.
const MIN_KNOTS_BEFORE: usize = 4;
/// The latest onset that is tried lies this share of the run before the end of the run. The share
/// is smaller than the shortest duration of growth that is reported. A rise that is too short to be
/// reported is therefore fitted with its late onset, and not as longer growth.
const LATEST_ONSET: f64 = 0.2;
/// The time range of possible onsets is divided into this many equal parts, and the fit tries an
/// onset at each end of a part. A second pass does the same with the time around the best onset.
const ONSETS: u32 = 16;
/// Number of start times (onsets) of the growth that are tried when its rate is already known.
const PACED_ONSETS: u32 = 24;
/// A floor that rises by less than this share of the device, from the first quarter of its knots
/// (points) to the last fifth, is not fitted. The limit is a quarter of the smallest growth that
/// is reported.
const MIN_RISE: f64 = 0.001;
/// The misfit of a single knot (point of the floor) counts at most this many units (see
/// [`Target`]), so that one wrong knot does not move the fit.
const MAX_MISFIT: f64 = 6.0;
/// Smallest random scatter assumed for a memory floor, as a share of the device's size.
const MIN_NOISE: f64 = 2e-4;

/// A fitted trend of a floor: `level` until `onset`, then `level + grown * progress`, where
/// [`progress`](Self::progress) rises from 0 at `onset` to 1 at `end`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub(crate) onset: f64,
    pub(crate) end: f64,
    pub(crate) level: f64,
    pub(crate) grown: f64,
    pub(crate) shape: i32,
    /// Sum of the distances of the knots (points of the floor) from the fitted trend, in the unit
    /// of [`Target`], each at most [`MAX_MISFIT`].
    pub(crate) misfit: f64,
}

/// The data for fitting a trend: the knots (points of the floor), their levels without single
/// outliers, and the unit of misfit.
struct Target<'a> {
    knots: &'a [Knot],
    levels: Vec<f64>,
    unit: f64,
}

impl<'a> Target<'a> {
    fn of(floor: &'a Floor, signals: &Signals) -> Self {
        let levels = levels_of(floor);
        // The unit of misfit grows with the range of the levels. Growth with stairs and pauses
        // deviates from any fit by much more than the scatter; with the scatter as the unit, nearly
        // all knots would reach `MAX_MISFIT`, and all fits would look equally bad.
        let range = quantile(&levels, 0.95) - quantile(&levels, 0.05);
        let unit = noise_of(floor, signals).max(0.04 * range);
        Self {
            knots: &floor.knots,
            levels,
            unit,
        }
    }
}

/// The levels of a floor's knots (points) in bytes, smoothed so that single outliers vanish.
pub(crate) fn levels_of(floor: &Floor) -> Vec<f64> {
    smooth3(&floor.knots.iter().map(|k| k.level).collect::<Vec<_>>())
}

/// The scatter of a floor, but at least [`MIN_NOISE`], so that small changes of a constant floor do
/// not look significant.
pub(crate) fn noise_of(floor: &Floor, signals: &Signals) -> f64 {
    floor.noise.max(MIN_NOISE * signals.scale)
}

impl Trend {
    /// Fits a trend to the floor with each exponent in `shapes`, and returns the trend with the
    /// smallest misfit. `None` when the floor has too few knots or hardly rises.
    pub(crate) fn fit(floor: &Floor, signals: &Signals, shapes: &[i32]) -> Option<Self> {
        if floor.knots.len() < MIN_KNOTS || signals.span <= 0.0 {
            return None;
        }
        let target = Target::of(floor, signals);
        let range = onset_range(floor, signals);
        if rises_too_little(&target.levels, signals) {
            return None;
        }
        let best_of = |(from, to): (f64, f64), shapes: &[i32]| {
            let onsets = steps(from, to, ONSETS).filter(|&onset| onset < signals.end);
            onsets
                .flat_map(|onset| shapes.iter().map(move |&shape| (onset, shape)))
                .map(|(onset, shape)| Self::starting(onset, signals.end, shape).fitted(&target))
                .min_by(|a, b| a.misfit.total_cmp(&b.misfit))
        };
        let coarse = best_of(range, shapes)?;
        best_of(around(coarse.onset, range, ONSETS), &[coarse.shape])
    }

    /// A trend of the same shape with the onset that fits best at a given growth rate.
    pub(crate) fn at_pace(&self, pace: f64, floor: &Floor, signals: &Signals) -> Self {
        let target = Target::of(floor, signals);
        let range = onset_range(floor, signals);
        let paced = |onset: f64| {
            let grown = pace * (signals.end - onset).powi(self.shape);
            Self::starting(onset, signals.end, self.shape).grown_by(grown, &target)
        };
        let best_of = |(from, to): (f64, f64)| {
            let trends = steps(from, to, PACED_ONSETS).map(paced);
            trends
                .min_by(|a, b| a.misfit.total_cmp(&b.misfit))
                .unwrap_or(*self)
        };
        best_of(around(best_of(range).onset, range, PACED_ONSETS))
    }

    fn starting(onset: f64, end: f64, shape: i32) -> Self {
        Self {
            onset,
            end,
            level: 0.0,
            grown: 0.0,
            shape,
            misfit: 0.0,
        }
    }

    /// A trend with the same onset and shape, and with the level and growth that fit the knots
    /// best.
    fn fitted(self, target: &Target) -> Self {
        let levels = &target.levels[..];
        let before = target.knots.partition_point(|k| k.t <= self.onset);
        let progress: Vec<f64> = target.knots.iter().map(|k| self.progress(k.t)).collect();
        if before < MIN_KNOTS_BEFORE {
            // Too few knots (points of the floor) lie before the onset to determine the level, so
            // the growth is determined first, and the level from it.
            return self.grown_by(theil_sen(&progress, levels), target);
        }
        let level = median(&levels[..before]);
        let mut ratios: Vec<(f64, f64)> = levels[before..]
            .iter()
            .zip(&progress[before..])
            .filter(|(_, p)| **p > 0.0)
            .map(|(l, p)| ((l - level) / p, *p))
            .collect();
        let grown = weighted_median(&mut ratios);
        Self {
            level,
            grown,
            ..self
        }
        .with_misfit(target)
    }

    /// A trend with the same onset and shape, a given growth, and the level that fits the knots
    /// best.
    fn grown_by(self, grown: f64, target: &Target) -> Self {
        let starts: Vec<f64> = target
            .knots
            .iter()
            .zip(&target.levels)
            .map(|(k, l)| l - grown * self.progress(k.t))
            .collect();
        Self {
            level: median(&starts),
            grown,
            ..self
        }
        .with_misfit(target)
    }

    fn with_misfit(self, target: &Target) -> Self {
        let miss = |(k, l): (&Knot, &f64)| ((l - self.at(k.t)).abs() / target.unit).min(MAX_MISFIT);
        let misfit = target.knots.iter().zip(&target.levels).map(miss).sum();
        Self { misfit, ..self }
    }

    /// Share of the growth that is complete at time `t`, 0 to 1.
    pub(crate) fn progress(&self, t: f64) -> f64 {
        ((t - self.onset) / (self.end - self.onset))
            .clamp(0.0, 1.0)
            .powi(self.shape)
    }

    /// Bytes by which the memory grew from the onset up to time `t`, according to the trend.
    pub(crate) fn lift(&self, t: f64) -> f64 {
        self.grown * self.progress(t)
    }

    /// The level of the trend at time `t`, in bytes.
    pub(crate) fn at(&self, t: f64) -> f64 {
        self.level + self.lift(t)
    }

    /// The time at which a given share of the growth was complete, in seconds.
    pub(crate) fn reached(&self, part: f64) -> f64 {
        self.onset + part.powf(1.0 / f64::from(self.shape)) * (self.end - self.onset)
    }

    /// Growth rate at the end of the trend, in bytes per second.
    pub(crate) fn rate_at_end(&self) -> f64 {
        self.grown * f64::from(self.shape) / (self.end - self.onset)
    }

    /// Growth divided by its duration to the power of `shape`: a growth rate that is comparable
    /// between ranks with different onsets.
    pub(crate) fn pace(&self) -> f64 {
        self.grown / (self.end - self.onset).powi(self.shape)
    }
}

/// Whether the last levels are hardly higher than the first; this check rejects most floors
/// quickly.
fn rises_too_little(levels: &[f64], signals: &Signals) -> bool {
    let (first, last) = (levels.len() / 4, levels.len() - levels.len() / 5);
    median(&levels[last..]) - median(&levels[..first]) < MIN_RISE * signals.scale
}

/// The earliest and the latest start time (onset) of growth that the fit tries, in seconds.
fn onset_range(floor: &Floor, signals: &Signals) -> (f64, f64) {
    let first = floor.knots.first().map_or(0.0, |k| k.t);
    (
        first,
        (signals.end - LATEST_ONSET * signals.span).max(first),
    )
}

/// The part of the time range `first` to `last` around `t`: from one `count`-th of the range before
/// `t` to one `count`-th of the range after `t`.
fn around(t: f64, (first, last): (f64, f64), count: u32) -> (f64, f64) {
    let step = (last - first) / f64::from(count);
    ((t - step).max(first), (t + step).min(last))
}

/// Evenly spaced times from `from` to `to`, both ends included.
fn steps(from: f64, to: f64, count: u32) -> impl Iterator<Item = f64> {
    let step = (to - from) / f64::from(count);
    (0..=count).map(move |k| from + f64::from(k) * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::evidence::signals;
    use crate::detect::tests::sketch::{a_rank, run_of};

    /// Fits a floor with the given levels over the 400 seconds of a plain run.
    fn fit(level: impl Fn(f64) -> f64, shapes: &[i32]) -> Option<Trend> {
        let run = run_of([a_rank(0)]);
        let signals = signals::read(&run);
        let knots = (10..100)
            .map(|k| f64::from(k) * 4.0)
            .map(|t| Knot { t, level: level(t) });
        let floor = Floor {
            knots: knots.collect(),
            noise: 0.0,
            period: 8.0,
        };
        Trend::fit(&floor, &signals[0], shapes)
    }

    const GIB: f64 = 1_073_741_824.0;

    #[test]
    fn places_the_onset_of_even_growth() {
        let trend = fit(|t| 20.0 * GIB + 0.01 * GIB * (t - 180.0).max(0.0), &SHAPES).unwrap();
        assert_eq!(trend.shape, 1);
        assert!((trend.onset - 180.0).abs() < 6.0, "{trend:?}");
        assert!(
            (trend.rate_at_end() / (0.01 * GIB) - 1.0).abs() < 0.05,
            "{trend:?}"
        );
    }

    #[test]
    fn knows_growth_that_gets_faster() {
        let quadratic = |t: f64| 20.0 * GIB + 1e-4 * GIB * (t - 150.0).max(0.0).powi(2);
        let trend = fit(quadratic, &SHAPES).unwrap();
        assert_eq!(trend.shape, 2);
        assert!(
            (trend.rate_at_end() / (2e-4 * GIB * 249.0) - 1.0).abs() < 0.1,
            "{trend:?}"
        );
    }

    #[test]
    fn outliers_do_not_move_it() {
        let wild = |t: f64| if t % 28.0 < 1.0 { 60.0 * GIB } else { 0.0 };
        let level = |t: f64| 20.0 * GIB + 0.01 * GIB * (t - 180.0).max(0.0) + wild(t);
        let trend = fit(level, &SHAPES).unwrap();
        assert!((trend.onset - 180.0).abs() < 10.0, "{trend:?}");
    }

    #[test]
    fn a_known_pace_sharpens_the_onset() {
        let run = run_of([a_rank(0)]);
        let signals = signals::read(&run);
        let level = |t: f64| 20.0 * GIB + 0.01 * GIB * (t - 203.0).max(0.0);
        let knots = [60.0, 110.0, 150.0, 190.0, 240.0, 290.0, 330.0, 370.0];
        let knots = knots.map(|t| Knot { t, level: level(t) }).to_vec();
        let floor = Floor {
            knots,
            noise: 0.0,
            period: 8.0,
        };
        let trend = Trend::fit(&floor, &signals[0], &[1]).unwrap();
        let paced = trend.at_pace(0.01 * GIB, &floor, &signals[0]);
        assert!((paced.onset - 203.0).abs() < 1.0, "{paced:?}");
    }

    #[test]
    fn a_flat_floor_has_none() {
        assert_eq!(fit(|_| 20.0 * GIB, &SHAPES), None);
        assert_eq!(fit(|t| (30.0 - 0.01 * t) * GIB, &SHAPES), None);
    }
}
