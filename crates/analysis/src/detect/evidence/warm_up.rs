//! Determines the end of the warm-up, which covers the model load, the first steps and the first
//! quarter of the run.

use super::series::Series;
use crate::stats::median;

/// Share of the run that is always warm-up; changes in this first part are not findings.
const SHARE: f64 = 0.25;
/// Share of the time after the first training step that still counts as warm-up, because the first
/// steps allocate the optimizer's state and load kernels. This share matters only when loading the
/// model takes longer than the first quarter of the run, which is always warm-up.
const FIRST_STEPS_SHARE: f64 = 0.1;
/// Floors are computed only of samples after two times have passed: a tenth of the run
/// (`OPTIMIZER_SHARE`) since its start, and 2 % of the run (`OPTIMIZER_SHARE_AFTER_LOAD`) since the
/// first step. By then the optimizer's state is complete. When memory grows steadily from the start
/// of the run, the floors miss only about a tenth of the growth.
const OPTIMIZER_SHARE: f64 = 0.1;
const OPTIMIZER_SHARE_AFTER_LOAD: f64 = 0.02;
/// Longest time, as a share of the run, for which a model may still be loading after it reached
/// half of the memory level of training. Memory that rises for longer is growth and not a load.
const MAX_LOAD_AFTER: f64 = 0.25;
/// A sample is a fall when its memory is lower than that of the previous sample by more than the
/// share `FALL` of the previous sample. The program trains when at least the share `MIN_FALLS` of
/// the samples are falls, because loading a model hardly ever frees memory.
const FALL: f64 = 0.05;
const MIN_FALLS: f64 = 0.05;

/// Share of the run over which the growth rate of a rise is measured.
const PACE_SHARE: f64 = 0.03;

/// The times at which the stages at the beginning of a track end, in seconds since its first
/// sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WarmUp {
    /// Estimated time at which the model was loaded and the first training step began.
    pub(crate) train_start: f64,
    /// Time from which the floors of memory are computed. By then the optimizer's state exists.
    pub(crate) settle_start: f64,
    /// End of the warm-up. Problems that begin earlier are not reported.
    pub(crate) warm_end: f64,
}

impl WarmUp {
    /// Determines the stages of a run that is `span` seconds long and ends at `end`.
    pub(crate) fn of(allocated: &Series, end: f64, span: f64) -> Self {
        let run_start = end - span;
        let train_start = train_start(allocated, run_start, span);
        let settled = train_start + OPTIMIZER_SHARE_AFTER_LOAD * span;
        let stepped = train_start + FIRST_STEPS_SHARE * (end - train_start);
        Self {
            train_start,
            settle_start: (run_start + OPTIMIZER_SHARE * span).max(settled),
            warm_end: (run_start + SHARE * span).max(stepped),
        }
    }
}

/// Estimates when training began: when allocated memory first reached about the level that it has
/// at the end of the first quarter of the run. If the model was still loading then, training began
/// when memory reached half of the median level after the first quarter. The first step reaches
/// that half; a model that is loading usually does not. If memory is still rising at the time
/// found, the end of the rise is returned.
fn train_start(allocated: &Series, run_start: f64, span: f64) -> f64 {
    let typical = |from: f64, to: f64| {
        median(allocated.between(run_start + from * span, run_start + to * span))
    };
    let reached = |level: f64| {
        let first = allocated.y.iter().position(|&y| y >= level);
        first.map_or(0.0, |i| allocated.t[i])
    };
    let early = reached(0.9 * typical(0.8 * SHARE, 1.4 * SHARE));
    let late = reached(typical(SHARE, 1.01) / 2.0);
    let is_loading = late > early
        && !is_training(allocated.between(early, late))
        && !keeps_its_pace(allocated, late, run_start + span, span);
    let start = if is_loading { late } else { early };
    end_of_rise(allocated, start, start + MAX_LOAD_AFTER * span)
}

/// The time when a rise that is under way at time `from` first stops. A large model exceeds half of
/// the memory level of training while it is still loading; a training step rises only briefly.
fn end_of_rise(allocated: &Series, from: f64, latest: f64) -> f64 {
    let (first, last) = (allocated.index_at(from), allocated.index_at(latest));
    let rises = |i: usize| allocated.y.get(i + 2).is_some_and(|&y| y > allocated.y[i]);
    let end = (first..last).find(|&i| !rises(i)).unwrap_or(first);
    allocated.t.get(end).copied().unwrap_or(from)
}

/// Whether a rise of memory continues to the end of the run at half of its rate or faster. A rise
/// that continues is not a model being loaded, but growth much larger than the model.
fn keeps_its_pace(allocated: &Series, at: f64, end: f64, span: f64) -> bool {
    let width = PACE_SHARE * span;
    let level = |from: f64| median(allocated.between(from, from + width));
    let (before, now, last) = (level(at - width), level(at), level(end - width));
    let expected = (now - before) / width * (end - width - at);
    expected > 0.0 && last - now >= expected / 2.0
}

fn is_training(samples: &[f64]) -> bool {
    let falls = samples
        .windows(2)
        .filter(|w| w[1] < (1.0 - FALL) * w[0])
        .count();
    falls > 2 && falls as f64 >= MIN_FALLS * samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series that loads at level 10 up to the given sample, then has steps between 50 and 80.
    fn loads_until(sample: u32, floor: impl Fn(u32) -> f64) -> Series {
        let level = |k: u32| {
            if k < sample {
                10.0
            } else {
                floor(k) + f64::from(k % 4) * 10.0
            }
        };
        Series {
            t: (0..400).map(f64::from).collect(),
            y: (0..400).map(level).collect(),
        }
    }

    fn warm_up(series: &Series) -> WarmUp {
        WarmUp::of(series, 399.0, 399.0)
    }

    #[test]
    fn is_a_quarter_of_the_run() {
        let stages = warm_up(&loads_until(20, |_| 50.0));
        assert!((stages.train_start - 20.0).abs() < 3.0, "{stages:?}");
        assert!((stages.warm_end - 99.75).abs() < 1e-9, "{stages:?}");
    }

    #[test]
    fn lasts_longer_when_the_load_does() {
        let stages = warm_up(&loads_until(180, |_| 50.0));
        assert!((stages.train_start - 180.0).abs() < 3.0, "{stages:?}");
        assert!(stages.warm_end > 200.0, "{stages:?}");
    }

    #[test]
    fn a_model_that_nearly_fills_the_floor_is_still_being_loaded() {
        let mut series = loads_until(140, |_| 50.0);
        for (k, y) in (0..140).zip(&mut series.y) {
            *y = f64::from(k) * 0.34;
        }
        let stages = warm_up(&series);
        assert!((stages.train_start - 140.0).abs() < 3.0, "{stages:?}");
    }

    #[test]
    fn growth_that_dwarfs_the_model_is_no_load() {
        let level = |k: u32| 10.0 + 5.0 * f64::from(k.saturating_sub(130));
        let series = Series {
            t: (0..400).map(f64::from).collect(),
            y: (0..400).map(level).collect(),
        };
        let stages = warm_up(&series);
        assert!(stages.train_start < 5.0, "{stages:?}");
    }

    #[test]
    fn a_large_jump_is_not_the_end_of_loading() {
        let stages = warm_up(&loads_until(20, |k| if k < 200 { 50.0 } else { 300.0 }));
        assert!(stages.train_start < 25.0, "{stages:?}");
    }
}
