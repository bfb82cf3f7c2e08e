//! Finds certain growth of one channel of a track, even when it is a small share of the device.
//!
//! For a track sampled at step ends, these samples are used. For other tracks, samples fall
//! anywhere into steps. For these tracks, either the lowest samples must rise along a line, or the
//! allocator's peak counter must and the lowest samples must agree with it.

use super::evidence::Channel;
use super::growth::{Growth, Strength};
use super::series::Series;
use super::signals::Signals;
use super::stats::{median, quantile};
use super::straight::{self, Line};

/// Number of blocks that growth is checked in; nearly every block must rise. Fewer blocks are
/// enough for samples at step ends, which are exact.
const BLOCKS: usize = 24;
const FEWER_BLOCKS: [usize; 3] = [BLOCKS, 12, 8];
/// Growth seen in at least this many blocks can be strong.
const MANY_BLOCKS: usize = 12;
/// Smallest growth reported, in bytes. The allocator reserves blocks of 2 MiB.
const LEAST: f64 = 4.0 * 1_048_576.0;
/// Range of ratios between the floor's slope and the peak's slope at which the two agree.
const MIN_AGREEMENT: f64 = 0.4;
const MAX_AGREEMENT: f64 = 2.5;
/// Growth of the peak that samples cannot confirm: its largest size as a share of the step's
/// amplitude, and its largest distance from the line as a share of the growth.
const MAX_CREEP: f64 = 0.1;
const MAX_CREEP_MISFIT: f64 = 0.08;
/// Largest ratio between the growth of the peak memory of steps and the growth of the memory held
/// between steps. Beyond this ratio, the batches grow, and memory held between steps grows with
/// them.
const MAX_NEED: f64 = 2.5;
/// When the rate at the end is a smaller share of the rate at the beginning, growth may be
/// flattening out.
const MIN_BEND: f64 = 0.7;
/// Changes slower than `STILL` times the growth rate count as constant. A level within
/// `NEXT_TO_NOTHING` bytes of its peak counts as being at the peak.
const STILL: f64 = 0.2;
const NEXT_TO_NOTHING: f64 = 65_536.0;
/// Growth during which no step was counted may be a load when it begins in this first share of the
/// track.
const LOAD_SHARE: f64 = 0.1;

/// Finds the certain growth of a channel.
pub(super) fn find(signals: &Signals, channel: Channel) -> Option<Growth> {
    let (series, _) = signals.channel(channel);
    let is_stepped = channel == Channel::Allocated && signals.is_stepped;
    let line = if is_stepped {
        FEWER_BLOCKS.into_iter().find_map(|blocks| {
            by_steps(signals, series, blocks)
                .or_else(|| straight::find(&series.t, &series.y, blocks, LEAST))
        })
    } else {
        straight::find(&series.t, &series.y, BLOCKS, LEAST)
    };
    let line = match channel {
        Channel::Allocated => line
            .filter(|line| !needs_grow(signals, line.onset, line.rate))
            .or_else(|| line_of_peak(signals)),
        Channel::Hidden => line,
    }?;
    let strength = strength(signals, &line, is_stepped);
    Some(Growth::straight(&line, strength, signals.end))
}

/// Fits a line over step numbers instead of seconds. A leak that slows its program down, such as a
/// growing graph, adds the same amount in every step but less and less per second.
fn by_steps(signals: &Signals, series: &Series, blocks: usize) -> Option<Line> {
    let counts = &signals.step_count;
    let step_at = |t: f64| {
        let after = counts.t.partition_point(|&at| at <= t);
        counts.y.get(after.checked_sub(1)?).copied()
    };
    let pairs = series.t.iter().zip(&series.y);
    let known: Vec<(f64, f64)> = pairs
        .filter_map(|(&t, &y)| Some((step_at(t)?, y)))
        .collect();
    let (steps, levels): (Vec<f64>, Vec<f64>) = known.into_iter().unzip();
    if steps.len() != series.t.len() || steps.windows(2).any(|pair| pair[1] <= pair[0]) {
        return None;
    }
    let line = straight::find(&steps, &levels, blocks, LEAST)?;
    let at = |step: f64| {
        let index = steps.partition_point(|&one| one < step);
        series.t.get(index.min(series.t.len() - 1)).copied()
    };
    let (began, onset, end) = (at(line.began)?, at(line.onset)?, at(line.end)?);
    (end > onset).then(|| Line {
        began,
        onset,
        end,
        rate: line.grown / (end - onset),
        ..line
    })
}

/// Whether the memory that steps need grows much faster than the memory held between them. This
/// happens when batches grow, for example with longer and longer sequences.
pub(super) fn needs_grow(signals: &Signals, from: f64, rate: f64) -> bool {
    let held = rate * (signals.end - from) / MANY_BLOCKS as f64;
    let rise = |t: &[f64], y: &[f64]| straight::typical_rise(t, y, from, MANY_BLOCKS);
    let known: Vec<(f64, f64)> = signals
        .allocated
        .t
        .iter()
        .copied()
        .zip(signals.reserved.iter().copied())
        .filter(|(_, bytes)| bytes.is_finite())
        .collect();
    let (t, reserved): (Vec<f64>, Vec<f64>) = known.into_iter().unzip();
    // The cache grows by whole segments, so many blocks do not show its growth.
    let needed = rise(&t, &reserved).max(rise(&signals.peak.t, &signals.peak.y));
    held > 0.0 && needed > MAX_NEED * held
}

/// A line in the peak counter, when the lowest samples rise at a similar rate. The counter sees
/// every step, so it shows a small leak long before the samples do.
fn line_of_peak(signals: &Signals) -> Option<Line> {
    let line = straight::find(&signals.peak.t, &signals.peak.y, BLOCKS, LEAST)?;
    let (series, _) = signals.channel(Channel::Allocated);
    let slopes = [8, 12, 16]
        .map(|blocks| straight::slope_of_floor(&series.t, &series.y, line.onset, blocks));
    let agreement = median(&slopes) / line.rate;
    let agrees = (MIN_AGREEMENT..=MAX_AGREEMENT).contains(&agreement);
    if agrees {
        return Some(straight::followed_back(line, &series.t, &series.y));
    }
    is_creep(signals, &line).then_some(line)
}

/// Whether the peak rises so evenly, and by so small a share of the step's amplitude, that samples
/// cannot confirm it. Growing batches do not look like this.
fn is_creep(signals: &Signals, line: &Line) -> bool {
    let (series, _) = signals.channel(Channel::Allocated);
    let first = series.index_at(line.onset);
    let low = quantile(&series.y[first..], 0.05);
    let amplitude = line.level - low;
    let is_even =
        line.misfit <= MAX_CREEP_MISFIT && (MIN_BEND..=1.0 / MIN_BEND).contains(&line.bend);
    is_even && line.grown <= MAX_CREEP * amplitude
}

/// Whether growth may be a load: no step was counted during it, and it started early, or memory was
/// never constant before it, or nothing was freed during it.
pub(super) fn may_be_load(signals: &Signals, onset: f64, rate: f64) -> bool {
    if signals.steps_since(onset).is_some() {
        return false;
    }
    onset < LOAD_SHARE * signals.end
        || !has_settled_before(signals, onset, rate)
        || frees_nothing(signals, onset)
}

/// Whether the level was constant for a while before `onset`.
fn has_settled_before(signals: &Signals, onset: f64, rate: f64) -> bool {
    let (series, _) = signals.channel(Channel::Allocated);
    let before = series.index_at(onset);
    let (t, y) = (&series.t[..before], &series.y[..before]);
    let (times, levels) = straight::floors(t, y, BLOCKS.min(before / 2));
    let pairs = times.windows(2).zip(levels.windows(2));
    pairs
        .into_iter()
        .any(|(t, level)| (level[1] - level[0]).abs() <= STILL * rate * (t[1] - t[0]))
}

/// Whether the level was at its peak in nearly every sample from `onset` on.
fn frees_nothing(signals: &Signals, onset: f64) -> bool {
    let series = &signals.allocated;
    let first = series.index_at(onset);
    let mut peaks = signals.peak.t.iter().zip(&signals.peak.y).peekable();
    let (mut seen, mut at_peak) = (0_usize, 0_usize);
    for (&t, &level) in series.t.iter().zip(&series.y).skip(first) {
        while peaks.next_if(|(at, _)| **at < t).is_some() {}
        if let Some((_, &peak)) = peaks.next_if(|(at, _)| **at <= t) {
            seen += 1;
            at_peak += usize::from(peak - level <= NEXT_TO_NOTHING);
        }
    }
    seen > 0 && at_peak >= seen - seen / 10
}

fn strength(signals: &Signals, line: &Line, is_stepped: bool) -> Strength {
    let may_be_load = !is_stepped && may_be_load(signals, line.onset, line.rate);
    if line.blocks < MANY_BLOCKS || line.bend < MIN_BEND || may_be_load {
        Strength::Weak
    } else {
        Strength::Strong
    }
}
