//! The floor of a signal: the memory that is still held after a training step has freed what it
//! can.
//!
//! A sample lies on the floor when hardly any sample is lower in at least one of two windows: the
//! window before it and the window after it. The samples before and after a sample are checked
//! separately, which keeps the edges of jumps sharp; a centred window would blur them. Samples may
//! be taken at any position within a step.

use stormlog_format::whole_count;

use super::series::Series;
use crate::stats::{bend_scatter, median, quantile, smooth3};

/// Longest signal that is searched sample by sample; longer signals are first reduced to one sample
/// per block.
const MAX_POINTS: usize = 2048;
/// Maximum number of knots (points) of a floor that are kept; enough for growth in nine stairs with
/// several knots on each.
const MAX_KNOTS: usize = 96;
/// Smallest window for finding the floor, in samples on each side. A step is at its floor for about
/// a sixth of its time, so even 24 random samples miss the floor only about once in a hundred times.
const MIN_WINDOW: usize = 24;
/// In windows of at least this many samples, the second-lowest sample counts as the floor, because
/// the lowest may be an outlier. An outlier is a sample of a moment in which a step has briefly
/// freed more than usual.
const WINDOW_WITH_OUTLIER: usize = 40;
/// The window spans at least this many steps, because a shorter window may miss the floor of a long
/// step.
const STEPS_IN_WINDOW: f64 = 1.5;
/// The window for finding the floor spans at least this fraction of the run (1/12), because memory
/// stays above the floor during an evaluation, which lasts longer than a step.
const WINDOW_SHARE: usize = 12;
/// The expected scatter of samples on the floor: the larger of a share of the device and a share of
/// the signal's amplitude (its 95 % quantile minus its 5 % quantile).
const SCATTER_OF_DEVICE: f64 = 0.002;
const SCATTER_OF_AMPLITUDE: f64 = 0.015;
/// The number of samples per step is measured in `PERIOD_PARTS` parts of a track, each with at
/// least `MIN_SWINGS` swings. A swing is one rise and fall of the signal, as in one step.
const PERIOD_PARTS: usize = 6;
const MIN_SWINGS: u32 = 3;

/// A knot (point) of the floor: the median of neighbouring samples on the floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Knot {
    /// Time of the knot in seconds since the track's first sample.
    pub(crate) t: f64,
    /// Level of the floor at the knot, in bytes.
    pub(crate) level: f64,
}

/// The floor of a signal (the memory held between steps), as a sequence of points over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Floor {
    /// The points of the floor, in order of time.
    pub(crate) knots: Vec<Knot>,
    /// Standard deviation of the floor's knots from their neighbours, in bytes.
    pub(crate) noise: f64,
    /// Number of samples per step, at least 1; 1 when no steps are visible.
    pub(crate) period: f64,
}

impl Floor {
    /// Finds the floor of the samples after the first `from` seconds. `scale` is the size of the
    /// device in bytes, or an estimate of it.
    pub(crate) fn of(series: &Series, from: f64, scale: f64) -> Self {
        let first = series.index_at(from);
        let (t, y) = (&series.t[first..], &series.y[first..]);
        if t.is_empty() {
            return Self::default();
        }
        let period = step_period(y, SCATTER_OF_DEVICE * scale);
        let block = t.len().div_ceil(MAX_POINTS);
        let (t, y) = reduce(t, y, block);
        let steps = whole_count((STEPS_IN_WINDOW * period / block as f64).ceil());
        let window = MIN_WINDOW
            .max(steps)
            .max(t.len() / WINDOW_SHARE)
            .min(t.len());
        let amplitude = quantile(&y, 0.95) - quantile(&y, 0.05);
        let scatter = (SCATTER_OF_DEVICE * scale).max(SCATTER_OF_AMPLITUDE * amplitude);
        let ahead = low_ahead(&y, window);
        let mut reversed = y.clone();
        reversed.reverse();
        let mut behind = low_ahead(&reversed, window);
        behind.reverse();
        let on_floor: Vec<Knot> = (0..y.len())
            .filter(|&i| y[i] <= ahead[i].max(behind[i]) + scatter)
            .map(|i| Knot {
                t: t[i],
                level: y[i],
            })
            .collect();
        let knots = thin(&on_floor);
        let noise = bend_scatter(&knots.iter().map(|k| k.level).collect::<Vec<_>>());
        Self {
            knots,
            noise,
            period,
        }
    }

    /// Largest rise of the floor after time `from` that was freed again later, in bytes.
    pub(crate) fn tooth(&self, from: f64) -> f64 {
        let first = self.knots.partition_point(|k| k.t < from);
        let levels: Vec<f64> = self.knots[first..].iter().map(|k| k.level).collect();
        let levels = smooth3(&levels);
        let mut low_after = levels.clone();
        for k in (1..levels.len()).rev() {
            low_after[k - 1] = low_after[k - 1].min(low_after[k]);
        }
        let mut low_before = f64::INFINITY;
        let mut highest = 0.0_f64;
        for (&level, low_after) in levels.iter().zip(low_after) {
            low_before = low_before.min(level);
            highest = highest.max((level - low_before).min(level - low_after));
        }
        highest
    }
}

/// The number of samples per training step, measured by how often the signal rises from the lower
/// third of its range to the upper third.
///
/// Each part of the track is measured separately, because a large jump or leak hides the swings in
/// the track as a whole. A part of the track with too few swings, or with swings no larger than the
/// scatter, is skipped. If half of the parts or more are skipped, the whole track is measured at
/// once.
fn step_period(y: &[f64], scatter: f64) -> f64 {
    let part = y.len().div_ceil(PERIOD_PARTS).max(1);
    let swings: Vec<f64> = y
        .chunks(part)
        .filter_map(|samples| samples_per_swing(samples, scatter))
        .collect();
    if swings.len() > PERIOD_PARTS / 2 {
        return median(&swings);
    }
    samples_per_swing(y, scatter).unwrap_or(1.0)
}

/// The mean number of samples from one rise of the signal to the next. A rise leads from the lower
/// third of the signal's range to the upper third. `None` when there are too few rises.
fn samples_per_swing(y: &[f64], scatter: f64) -> Option<f64> {
    let (low, high) = (quantile(y, 0.05), quantile(y, 0.95));
    if high - low <= 2.0 * scatter {
        return None;
    }
    let (lower, upper) = (low + 0.35 * (high - low), low + 0.65 * (high - low));
    let mut raised = false;
    let (mut rises, mut first, mut last) = (0_u32, 0, 0);
    for (i, &value) in y.iter().enumerate() {
        if !raised && value > upper {
            raised = true;
            rises += 1;
            first = if rises == 1 { i } else { first };
            last = i;
        } else if raised && value < lower {
            raised = false;
        }
    }
    let samples = (last - first) as f64;
    (rises >= MIN_SWINGS).then(|| (samples / f64::from(rises - 1)).max(1.0))
}

/// Reduces each block of samples to one of its low samples. The lowest sample of a large block is
/// not used, because it may come from a moment in which a step has briefly freed more than usual.
fn reduce(t: &[f64], y: &[f64], block: usize) -> (Vec<f64>, Vec<f64>) {
    if block <= 1 {
        return (t.to_vec(), y.to_vec());
    }
    let mut out = (Vec::new(), Vec::new());
    let mut order: Vec<usize> = Vec::with_capacity(block);
    for start in (0..y.len()).step_by(block) {
        let end = (start + block).min(y.len());
        order.clear();
        order.extend(start..end);
        let nth = (order.len() / 20).min(order.len() - 1);
        let (_, &mut pick, _) = order.select_nth_unstable_by(nth, |&a, &b| y[a].total_cmp(&y[b]));
        out.0.push(t[pick]);
        out.1.push(y[pick]);
    }
    out
}

/// For each sample, the floor of the `window` samples that start with it. Near the end of the
/// signal, where fewer samples remain, the result is the floor of the remaining samples. If less
/// than three quarters of a window remain, earlier samples are added to make three quarters.
///
/// The signal is divided into blocks as long as the window. Two passes compute, for every sample,
/// the lowest samples from the start of its block up to it, and from it to the end of its block.
/// Every window is the end of one block and the beginning of the next, so the time needed does not
/// depend on the window's length.
fn low_ahead(y: &[f64], window: usize) -> Vec<f64> {
    let n = y.len();
    let window = window.max(1);
    let least = (window - window / 4).max(2);
    let (mut to_block_end, mut to_end) = (vec![Lows::NONE; n], vec![Lows::NONE; n]);
    for i in (0..n).rev() {
        let sample = Lows::of(y[i]);
        let last_of_block = (i + 1).is_multiple_of(window) || i + 1 == n;
        to_block_end[i] = match to_block_end.get(i + 1) {
            Some(next) if !last_of_block => sample.and(*next),
            _ => sample,
        };
        to_end[i] = to_end.get(i + 1).map_or(sample, |next| sample.and(*next));
    }
    let mut from_block_start = Vec::with_capacity(n);
    let mut running = Lows::NONE;
    for (i, &value) in y.iter().enumerate() {
        let before = if i.is_multiple_of(window) {
            Lows::NONE
        } else {
            running
        };
        running = before.and(Lows::of(value));
        from_block_start.push(running);
    }
    (0..n)
        .map(|i| {
            let start = i.min(n.saturating_sub(least));
            if i + window >= n {
                return to_end[start].floor(n - start);
            }
            let rest = if i.is_multiple_of(window) {
                Lows::NONE
            } else {
                from_block_start[i + window - 1]
            };
            to_block_end[i].and(rest).floor(window)
        })
        .collect()
}

/// The two lowest values of a set of samples. In a set of one sample the second value is infinite,
/// in an empty set both are.
#[derive(Clone, Copy)]
struct Lows {
    lowest: f64,
    second: f64,
}

impl Lows {
    const NONE: Self = Self {
        lowest: f64::INFINITY,
        second: f64::INFINITY,
    };

    fn of(value: f64) -> Self {
        Self {
            lowest: value,
            ..Self::NONE
        }
    }

    /// The two lowest values of the union of two sets of samples.
    fn and(self, other: Self) -> Self {
        let (low, high) = if other.lowest < self.lowest {
            (other, self)
        } else {
            (self, other)
        };
        Self {
            lowest: low.lowest,
            second: if high.lowest < low.second {
                high.lowest
            } else {
                low.second
            },
        }
    }

    /// The floor of a window with `samples` samples, of which these are the two lowest: the
    /// second-lowest in a large window, otherwise the lowest.
    fn floor(self, samples: usize) -> f64 {
        if samples >= WINDOW_WITH_OUTLIER {
            self.second
        } else {
            self.lowest
        }
    }
}

fn thin(on_floor: &[Knot]) -> Vec<Knot> {
    let group = on_floor.len().div_ceil(MAX_KNOTS).max(1);
    on_floor
        .chunks(group)
        .map(|chunk| Knot {
            t: median(&chunk.iter().map(|k| k.t).collect::<Vec<_>>()),
            level: median(&chunk.iter().map(|k| k.level).collect::<Vec<_>>()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_what_their_definition_says() {
        let plain = |y: &[f64], window: usize| -> Vec<f64> {
            let least = (window - window / 4).max(2);
            let one = |i: usize| {
                let start = i.min(y.len().saturating_sub(least));
                let mut near = y[start..(i + window).min(y.len())].to_vec();
                near.sort_by(f64::total_cmp);
                near[usize::from(near.len() >= WINDOW_WITH_OUTLIER)]
            };
            (0..y.len()).map(one).collect()
        };
        for (n, window) in [(1, 1), (7, 7), (60, 24), (96, 48), (200, 24), (333, 61)] {
            let y: Vec<f64> = (0..n).map(|i| f64::from((i * 7919) % 101)).collect();
            let window = window.min(y.len());
            assert_eq!(low_ahead(&y, window), plain(&y, window), "{n} {window}");
        }
    }

    fn series(y: impl Iterator<Item = f64>) -> Series {
        let y: Vec<f64> = y.collect();
        Series {
            t: (0..y.len())
                .map(|k| f64::from(u32::try_from(k).unwrap()))
                .collect(),
            y,
        }
    }

    /// A signal with steps of eight samples, two of which lie on the floor.
    fn steps(floor: impl Fn(u32) -> f64, samples: u32) -> Series {
        let shape = [0.0, 25.0, 60.0, 100.0, 70.0, 40.0, 20.0, 0.0];
        series((0..samples).map(|k| floor(k) + shape[k as usize % 8]))
    }

    #[test]
    fn follows_a_flat_floor() {
        let floor = Floor::of(&steps(|_| 50.0, 400), 0.0, 1000.0);
        assert!(
            floor.knots.iter().all(|k| (k.level - 50.0).abs() < 2.0),
            "{floor:?}"
        );
        assert!((floor.period - 8.0).abs() < 0.2, "{}", floor.period);
        assert!(floor.noise < 1.0);
    }

    #[test]
    fn a_jump_larger_than_a_step_does_not_hide_the_steps() {
        let jump = |k: u32| if k < 200 { 50.0 } else { 250.0 };
        let floor = Floor::of(&steps(jump, 400), 0.0, 1000.0);
        assert!((floor.period - 8.0).abs() < 0.5, "{}", floor.period);
    }

    #[test]
    fn keeps_the_edge_of_a_jump() {
        let jump = |k: u32| if k < 200 { 50.0 } else { 90.0 };
        let floor = Floor::of(&steps(jump, 400), 0.0, 1000.0);
        let wrong = floor.knots.iter().filter(|k| {
            let truth = if k.t < 200.0 { 50.0 } else { 90.0 };
            (k.level - truth).abs() > 3.0
        });
        assert!(wrong.count() <= 1);
    }

    #[test]
    fn a_dip_is_not_the_floor() {
        let mut dipped = steps(|_| 50.0, 800);
        dipped.y[400] = 0.0;
        let floor = Floor::of(&dipped, 0.0, 1000.0);
        let low = floor.knots.iter().filter(|k| k.level < 45.0).count();
        assert!(low <= 1, "{low} of {} knots", floor.knots.len());
    }

    #[test]
    fn long_series_are_reduced_to_few_knots() {
        let floor = Floor::of(&steps(|k| f64::from(k) / 1000.0, 100_000), 0.0, 1000.0);
        assert!(floor.knots.len() <= MAX_KNOTS);
        assert!(
            floor
                .knots
                .iter()
                .all(|k| (k.level - k.t / 1000.0).abs() < 3.0)
        );
    }

    #[test]
    fn a_tooth_is_what_rises_and_falls_again() {
        let tooth =
            |floor: &dyn Fn(u32) -> f64| Floor::of(&steps(floor, 800), 0.0, 1000.0).tooth(0.0);
        let garbage = tooth(&|k| 50.0 + f64::from(k % 160) / 4.0);
        assert!((15.0..=42.0).contains(&garbage), "{garbage}");
        assert!(tooth(&|k| 50.0 + f64::from(k) / 20.0) < 4.0);
        assert!(tooth(&|k| if k < 400 { 90.0 } else { 50.0 }) < 4.0);
    }

    #[test]
    fn nothing_has_no_floor() {
        assert_eq!(Floor::of(&Series::default(), 0.0, 1.0), Floor::default());
        assert_eq!(Floor::of(&steps(|_| 1.0, 10), 99.0, 1.0), Floor::default());
    }
}
