//! Finds growth that is certain regardless of its size: a floor that rises along a straight line to
//! the end of the track, in nearly every time block, while hardly any memory is freed again.
//!
//! Random changes, garbage collection, a cache that fills up, and growth that flattens out never
//! rise so evenly to the end. Therefore straight growth need not reach a minimum share of the
//! device.

use crate::detect::evidence::series::Series;
use crate::stats::{largest_fall, median, theil_sen};

/// A series of at most this many samples is examined sample by sample. A longer series is first
/// divided into groups of neighbouring samples, and only the lowest sample of each group is used.
const MAX_CELLS: usize = 960;
/// The search tries `ONSETS` start times (onsets) of the growth, evenly spaced over the first part
/// of the track. `LATEST_ONSET` is the length of that part as a share of the track.
const ONSETS: u32 = 20;
const LATEST_ONSET: f64 = 0.75;
/// Minimum number of samples in the growing part of a series, and in each of the time blocks that
/// the part is divided into.
const MIN_SAMPLES: usize = 40;
const MIN_BLOCK: usize = 3;
/// A rise counts as straight only if no time block lies further from the fitted line than
/// `MAX_MISFIT`, and if no more than `MAX_FALL` of memory is freed again. Both limits are shares
/// of the growth.
const MAX_MISFIT: f64 = 0.15;
const MAX_FALL: f64 = 0.1;
/// Smallest share of the time blocks that must lie higher than the previous one.
const MIN_RISES: f64 = 0.85;
/// Like `MIN_RISES`, for the quick check of the last quarter of the samples. The share is smaller,
/// because the last quarter has few time blocks.
const MIN_RISES_AT_END: f64 = 0.7;
/// Limits for the growth rate, as multiples of the overall rate: at least `MIN_LATE` in the last
/// third of the growth, and at most `MAX_EARLY` in the first third.
const MIN_LATE: f64 = 0.5;
const MAX_EARLY: f64 = 2.0;
/// Over the last `TAIL` time blocks, memory must still grow at `MIN_TAIL` times the overall growth
/// rate or faster.
const TAIL: usize = 3;
const MIN_TAIL: f64 = 0.35;
/// Samples in which the program shuts down and frees its memory are ignored, but at most the last
/// `1 / SHUTDOWN` of the samples.
const SHUTDOWN: usize = 20;

/// Growth is not reported when garbage was collected before it, because the growth may be garbage
/// too. A garbage collection is a rise over `RISING` time blocks, then a fall, among the
/// `BLOCKS_BEFORE` time blocks before the growth. The fall must be at least `MIN_COLLECTED` times
/// the growth, and the rise before it at least `MIN_CLIMB` times the fall.
const BLOCKS_BEFORE: usize = 24;
const RISING: usize = 4;
const MIN_COLLECTED: f64 = 0.5;
const MIN_CLIMB: f64 = 0.08;

/// To find where growth began, the growth is followed back in time from its straight part. The
/// search goes on while the growth rate is between `MIN_PACE_BEFORE` and `MAX_PACE_BEFORE` times
/// the rate in the straight part. A lower rate means that nothing grew yet, a higher rate that data
/// was loaded.
const MIN_PACE_BEFORE: f64 = 0.3;
const MAX_PACE_BEFORE: f64 = 2.0;

/// Number of time blocks that growth is divided into to find where it began.
const BLOCKS_OF_GROWTH: usize = 24;

/// A rise of memory along a straight line up to the end of a series of samples. The times in its
/// fields count from the same moment as the times of the series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// Start of the straight part of the growth, in seconds.
    pub(crate) onset: f64,
    /// Start of the growth, in seconds. Before the straight part, the growth rate may have been
    /// different.
    pub(crate) began: f64,
    /// Bytes grown from `began` to `onset`, before the straight part of the growth.
    pub(crate) grown_before: f64,
    /// Time of the last sample, in seconds.
    pub(crate) end: f64,
    /// Memory level at the start of the straight part of the growth, in bytes.
    pub(crate) level: f64,
    /// Bytes grown in the straight part of the growth.
    pub(crate) grown: f64,
    /// Growth rate in the straight part, in bytes per second.
    pub(crate) rate: f64,
    /// Largest distance of a time block from the line, as a share of the growth.
    pub(crate) misfit: f64,
    /// Largest amount of memory that was freed again, as a share of the growth.
    pub(crate) given_back: f64,
    /// Growth rate in the last third as a share of the rate in the first third: 1 is straight, less
    /// means flattening out.
    pub(crate) bend: f64,
    /// Number of time blocks that the growth was divided into to check that it is straight.
    pub(crate) blocks: usize,
}

impl Line {
    /// The level of the line at time `t`, in bytes.
    #[cfg(test)]
    fn at(&self, t: f64) -> f64 {
        self.level + self.rate * (t - self.onset)
    }
}

/// Finds the longest straight rise to the end of a series that grows by at least `least` bytes,
/// checked in `blocks` time blocks.
pub(crate) fn find(series: &Series, blocks: usize, least: f64) -> Option<Line> {
    let samples = without_shutdown(&series.y);
    let (t, y) = (&series.t[..samples], &series.y[..samples]);
    if y.len() < MIN_SAMPLES || !may_rise(t, y, blocks) {
        return None;
    }
    let cells = Cells::of(t, y);
    let span = t[t.len() - 1] - t[0];
    (0..ONSETS)
        .find_map(|k| {
            let from = t[0] + LATEST_ONSET * span * f64::from(k) / f64::from(ONSETS);
            let first = t.partition_point(|&at| at < from);
            if t.len() - first < MIN_SAMPLES {
                return None;
            }
            cells.line(from, blocks, least)
        })
        .filter(|line| !cells.was_collected_before(line))
        .map(|line| cells.with_beginning(line, Some(line.level)))
}

/// Finds the start of a straight rise in another series of the same memory, such as samples instead
/// of the peak counter. A peak counter rises only when allocated memory exceeds an older peak,
/// which may be long after the growth began.
pub(crate) fn followed_back(line: Line, series: &Series) -> Line {
    Cells::of(&series.t, &series.y).with_beginning(line, None)
}

/// The time when growth really began, before its fitted `onset`, and the bytes it grew until
/// `onset`. `None` unless memory had been higher before the growth, for example during a load. A
/// fit may take that higher level for the level at which the growth started, and then places the
/// onset too late.
pub(crate) fn hidden_beginning(series: &Series, onset: f64, rate: f64) -> Option<(f64, f64)> {
    let back = Cells::of(&series.t, &series.y).followed(onset, rate, BLOCKS_OF_GROWTH)?;
    back.was_higher
        .then_some((back.began, back.at_onset - back.level))
}

/// Number of samples up to the point where the program shuts down and frees its memory; samples
/// after it are not judged.
fn without_shutdown(y: &[f64]) -> usize {
    let most = (y.len() / SHUTDOWN).max(1);
    let first = y.len().saturating_sub(most);
    let Some(before) = y[..first].last() else {
        return y.len();
    };
    let mut kept = y.len();
    while kept > first && y[kept - 1] < 0.9 * before {
        kept -= 1;
    }
    // A sample may show the program while it frees its memory, at a level that is not low yet.
    while kept < y.len() && kept > first && y[kept - 1] < y[kept - 2] {
        kept -= 1;
    }
    kept
}

/// A quick check that rejects most series: the last quarter of the samples must still rise.
fn may_rise(t: &[f64], y: &[f64], blocks: usize) -> bool {
    let quarter = y.len() - y.len() / 4;
    let (_, levels) = floors(&t[quarter..], &y[quarter..], (blocks / 4).max(2));
    let is_higher = levels.last() > levels.first();
    is_higher && share_of_rises(&levels) >= MIN_RISES_AT_END
}

/// Where growth really began, found by following it back in time from `onset`.
struct Followed {
    began: f64,
    /// The memory level where the growth began, and the level at `onset`, in bytes.
    level: f64,
    at_onset: f64,
    /// Whether any block before the growth was at least halfway between `level` and `at_onset`.
    was_higher: bool,
}

/// The samples of a series, or the minima of groups of samples when the series is long.
struct Cells {
    t: Vec<f64>,
    y: Vec<f64>,
}

impl Cells {
    fn of(t: &[f64], y: &[f64]) -> Self {
        let width = y.len().div_ceil(MAX_CELLS).max(1);
        let lowest = |start: usize| {
            let end = (start + width).min(y.len());
            (start..end)
                .min_by(|&a, &b| y[a].total_cmp(&y[b]))
                .unwrap_or(start)
        };
        let places: Vec<usize> = (0..y.len()).step_by(width).map(lowest).collect();
        Self {
            t: places.iter().map(|&i| t[i]).collect(),
            y: places.iter().map(|&i| y[i]).collect(),
        }
    }

    /// Whether memory rose in the same way before the growth and fell again. When memory rose and
    /// fell before, the growth is garbage that was not collected yet. A fall from a constant level,
    /// as when a model is converted, does not count as garbage collection.
    fn was_collected_before(&self, line: &Line) -> bool {
        let before = self.t.partition_point(|&at| at < line.onset);
        let blocks = BLOCKS_BEFORE.min(before);
        let (_, mut levels) = floors(&self.t[..before], &self.y[..before], blocks);
        levels.push(line.level);
        levels.windows(RISING + 1).any(|w| {
            let (first, top, after) = (w[0], w[RISING - 1], w[RISING]);
            let fall = top - after;
            let rises = w[..RISING].windows(2).all(|pair| pair[1] > pair[0]);
            fall >= MIN_COLLECTED * line.grown && rises && top - first >= MIN_CLIMB * fall
        })
    }

    /// Extends a straight rise back in time, block by block, while memory rose at a similar rate.
    /// Without the level of the samples at the onset, their lowest level there is used.
    fn with_beginning(&self, line: Line, at_onset: Option<f64>) -> Line {
        match self.followed(line.onset, line.rate, line.blocks) {
            Some(back) => Line {
                began: back.began,
                grown_before: (at_onset.unwrap_or(back.at_onset) - back.level).max(0.0),
                ..line
            },
            None => line,
        }
    }

    /// Follows growth back in time from `onset`; `None` when the growth began at `onset`.
    fn followed(&self, onset: f64, rate: f64, blocks: usize) -> Option<Followed> {
        let first = self.t.partition_point(|&at| at < onset);
        let width = ((self.t.len() - first) / blocks.max(1)).max(MIN_BLOCK);
        // The search starts from the lowest sample of the first block, because the fitted line may
        // lie lower there.
        let (at_onset, mut now) = {
            let lowest = self.lowest(first..(first + width).min(self.t.len()))?;
            (lowest.1, lowest)
        };
        let mut end = first;
        while let Some(before) = end
            .checked_sub(width)
            .and_then(|start| self.lowest(start..end))
        {
            let pace = (now.1 - before.1) / (now.0 - before.0).max(f64::MIN_POSITIVE) / rate;
            if !(MIN_PACE_BEFORE..=MAX_PACE_BEFORE).contains(&pace) {
                break;
            }
            (now, end) = (before, end - width);
        }
        let was_higher = || {
            let blocks = (0..end).step_by(width);
            let mut lowest =
                blocks.filter_map(|start| self.lowest(start..(start + width).min(end)));
            let half = f64::midpoint(now.1, at_onset);
            lowest.any(|(_, level)| level >= half)
        };
        (end < first).then(|| Followed {
            began: now.0,
            level: now.1,
            at_onset,
            was_higher: was_higher(),
        })
    }

    fn lowest(&self, block: std::ops::Range<usize>) -> Option<(f64, f64)> {
        let lowest = block.min_by(|&a, &b| self.y[a].total_cmp(&self.y[b]));
        lowest.map(|i| (self.t[i], self.y[i]))
    }

    fn line(&self, from: f64, blocks: usize, least: f64) -> Option<Line> {
        let first = self.t.partition_point(|&at| at < from);
        let (t, y) = (&self.t[first..], &self.y[first..]);
        let blocks = blocks.min(y.len() / MIN_BLOCK);
        if blocks < 2 * TAIL {
            return None;
        }
        let (x, v) = floors(t, y, blocks);
        // The share of rising blocks is checked first, because this check is cheap and random
        // changes fail it.
        if share_of_rises(&v) < MIN_RISES {
            return None;
        }
        let rate = theil_sen(&x, &v);
        let (begin, end) = (x[0], x[x.len() - 1]);
        let grown = rate * (end - begin);
        if !(grown.is_finite() && grown >= least) {
            return None;
        }
        let starts: Vec<f64> = x
            .iter()
            .zip(&v)
            .map(|(x, v)| v - rate * (x - begin))
            .collect();
        let start = median(&starts);
        let misfit = starts.iter().map(|s| (s - start).abs()).fold(0.0, f64::max) / grown;
        let third = x.len() / 3;
        let late = theil_sen(&x[x.len() - third..], &v[v.len() - third..]) / rate;
        let early = theil_sen(&x[..third], &v[..third]) / rate;
        let tail = (v[v.len() - 1] - v[v.len() - 1 - TAIL])
            / (rate * (end - x[x.len() - 1 - TAIL])).max(f64::MIN_POSITIVE);
        let given_back = largest_fall(&v) / grown;
        if misfit > MAX_MISFIT
            || given_back > MAX_FALL
            || late < MIN_LATE
            || early > MAX_EARLY
            || tail < MIN_TAIL
        {
            return None;
        }
        // The fitted line may start in the flat part before the growth, so the onset is moved to
        // where the line leaves that level.
        let level = v[0].min(v[1]).max(start);
        let onset = begin + (level - start) / rate;
        let end_of_all = *self.t.last()?;
        Some(Line {
            onset,
            began: onset,
            grown_before: 0.0,
            end: end_of_all,
            level,
            grown: start + rate * (end_of_all - begin) - level,
            rate,
            misfit,
            given_back,
            bend: late / early.max(f64::MIN_POSITIVE),
            blocks,
        })
    }
}

/// The lowest sample of each of `blocks` time blocks with equal numbers of samples.
pub(crate) fn floors(t: &[f64], y: &[f64], blocks: usize) -> (Vec<f64>, Vec<f64>) {
    let count = y.len();
    (0..blocks)
        .filter_map(|k| {
            let block = k * count / blocks..(k + 1) * count / blocks;
            let lowest = block.min_by(|&a, &b| y[a].total_cmp(&y[b]))?;
            Some((t[lowest], y[lowest]))
        })
        .unzip()
}

/// Median rise from one time block to the next, over `blocks` blocks; a few jumps do not affect the
/// median.
pub(crate) fn typical_rise(series: &Series, from: f64, blocks: usize) -> f64 {
    let (_, levels) = floors_since(series, from, blocks);
    let rises: Vec<f64> = levels.windows(2).map(|w| w[1] - w[0]).collect();
    median(&rises)
}

/// Slope of the memory floor from time `from` on, in bytes per second: the samples are divided into
/// `blocks` time blocks, and a line is fitted to the lowest sample of each.
pub(crate) fn slope_of_floor(series: &Series, from: f64, blocks: usize) -> f64 {
    let (x, v) = floors_since(series, from, blocks);
    theil_sen(&x, &v)
}

fn floors_since(series: &Series, from: f64, blocks: usize) -> (Vec<f64>, Vec<f64>) {
    let first = series.index_at(from);
    floors(&series.t[first..], &series.y[first..], blocks)
}

fn share_of_rises(levels: &[f64]) -> f64 {
    let rises = levels.windows(2).filter(|w| w[1] > w[0]).count();
    rises as f64 / (levels.len().saturating_sub(1)).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn found(level: impl Fn(f64) -> f64) -> Option<Line> {
        let t: Vec<f64> = (0..400).map(|k| f64::from(k) / 10.0).collect();
        let y: Vec<f64> = t.iter().map(|&t| 500.0 * MIB + level(t)).collect();
        find(&Series { t, y }, 24, MIB)
    }

    #[test]
    fn a_straight_line_is_found_with_its_onset() {
        let line = found(|t| MIB * (t - 12.0).max(0.0)).unwrap();
        assert!((line.onset - 12.0).abs() < 0.7, "{line:?}");
        assert!((line.rate / MIB - 1.0).abs() < 0.02, "{line:?}");
        assert!((line.at(39.9) / (527.9 * MIB) - 1.0).abs() < 0.01);
        let first = found(|t| MIB * t).unwrap();
        assert!(first.onset < 0.5, "{first:?}");
    }

    #[test]
    fn growth_that_was_slower_at_first_began_then() {
        let line =
            found(|t| MIB * (0.4 * (t - 6.0).clamp(0.0, 9.0) + (t - 15.0).max(0.0))).unwrap();
        assert!((line.began - 6.0).abs() < 1.5, "{line:?}");
        assert!(line.onset > 8.0, "{line:?}");
        // A constant level or a load before the straight part does not count as growth.
        let loaded = found(|t| {
            if t < 10.0 {
                -40.0 * MIB
            } else {
                MIB * (t - 10.0)
            }
        })
        .unwrap();
        assert!((loaded.began - 10.0).abs() < 1.0, "{loaded:?}");
    }

    #[test]
    fn a_line_of_the_peak_is_followed_back_in_the_level() {
        // Memory falls after a load at 5 s and grows from 8 s on; its peak counter rises only from
        // 28 s on.
        let t: Vec<f64> = (0..400).map(|k| f64::from(k) / 10.0).collect();
        let level = |t: f64| {
            if t < 5.0 {
                320.0
            } else {
                300.0 + (t - 8.0).max(0.0)
            }
        };
        let y: Vec<f64> = t.iter().map(|&t| MIB * level(t)).collect();
        let peak: Vec<f64> = y.iter().map(|y| y.max(320.0 * MIB)).collect();
        let peak = Series {
            t: t.clone(),
            y: peak,
        };
        let line = find(&peak, 12, MIB).unwrap();
        assert!(line.began > 26.0, "{line:?}");
        let here = followed_back(line, &Series { t, y });
        assert!((here.began - 8.0).abs() < 1.5, "{here:?}");
        assert!(
            (here.grown_before - 20.0 * MIB).abs() < 2.0 * MIB,
            "{here:?}"
        );
        assert!((here.onset - line.onset).abs() < 0.01);
    }

    #[test]
    fn growth_below_an_older_level_began_where_it_rose() {
        let t: Vec<f64> = (0..400).map(|k| f64::from(k) / 10.0).collect();
        let levels = |before: f64| -> Series {
            let level = |t: f64| {
                if t < 5.0 {
                    before
                } else {
                    300.0 + (t - 8.0).max(0.0)
                }
            };
            t.iter().map(|&t| (t, MIB * level(t))).collect()
        };
        let (began, grown) = hidden_beginning(&levels(315.0), 23.0, MIB).unwrap();
        assert!((began - 8.0).abs() < 1.5, "{began}");
        assert!((grown - 15.0 * MIB).abs() < 2.0 * MIB, "{grown}");
        // When memory was never higher before the growth, the fitted onset is kept.
        assert_eq!(hidden_beginning(&levels(300.0), 23.0, MIB), None);
    }

    #[test]
    fn steps_on_top_of_the_line_do_not_hide_it() {
        let busy = |t: f64| MIB * t + 40.0 * MIB * f64::from(u8::from((t * 7.3).fract() > 0.35));
        assert!(found(busy).is_some());
    }

    #[test]
    fn what_stops_growing_or_flattens_out_is_none() {
        assert_eq!(found(|t| MIB * t.min(34.0)), None);
        assert_eq!(found(|t| 40.0 * MIB * (1.0 - (-t / 8.0).exp())), None);
        assert_eq!(found(|t| MIB * t.min(20.0)), None);
        assert_eq!(found(|_| 0.0), None);
    }

    #[test]
    fn a_few_large_jumps_are_no_line() {
        assert_eq!(found(|t| 10.0 * MIB * (t / 8.0).floor()), None);
    }

    #[test]
    fn collected_garbage_is_no_line() {
        assert_eq!(found(|t| MIB * (t % 9.0)), None);
        assert_eq!(found(|t| MIB * (t % 26.0)), None);
    }

    #[test]
    fn a_sample_in_the_middle_of_the_shutdown_gives_nothing_back() {
        // At 39.7 s the program frees its memory, of which it still holds most.
        let level = |t: f64| match t {
            ..39.65 => MIB * 2.0 * t,
            39.65..39.75 => MIB * 65.0,
            _ => -100.0 * MIB,
        };
        let t: Vec<f64> = (0..400).map(|k| f64::from(k) / 10.0).collect();
        let y: Vec<f64> = t.iter().map(|&t| 110.0 * MIB + level(t)).collect();
        let line = find(&Series { t, y }, 24, MIB).unwrap();
        assert!((line.end - 39.6).abs() < 0.01, "{line:?}");
        // Growth whose last samples fall, but that was not freed, is no shutdown.
        let y: Vec<f64> = vec![10.0; 38].into_iter().chain([12.0, 11.5]).collect();
        assert_eq!(without_shutdown(&y), 40);
    }

    #[test]
    fn the_shutdown_of_the_program_gives_nothing_back() {
        assert!(found(|t| if t > 39.0 { -400.0 * MIB } else { MIB * t }).is_some());
    }
}
