//! The normal peak of memory in a step, and the height of samples above the floor. Before both are
//! measured, the bytes that a leak, drift or jump added are subtracted from the samples.

use super::Course;
use super::floor::Floor;
use super::series::Series;
use super::signals::Signals;
use crate::stats::{median, quantile};

/// The quantile of the samples that counts as the normal peak of a step. Samples above this
/// quantile may be spikes or evaluations.
const NORMAL_PEAK: f64 = 0.97;

/// Number of neighbouring knots (points) of the floor whose median is taken as the floor at a knot.
const WIDE: usize = 9;

/// The samples from time `from` on, minus the bytes that the growth and jump of `course` added.
pub(crate) fn unlifted(series: &Series, course: &Course, from: f64) -> Vec<f64> {
    let first = series.index_at(from);
    series.t[first..]
        .iter()
        .zip(&series.y[first..])
        .map(|(&t, y)| y - course.lift(t))
        .collect()
}

/// The samples from time `from` on, as bytes above the floor. Growth and jump of `course` are
/// subtracted, and other movements of the floor too, such as a fall when a cache is dropped. The
/// subtracted floor is a median of several knots (points of the floor), so that single wrong knots
/// do not matter.
pub(crate) fn above_floor(series: &Series, course: &Course, floor: &Floor, from: f64) -> Vec<f64> {
    let levels: Vec<f64> = floor
        .knots
        .iter()
        .map(|k| k.level - course.lift(k.t))
        .collect();
    let smooth: Vec<f64> = (0..levels.len())
        .map(|k| {
            let near = k.saturating_sub(WIDE / 2)..(k + WIDE / 2 + 1).min(levels.len());
            median(&levels[near])
        })
        .collect();
    let first = series.index_at(from);
    let mut next = 0;
    unlifted(series, course, from)
        .into_iter()
        .zip(&series.t[first..])
        .map(|(y, &t)| {
            while next + 1 < smooth.len() && floor.knots[next + 1].t <= t {
                next += 1;
            }
            y - smooth.get(next).copied().unwrap_or(0.0)
        })
        .collect()
}

/// The normal peak of a step at the end of the track, in bytes, including the growth and jump of
/// `course`.
pub(crate) fn at_end(series: &Series, course: &Course, signals: &Signals) -> f64 {
    let steady = unlifted(series, course, signals.warm_end);
    quantile(&steady, NORMAL_PEAK) + course.lift(signals.end)
}

#[cfg(test)]
mod tests {
    use super::super::Evidence;
    use super::*;
    use crate::detect::tests::sketch::{a_rank, gib, mib, run_of};

    const GIB: f64 = 1_073_741_824.0;

    #[test]
    fn the_normal_peak_rises_with_a_leak() {
        let run = run_of([a_rank(0).grows(mib(10), 200)]);
        let evidence = Evidence::of(&run);
        let subject = &evidence.subjects[0];
        let series = &subject.signals.allocated;
        let peak = at_end(series, &subject.allocated, &subject.signals);
        assert!((peak / GIB - 31.5).abs() < 1.0, "{}", peak / GIB);
    }

    #[test]
    fn heights_ignore_where_the_floor_is() {
        let run = run_of([a_rank(0).jumps(-gib(8), 200)]);
        let evidence = Evidence::of(&run);
        let subject = &evidence.subjects[0];
        let signals = &subject.signals;
        let (series, floor) = (&signals.allocated, &signals.allocated_floor);
        let heights = above_floor(series, &subject.allocated, floor, signals.warm_end);
        let highest = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
        let middle = heights.len() / 2;
        let (before, after) = (
            highest(&heights[..middle - 60]),
            highest(&heights[middle..]),
        );
        assert!(
            (before - after).abs() < GIB,
            "{} {}",
            before / GIB,
            after / GIB
        );
    }
}
