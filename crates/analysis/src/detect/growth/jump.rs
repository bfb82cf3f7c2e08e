//! Decides whether a floor jumped upwards once and stayed at the higher level, for the step-change
//! and the growth detectors.

use super::shift::{self, Rise};
use super::trend;
use crate::detect::evidence::floor::{Floor, Knot};
use crate::detect::evidence::series::Series;
use crate::detect::evidence::signals::Signals;
use crate::stats::{median, quantile};

/// Smallest height of a jump that is reported, as a share of the device. A jump is defined as at
/// least 1.5 % of the device; this limit is lower to allow for errors of the measurement.
const MIN_HEIGHT: f64 = 0.012;
/// Number of knots (points of the floor) that are compared on each side of a jump.
const NEAR: usize = 6;
/// Minimum number of knots (points of the floor) that must follow a jump to show that it lasted.
const MIN_AFTER: usize = 3;
/// Smallest share of a jump's height by which the floor must rise within one or two knots (points
/// of the floor). A slower rise is no jump.
const MIN_SHARPNESS: f64 = 0.6;
/// A second rise larger than this share of the jump means that the floor grows in stairs, which is
/// no jump.
const MAX_SECOND: f64 = 0.45;
/// Smallest height of a jump, as a multiple of the floor's random scatter.
const MIN_SIGNAL_TO_NOISE: f64 = 5.0;
/// Shortest time that a jump must have lasted, as a share of the run. A rise that lasted shorter is
/// a spike, or cannot be judged yet.
const MIN_LASTING: f64 = 0.08;

/// Minimum log-odds of a jump on a rank that is judged by itself. The limit for jumps is higher
/// than for growth: when no sample falls on the floor for a while, the other samples look like a
/// jump, but rarely like steady growth.
pub(crate) const ALONE: f64 = 14.0;
/// Minimum log-odds of a jump on a rank when enough other ranks had a jump of similar height.
pub(crate) const AMONG_PEERS: f64 = 6.0;

/// A sudden rise of a track's memory floor to a higher level, at which the floor stayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Jump {
    /// When the jump happened, in seconds since the track's first sample: halfway between the first
    /// sample above the old floor and the first sample on the new floor.
    pub(crate) onset: f64,
    /// Time of the first sample above the old floor, in seconds since the track's first sample.
    pub(crate) raised: f64,
    /// Height of the jump, in bytes.
    pub(crate) height: f64,
    /// Height of the jump, as a multiple of the floor's random scatter.
    pub(crate) signal_to_noise: f64,
    /// How badly two levels, one before and one after the jump, fit the floor: their misfit divided
    /// by the misfit of a single level for the whole floor.
    pub(crate) unexplained: f64,
    /// Log-odds in favour of a jump, from the samples.
    pub(crate) odds: f64,
}

/// Finds the single lasting jump of a floor after the warm-up. The caller decides by the log-odds
/// whether the jump is reported.
pub(crate) fn find(series: &Series, floor: &Floor, signals: &Signals) -> Option<Jump> {
    let knots = &floor.knots[..];
    let levels: Vec<f64> = knots.iter().map(|k| k.level).collect();
    let settled = knots
        .partition_point(|k| k.t < signals.warm_end)
        .max(MIN_AFTER);
    let rises = rises(&levels, settled);
    let at = index_of_jump(&levels, &rises)?;
    let (before, height) = levels_around(&levels, at);
    let noise = trend::noise_of(floor, signals);
    let middle = before + 0.5 * height;
    let is_single = quantile(&levels[at..], 0.1) >= middle
        && quantile(&levels[..at], 0.9) <= middle
        && edge(&levels, at) >= MIN_SHARPNESS * height
        && second_rise(&rises, at) <= MAX_SECOND * height;
    let matters = height >= MIN_HEIGHT * signals.scale && height >= MIN_SIGNAL_TO_NOISE * noise;
    if !is_single || !matters {
        return None;
    }
    let (raised, onset) = moment(series, knots, at, before, height);
    if onset < signals.warm_end || signals.end - onset < MIN_LASTING * signals.span {
        return None;
    }
    let rise = Rise {
        from: knots[0].t,
        until: raised,
        split: raised,
        line: middle,
        shift: height,
        period: floor.period,
    };
    Some(Jump {
        onset,
        raised,
        height,
        signal_to_noise: height / noise,
        unexplained: unexplained(&levels, at),
        odds: shift::support(series, &rise).odds(),
    })
}

/// The rise of the floor at each knot (point): the median of the next knots minus the median of the
/// previous ones. The rise is 0 before index `settled`, where the warm-up ends.
fn rises(levels: &[f64], settled: usize) -> Vec<f64> {
    let rise = |k: usize| {
        median(&levels[k..(k + NEAR).min(levels.len())])
            - median(&levels[k.saturating_sub(NEAR)..k])
    };
    let room = |k: usize| k >= settled && k + MIN_AFTER <= levels.len();
    (0..levels.len())
        .map(|k| if room(k) { rise(k) } else { 0.0 })
        .collect()
}

/// The index of the knot (point of the floor) at which the jump happened. Of the knots whose rise
/// is at least 80 % of the highest rise, it is the one with the largest `edge`.
fn index_of_jump(levels: &[f64], rises: &[f64]) -> Option<usize> {
    let highest = rises.iter().copied().fold(0.0, f64::max);
    (1..levels.len())
        .filter(|&k| highest > 0.0 && rises[k] >= 0.8 * highest)
        .max_by(|&a, &b| edge(levels, a).total_cmp(&edge(levels, b)))
}

/// The level of the floor before a jump, and the height of the jump, in bytes. Knots (points of the
/// floor) that may contain samples from both sides of the jump are left out.
fn levels_around(levels: &[f64], at: usize) -> (f64, f64) {
    let clear = at.saturating_sub(1).max(1);
    let before = median(&levels[clear.saturating_sub(NEAR)..clear]);
    let landed = (at + 1).min(levels.len() - 1);
    (
        before,
        median(&levels[landed..(landed + NEAR).min(levels.len())]) - before,
    )
}

/// The largest rise of the floor over one or two knots (points) around the knot `k`. Two knots are
/// used, because one knot may contain samples from before and after the jump.
fn edge(levels: &[f64], k: usize) -> f64 {
    let narrow = levels[k] - levels[k - 1];
    let after = levels
        .get(k + 1)
        .map_or(narrow, |next| next - levels[k - 1]);
    narrow
        .max(after)
        .max(levels[k] - levels[k.saturating_sub(2)])
}

fn second_rise(rises: &[f64], at: usize) -> f64 {
    let far = rises
        .iter()
        .enumerate()
        .filter(|(k, _)| k.abs_diff(at) > NEAR);
    far.map(|(_, &rise)| rise).fold(0.0, f64::max)
}

/// The time of the first sample above the old floor, and the time halfway between that sample and
/// the first sample on the new floor. The two times are equal when the first sample above the old
/// floor already lies on the new floor.
fn moment(series: &Series, knots: &[Knot], at: usize, before: f64, height: f64) -> (f64, f64) {
    let from = series.index_at(knots[at.saturating_sub(2)].t);
    let to = series.index_at(knots[(at + 1).min(knots.len() - 1)].t);
    let raised = (from..to)
        .rev()
        .find(|&i| series.y[i] < before + 0.5 * height)
        .map_or(from, |i| i + 1)
        .min(series.len() - 1);
    let landed = (raised..=to.min(series.len() - 1))
        .find(|&i| series.y[i] <= before + 1.25 * height)
        .unwrap_or(raised);
    (
        series.t[raised],
        series.t[raised].midpoint(series.t[landed]),
    )
}

/// How badly two levels, one before and one after the jump, fit the floor: their misfit divided by
/// the misfit of a single level for the whole floor.
pub(crate) fn unexplained(levels: &[f64], at: usize) -> f64 {
    let misfit = |part: &[f64]| {
        let level = median(part);
        part.iter().map(|l| (l - level).abs()).sum::<f64>()
    };
    let flat = misfit(levels);
    if flat > 0.0 {
        (misfit(&levels[..at]) + misfit(&levels[at..])) / flat
    } else {
        1.0
    }
}

/// A copy of the samples in which the height of the jump is subtracted from all samples after it.
pub(crate) fn without(series: &Series, jump: &Jump) -> Series {
    series.minus(|t| if t >= jump.raised { jump.height } else { 0.0 })
}

/// A copy of the floor in which the height of the jump is subtracted from all knots after it.
pub(crate) fn floor_without(floor: &Floor, jump: &Jump) -> Floor {
    let mut level = floor.clone();
    for knot in &mut level.knots {
        if knot.t >= jump.raised {
            knot.level -= jump.height;
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::evidence::signals;
    use crate::detect::tests::sketch::{Sketch, a_rank, gib, mib, run_of};

    fn jump_of(sketch: Sketch) -> Option<Jump> {
        let run = run_of([sketch]);
        let signals = &signals::read(&run)[0];
        find(&signals.allocated, &signals.allocated_floor, signals)
    }

    #[test]
    fn measures_height_and_place() {
        let jump = jump_of(a_rank(0).jumps(gib(3), 240)).unwrap();
        assert!(
            (jump.height / 3_221_225_472.0 - 1.0).abs() < 0.05,
            "{jump:?}"
        );
        assert!((jump.onset - 240.0).abs() < 8.0, "{jump:?}");
        assert!(jump.unexplained < 0.1 && jump.odds > ALONE, "{jump:?}");
    }

    #[test]
    fn the_rest_is_level_without_it() {
        let run = run_of([a_rank(0).jumps(gib(3), 240)]);
        let signals = &signals::read(&run)[0];
        let jump = find(&signals.allocated, &signals.allocated_floor, signals).unwrap();
        let rest = floor_without(&signals.allocated_floor, &jump);
        let levels: Vec<f64> = rest.knots.iter().map(|k| k.level).collect();
        let spread = quantile(&levels, 0.95) - quantile(&levels, 0.05);
        assert!(spread < 0.1 * jump.height, "{spread}");
    }

    #[test]
    fn what_comes_back_or_goes_on_is_no_jump() {
        assert_eq!(jump_of(a_rank(0)), None);
        assert_eq!(
            jump_of(a_rank(0).jumps(gib(3), 200).jumps(-gib(3), 300)),
            None
        );
        assert_eq!(jump_of(a_rank(0).grows_in_stairs(mib(60), 120, 28)), None);
    }

    #[test]
    fn what_has_not_lasted_is_no_jump_yet() {
        assert_eq!(jump_of(a_rank(0).jumps(gib(3), 385)), None);
    }
}
