//! Decides whether a floor keeps growing until the end of its track, for the leak and the drift
//! detector.
//!
//! A trend fitted to the floor determines the onset and the growth rate. Growth of any shape,
//! stairs and pauses included, must meet four conditions: it is large enough to matter, it is
//! spread over the run, it has not flattened out in its later part, and the share of it that is
//! freed again is below a limit.
//!
//! The modules below judge other ways in which a floor rises: a single jump (`jump`), and growth
//! that is certain although it is small (`certain`, `straight`). `findings` turns growth into
//! findings.

pub(crate) mod certain;
pub(crate) mod findings;
pub(crate) mod jump;
pub(crate) mod outlook;
mod shift;
pub(crate) mod straight;
pub(crate) mod trend;

use super::evidence::floor::{Floor, Knot};
use super::evidence::series::Series;
use super::evidence::signals::Signals;
use crate::stats::{isotonic, largest_fall, median, theil_sen};
use shift::Rise;
use straight::Line;
use trend::{SHAPES, Trend};

/// Smallest growth that is reported, as a share of the device. Growth is defined as at least 0.5 %
/// of the device. This limit is lower, because the difference between the first and the last sample
/// misses a part of the growth.
const MIN_GROWN: f64 = 0.004;
/// Smallest growth after the warm-up, as a share of the device. Of steady growth since the first
/// step, three quarters happen after the warm-up.
const MIN_GROWN_SETTLED: f64 = 0.6 * MIN_GROWN;
/// Shortest duration of growth, as a share of the run. Growth is defined to last at least 40 % of
/// the run; this limit is lower because the fit may place its start a little late.
const MIN_DURATION: f64 = 0.3;
/// Shortest time in which growth goes from a tenth to nine tenths of its size, as a share of the
/// run. Growth in a shorter time is a jump.
const MIN_SPREAD: f64 = 0.15;
/// Growth must still continue after this share of its duration. With fewer than `MIN_LATE_KNOTS`
/// knots (points of the floor) in the later part of the growth, its continuation is not checked.
const EARLIER_PART: f64 = 0.55;
const MIN_LATE_KNOTS: usize = 4;
/// Growth counts as begun when this share of all its bytes has grown.
const BEGUN: f64 = 0.03;
/// Growth has stopped when the floor has been level up to the end of the track for this many times
/// as long as in the longest pause of the growth, and for at least this share of the growth. A
/// cache that is full by then, or a model that is complete, is no leak.
const STOPPED: f64 = 1.6;
const MIN_STOPPED: f64 = 0.12;
/// A pause ends when the floor has risen by this share of the growth.
const STAIR: f64 = 0.04;

/// A fit that leaves less than `GOOD_FIT` of the variation unexplained adds log-odds in favour of
/// growth: `ODDS_PER_FOLD` for each factor of e by which the unexplained share lies below
/// `GOOD_FIT`, at most `MAX_ODDS_OF_FIT`.
const GOOD_FIT: f64 = 0.2;
const ODDS_PER_FOLD: f64 = 2.0;
const MAX_ODDS_OF_FIT: f64 = 4.0;
/// With many tracks, one of them may seem to grow by chance. Growth therefore needs additional
/// log-odds: this factor times the natural logarithm of the number of tracks. The factor is below
/// 1, because the tracks of one run are not independent.
const CHANCE_OF_TRACK: f64 = 0.5;

/// Log-odds assigned to memory growth along a straight line, which counts as certain.
const CERTAIN: f64 = 12.0;

/// The limits that growth of a track's memory must meet to be reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// Minimum log-odds in favour of growth, from the samples and the fitted trend together.
    odds: f64,
    /// Smallest size of the growth, as a multiple of the floor's random scatter.
    signal_to_noise: f64,
    /// Largest part of the growth that may be freed again, as a share. Garbage collection frees all
    /// of the growth, which is more than this limit allows.
    given_back: f64,
    /// Largest misfit of the fitted growth, as a share of the misfit of a flat floor.
    unexplained: f64,
    /// Largest misfit of the fitted growth, as a share of the misfit of a single jump. When growth
    /// and a jump fit about equally well, the floor may have made a jump too small to be reported.
    of_jump: f64,
    /// Smallest growth rate in the later part of the growth, as a share of the rate that the fitted
    /// trend has in that part. A pause may halve the late growth rate; for growth that flattens
    /// out, the rate is almost zero.
    late_pace: f64,
}

/// Limits for memory growth of one rank that is judged without looking at the other ranks.
pub(super) const ALONE: Demand = Demand {
    odds: 5.0,
    signal_to_noise: 5.0,
    given_back: 0.45,
    unexplained: 0.6,
    of_jump: 0.85,
    late_pace: 0.35,
};
/// Weaker limits for a rank most of whose peers grow, because growth is then expected.
pub(super) const AMONG_PEERS: Demand = Demand {
    odds: 0.0,
    signal_to_noise: 3.0,
    given_back: 0.6,
    unexplained: 0.75,
    of_jump: f64::INFINITY,
    late_pace: 0.2,
};

/// How clearly growth is a leak and not a cache that fills up, a load of data, or a program that
/// needs more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// The growth can hardly be anything but a leak.
    Strong,
    /// The growth may come from a cache that is still filling up, or from loading a model or data.
    Weak,
}

/// Growth of a floor up to the end of its track, with the measures that [`Demand`] limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// Start of the growth, in seconds since the track's first sample.
    pub(super) onset: f64,
    /// Bytes grown from the onset to the end of the track.
    pub(super) grown: f64,
    /// Growth rate at the end of the track, in bytes per second.
    pub(super) rate: f64,
    /// Size of the growth, as a multiple of the floor's random scatter.
    pub(super) signal_to_noise: f64,
    /// The largest fall of the floor below an earlier level, as a share of `grown`.
    pub(super) given_back: f64,
    /// Misfit of the fitted growth, as a share of the misfit of a constant level.
    pub(super) unexplained: f64,
    /// Misfit of the best single jump, as a share of the misfit of a constant level.
    two_levels_leave: f64,
    /// Growth rate in the later part of the growth, as a share of the rate that the fitted trend
    /// has in that part.
    pub(super) late_pace: f64,
    /// Whether the floor no longer grows at the end of the track.
    has_stopped: bool,
    /// Log-odds in favour of growth from the samples alone, without the fitted trend.
    pub(super) odds: f64,
    /// Whether the growth is large, long and spread out enough to be reported.
    matters: bool,
    /// How clearly the growth is a leak, and not a cache that fills up or a load of data.
    pub(super) strength: Strength,
    /// The trend (a constant level, then growth) that was fitted to the floor of the memory.
    pub(super) trend: Trend,
}

impl Growth {
    /// Whether the growth meets the limits of `demand`, and is not a jump, a garbage collection or
    /// chance.
    pub(super) fn meets(&self, demand: &Demand) -> bool {
        self.meets_among(demand, 1)
    }

    /// Like [`Self::meets`], for one of `tracks` tracks: with more tracks, chance looks like growth
    /// more often, so more evidence is needed.
    pub(super) fn meets_among(&self, demand: &Demand, tracks: usize) -> bool {
        let chances = CHANCE_OF_TRACK * (tracks.max(1) as f64).ln();
        self.matters
            && self.odds + self.odds_of_fit() >= demand.odds + chances
            && self.signal_to_noise >= demand.signal_to_noise
            && self.given_back <= demand.given_back
            && self.unexplained <= demand.unexplained
            && self.unexplained < demand.of_jump * self.two_levels_leave
            && self.late_pace >= demand.late_pace
            && !self.has_stopped
    }

    /// Log-odds that a good fit of the trend adds to the log-odds of the samples. Few samples give
    /// little evidence of small growth. A close fit is additional evidence, because random changes
    /// seldom lie so close to a trend.
    fn odds_of_fit(&self) -> f64 {
        let closer = GOOD_FIT / self.unexplained.max(f64::MIN_POSITIVE);
        (ODDS_PER_FOLD * closer.ln()).clamp(0.0, MAX_ODDS_OF_FIT)
    }

    /// The growth along `line` as a [`Growth`]. Its log-odds are set to [`CERTAIN`], because
    /// straight growth needs no further evidence.
    pub(super) fn straight(line: &Line, strength: Strength, end: f64) -> Self {
        Self {
            onset: line.began,
            grown: line.grown + line.grown_before,
            rate: line.rate,
            signal_to_noise: 1.0 / line.misfit.max(1e-3),
            given_back: line.given_back,
            unexplained: line.misfit,
            two_levels_leave: 1.0,
            late_pace: 1.0,
            has_stopped: false,
            odds: CERTAIN,
            matters: true,
            strength,
            trend: Trend {
                onset: line.onset.min(end),
                end,
                level: line.level,
                grown: line.grown,
                shape: 1,
                misfit: 0.0,
            },
        }
    }

    /// Misfit of this growth to `floor`, as a share of the misfit of a flat floor.
    pub(super) fn leaves_unexplained(&self, floor: &Floor) -> f64 {
        let levels: Vec<f64> = floor.knots.iter().map(|k| k.level).collect();
        unexplained(&floor.knots, &levels, &self.trend)
    }
}

/// Finds the growth that best fits the floor of a series. The caller decides whether the growth is
/// certain enough to be reported.
pub(super) fn find(series: &Series, floor: &Floor, signals: &Signals) -> Option<Growth> {
    let rough = Trend::fit(floor, signals, &SHAPES)?;
    if rough.grown < 0.5 * MIN_GROWN * signals.scale {
        return None;
    }
    let floor = floor_along(series, &rough, floor, signals);
    let trend = Trend::fit(&floor, signals, &SHAPES)?;
    Some(measure(series, &floor, trend, signals))
}

/// Finds the floor of a series again after subtracting a trend. A rising floor is hard to detect,
/// above all at the end of the track; with the trend subtracted it is flat.
pub(super) fn floor_along(
    series: &Series,
    trend: &Trend,
    floor: &Floor,
    signals: &Signals,
) -> Floor {
    let from = floor.knots.first().map_or(0.0, |k| k.t);
    let still = series.minus(|t| trend.lift(t));
    let mut floor = Floor::of(&still, from, signals.scale);
    for knot in &mut floor.knots {
        knot.level += trend.lift(knot.t);
    }
    floor
}

fn measure(series: &Series, floor: &Floor, trend: Trend, signals: &Signals) -> Growth {
    let knots = &floor.knots[..];
    let levels = trend::levels_of(floor);
    let settled = knots.partition_point(|k| k.t < signals.warm_end);
    let support = shift::support(series, &rise_of(knots, &trend, floor.period));
    let share = |bytes: f64| {
        if trend.grown > 0.0 {
            bytes / trend.grown
        } else {
            f64::INFINITY
        }
    };
    let matters = trend.grown >= MIN_GROWN * signals.scale
        && rise_over(&levels[settled..]) >= MIN_GROWN_SETTLED * signals.scale
        && signals.end - trend.onset >= MIN_DURATION * signals.span
        && spread_of(knots, &levels, &trend) >= MIN_SPREAD * signals.span;
    Growth {
        onset: trend.reached(BEGUN),
        grown: trend.grown,
        rate: trend.rate_at_end(),
        signal_to_noise: trend.grown / trend::noise_of(floor, signals),
        given_back: share(largest_fall(&levels)),
        unexplained: unexplained(knots, &levels, &trend),
        two_levels_leave: two_levels_leave(&levels),
        late_pace: late_pace(knots, &levels, &trend),
        has_stopped: has_stopped(knots, &levels, &trend),
        odds: support.odds(),
        matters,
        strength: Strength::Strong,
        trend,
    }
}

/// The rise that single samples should show if the growth is real: no sample in the later half of
/// the growth is as low as the samples in the first third of the growth.
fn rise_of(knots: &[Knot], trend: &Trend, period: f64) -> Rise {
    let (until, split) = (trend.reached(0.35), trend.reached(0.5));
    let early = &knots[..knots.partition_point(|k| k.t < until)];
    let late = &knots[knots.partition_point(|k| k.t < split)..];
    let mean = |knots: &[Knot]| {
        let count = knots.len().max(1) as f64;
        knots.iter().map(|k| trend.lift(k.t)).sum::<f64>() / count
    };
    Rise {
        from: knots.first().map_or(0.0, |k| k.t),
        until,
        split,
        line: trend.level + 0.42 * trend.grown,
        shift: mean(late) - mean(early),
        period,
    }
}

fn unexplained(knots: &[Knot], levels: &[f64], trend: &Trend) -> f64 {
    let flat = median(levels);
    let flat_misfit: f64 = levels.iter().map(|l| (l - flat).abs()).sum();
    let misfit: f64 = knots
        .iter()
        .zip(levels)
        .map(|(k, l)| (l - trend.at(k.t)).abs())
        .sum();
    if flat_misfit > 0.0 {
        misfit / flat_misfit
    } else {
        1.0
    }
}

/// Misfit of the best two-level fit, as a share of the misfit of a flat floor. A jump too small to
/// be reported must not be taken for growth.
fn two_levels_leave(levels: &[f64]) -> f64 {
    // The best two-level fit splits the levels in two parts where the weighted distance between the
    // means of both parts is largest, because this split leaves the smallest sum of squares.
    let (count, centre) = (levels.len() as f64, median(levels));
    let all: f64 = levels.iter().map(|l| l - centre).sum();
    let (mut before, mut farthest, mut sharpest) = (0.0, 0.0, None);
    for (k, level) in levels
        .iter()
        .enumerate()
        .take(levels.len().saturating_sub(1))
    {
        before += level - centre;
        let (n, m) = (k as f64 + 1.0, count - k as f64 - 1.0);
        let apart = n * m * ((all - before) / m - before / n).powi(2);
        if apart > farthest {
            (farthest, sharpest) = (apart, Some(k + 1));
        }
    }
    sharpest.map_or(1.0, |split| jump::unexplained(levels, split))
}

/// Rise from the median of the first three levels to the median of the last three.
fn rise_over(levels: &[f64]) -> f64 {
    let few = levels.len().min(3);
    median(&levels[levels.len() - few..]) - median(&levels[..few])
}

/// Growth rate in the later part of the growth, as a share of the rate that the fitted trend has in
/// that part. The result is 1 when the later part has too few knots (points of the floor) to
/// contradict the fit.
fn late_pace(knots: &[Knot], levels: &[f64], trend: &Trend) -> f64 {
    let from = trend.onset + EARLIER_PART * (trend.end - trend.onset);
    let late = knots.partition_point(|k| k.t < from);
    if knots.len() < late + MIN_LATE_KNOTS || trend.grown <= 0.0 {
        return 1.0;
    }
    let progress: Vec<f64> = knots[late..].iter().map(|k| trend.progress(k.t)).collect();
    let even = theil_sen(&progress, &levels[late..]);
    // When most of the later part is a pause, the median slope is zero, so the first and last
    // levels of that part decide.
    let ends = rise_over(&levels[late..]) / rise_over(&progress).max(f64::MIN_POSITIVE);
    even.max(ends) / trend.grown
}

/// Whether the floor is level at the end of the track for longer than pauses of the growth explain.
fn has_stopped(knots: &[Knot], levels: &[f64], trend: &Trend) -> bool {
    let first = knots.partition_point(|k| k.t < trend.onset);
    let rising = isotonic(&levels[first..]);
    let Some(mut level) = rising.first().copied() else {
        return false;
    };
    let (mut since, mut longest) = (trend.onset, 0.0_f64);
    for (knot, &rise) in knots[first..].iter().zip(&rising) {
        if rise >= level + STAIR * trend.grown {
            longest = longest.max(knot.t - since);
            (since, level) = (knot.t, rise);
        }
    }
    let still = trend.end - since;
    still > STOPPED * longest && still > MIN_STOPPED * (trend.end - trend.onset)
}

/// Seconds between a tenth and nine tenths of the growth, for growth of any shape.
fn spread_of(knots: &[Knot], levels: &[f64], trend: &Trend) -> f64 {
    let rising = isotonic(levels);
    let when = |part: f64| {
        let level = trend.level + part * trend.grown;
        knots[rising.partition_point(|&l| l < level).min(knots.len() - 1)].t
    };
    when(0.9) - when(0.1)
}

#[cfg(test)]
mod tests {
    use super::super::evidence::signals;
    use super::super::tests::sketch::{Sketch, a_rank, gib, mib, run_of};
    use super::*;

    fn growth_of(sketch: Sketch) -> Option<Growth> {
        let run = run_of([sketch]);
        let signals = &signals::read(&run)[0];
        find(&signals.allocated, &signals.allocated_floor, signals)
    }

    /// A floor that rises by `stair` bytes at each of the given times (in seconds) of a minute.
    fn stairs(at: &[f64], stair: f64) -> (Vec<Knot>, Vec<f64>) {
        let times = (0..120).map(|k| f64::from(k) / 2.0);
        let level = |t: f64| stair * at.iter().filter(|one| **one <= t).count() as f64;
        let knots: Vec<Knot> = times.map(|t| Knot { t, level: level(t) }).collect();
        let levels = knots.iter().map(|k| k.level).collect();
        (knots, levels)
    }

    #[test]
    fn growth_that_pauses_much_longer_at_the_end_than_before_has_stopped() {
        let stopped = |at: &[f64]| {
            let (knots, levels) = stairs(at, 100.0);
            let trend = Trend {
                onset: at[0],
                end: 59.5,
                level: 0.0,
                grown: 100.0 * at.len() as f64,
                shape: 1,
                misfit: 0.0,
            };
            has_stopped(&knots, &levels, &trend)
        };
        // A model that unfreezes layers every 8 s, the last ones at 40 s.
        assert!(stopped(&[8.0, 16.0, 24.0, 32.0, 40.0]));
        // Something is kept at each evaluation, every 8 s or so.
        assert!(!stopped(&[8.0, 17.0, 24.0, 33.0, 40.0, 49.0]));
        let even: Vec<f64> = (10..=100).map(|k| f64::from(k) / 2.0).collect();
        assert!(stopped(&even), "a cache that was full at 50 s");
        let even: Vec<f64> = (10..=112).map(|k| f64::from(k) / 2.0).collect();
        assert!(!stopped(&even), "a pause of 3 s at the end is short");
    }

    #[test]
    fn measures_even_growth() {
        let growth = growth_of(a_rank(0).grows(mib(10), 200)).unwrap();
        assert!(growth.meets(&ALONE), "{growth:?}");
        assert!((growth.grown / 2.09e9 - 1.0).abs() < 0.1, "{growth:?}");
        assert!(
            growth.given_back < 0.1 && growth.unexplained < 0.1,
            "{growth:?}"
        );
        assert!((growth.late_pace - 1.0).abs() < 0.2, "{growth:?}");
    }

    #[test]
    fn growth_that_flattens_out_is_not_believed() {
        // The memory grows only up to the middle of the run.
        let early = (0..25).fold(a_rank(0), |s, k| s.jumps(mib(80), 100 + 4 * k));
        assert!(growth_of(early).is_none_or(|g| !g.meets(&ALONE)));
    }

    #[test]
    fn a_pause_late_in_the_growth_is_no_end_of_it() {
        // The memory grows for half of the run, pauses for a fifth of it and continues to grow.
        let paused = (0..40)
            .filter(|k| !(24..36).contains(k))
            .fold(a_rank(0), |s, k| s.jumps(mib(60), 140 + 6 * k));
        let growth = growth_of(paused).unwrap();
        assert!(growth.meets(&ALONE), "{growth:?}");
    }

    #[test]
    fn what_is_given_back_is_not_believed() {
        let garbage = growth_of(a_rank(0).collects_garbage(gib(2), 130));
        assert!(garbage.is_none_or(|g| !g.meets(&ALONE) && !g.meets(&AMONG_PEERS)));
    }

    #[test]
    fn a_jump_too_small_to_be_reported_is_no_growth() {
        // The jump is 0.8 % of the device: more than the smallest growth, less than the smallest
        // jump that is reported.
        let small = growth_of(a_rank(0).jumps(mib(650), 230));
        assert!(small.is_none_or(|g| !g.meets(&ALONE)), "{small:?}");
    }

    #[test]
    fn a_close_fit_speaks_for_growth_and_many_tracks_against() {
        let strong = growth_of(a_rank(0).grows(mib(10), 200)).unwrap();
        let seen_by_few = Growth {
            odds: 3.0,
            unexplained: 0.05,
            ..strong
        };
        assert!(seen_by_few.meets(&ALONE) && !seen_by_few.meets_among(&ALONE, 64));
        let wandering = Growth {
            unexplained: 0.3,
            ..seen_by_few
        };
        assert!(!wandering.meets(&ALONE));
    }

    #[test]
    fn peers_make_weaker_growth_believable() {
        let strong = growth_of(a_rank(0).grows(mib(10), 200)).unwrap();
        let weak = Growth {
            odds: 2.0,
            unexplained: 0.7,
            ..strong
        };
        assert!(!weak.meets(&ALONE) && weak.meets(&AMONG_PEERS));
    }
}
