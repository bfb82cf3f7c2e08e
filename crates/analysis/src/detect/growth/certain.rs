//! Finds certain growth of one channel of a track. The growth may be a small share of the device.
//!
//! For a track whose steps were recorded, only the samples at step ends are used. They are exact:
//! all are taken at the same point of a step. For a track without recorded steps, samples fall
//! anywhere into steps. Its growth is certain in two cases. In the first case, the lowest samples
//! rise along a line. In the second case, the allocator's peak counter rises along a line, and the
//! lowest samples either rise at a similar rate or are too coarse to show growth this small.

use super::straight::{self, Line};
use super::{Growth, Strength};
use crate::detect::cause::windows;
use crate::detect::evidence::Channel;
use crate::detect::evidence::series::Series;
use crate::detect::evidence::signals::Signals;
use crate::stats::{median, quantile};
use crate::timeline::End;

/// Number of time blocks in which growth is checked; memory must rise in nearly every block. For
/// samples at step ends, which are exact, any of the numbers in `FEWER_BLOCKS` is enough.
const BLOCKS: usize = 24;
const FEWER_BLOCKS: [usize; 3] = [BLOCKS, 12, 8];
/// Growth counts as strong only if it was confirmed in at least this many time blocks. Strong means
/// that it can hardly be anything but a leak.
const MANY_BLOCKS: usize = 12;
/// Smallest certain growth that is reported, in bytes. 4 MiB are two of the 2 MiB blocks in which
/// the allocator reserves memory.
const LEAST: f64 = 4.0 * 1_048_576.0;
/// The slope of the lowest samples and the slope of the peak counter agree when their ratio lies
/// between these two numbers.
const MIN_AGREEMENT: f64 = 0.4;
const MAX_AGREEMENT: f64 = 2.5;
/// Limits for growth of the peak counter that samples are too coarse to confirm. `MAX_CREEP` limits
/// the growth, as a share of a step's amplitude (peak minus lowest samples). `MAX_CREEP_MISFIT`
/// limits the distance of the peak counter from a straight line, as a share of the growth.
const MAX_CREEP: f64 = 0.1;
const MAX_CREEP_MISFIT: f64 = 0.08;
/// Largest ratio between the growth of the peak memory of steps and the growth of the memory held
/// between steps. A higher ratio means that the batches of the program grow, and that the memory
/// held between steps grows because of them.
const MAX_NEED: f64 = 2.5;
/// When the growth rate at the end is below this share of the rate at the beginning, the growth may
/// be flattening out.
const MIN_BEND: f64 = 0.7;
/// Before growth begins, memory counts as constant when it changes slower than `STILL` times the
/// rate of that growth. Allocated memory within `NEXT_TO_NOTHING` bytes of the peak counter counts
/// as being at the peak.
const STILL: f64 = 0.2;
const NEXT_TO_NOTHING: f64 = 65_536.0;
/// Growth during which no step was counted may come from loading a model or data when it begins
/// within this first share of the track.
const LOAD_SHARE: f64 = 0.1;
/// Growth over more than this many seconds does not come from loading. The exception is a program
/// that ended by itself without an error: it may have collected results for all of its run.
const LONGEST_LOAD_S: f64 = 1800.0;

/// Finds certain growth of a channel, even growth that is a small share of the device. `end` is how
/// the process ended.
pub(crate) fn find(signals: &Signals, channel: Channel, end: &End) -> Option<Growth> {
    let (series, _) = signals.channel(channel);
    let is_stepped = channel == Channel::Allocated && signals.is_stepped;
    let line = if is_stepped {
        let over_steps = over_steps(signals, series);
        FEWER_BLOCKS.into_iter().find_map(|blocks| {
            let over_steps = over_steps.as_ref();
            over_steps
                .and_then(|over_steps| by_steps(over_steps, series, blocks))
                .or_else(|| straight::find(series, blocks, LEAST))
        })
    } else {
        straight::find(series, BLOCKS, LEAST)
    };
    let line = match channel {
        Channel::Allocated => line
            .filter(|line| !is_of_batches(signals, line.onset, line.rate))
            .or_else(|| line_of_peak(signals)),
        Channel::Hidden => line,
    }?;
    let strength = strength(signals, &line, is_stepped, end);
    Some(Growth::straight(&line, strength, signals.end))
}

/// The values of a series over the step numbers instead of the times of its samples; `None` unless
/// the step numbers are known and rise from sample to sample.
fn over_steps(signals: &Signals, series: &Series) -> Option<Series> {
    let counts = &signals.step_count;
    let mut after = 0;
    let step_at = |t: &f64| {
        while counts.t.get(after).is_some_and(|at| at <= t) {
            after += 1;
        }
        counts.y.get(after.checked_sub(1)?).copied()
    };
    let steps: Vec<f64> = series.t.iter().map(step_at).collect::<Option<_>>()?;
    let rises = steps.windows(2).all(|pair| pair[1] > pair[0]);
    rises.then(|| Series {
        t: steps,
        y: series.y.clone(),
    })
}

/// Fits a straight line to memory over step numbers instead of seconds. A leak that slows its
/// program down, such as a growing autograd graph, adds the same amount in every step but less and
/// less per second.
fn by_steps(over_steps: &Series, series: &Series, blocks: usize) -> Option<Line> {
    let line = straight::find(over_steps, blocks, LEAST)?;
    let at = |step: f64| {
        let index = over_steps.index_at(step);
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

/// Whether growth of the memory held between steps is explained by batches that grow. It is not
/// where evidence windows have shown which blocks survive the steps.
pub(crate) fn is_of_batches(signals: &Signals, from: f64, rate: f64) -> bool {
    let evidence = signals.track.evidence.as_ref();
    evidence.and_then(windows::cause_of).is_none() && needs_grow(signals, from, rate)
}

/// Whether the memory that steps need grows much faster than the memory held between steps. The
/// memory that steps need grows when batches grow, for example with longer and longer sequences.
fn needs_grow(signals: &Signals, from: f64, rate: f64) -> bool {
    let held = rate * (signals.end - from) / MANY_BLOCKS as f64;
    let rise = |series: &Series| straight::typical_rise(series, from, MANY_BLOCKS);
    let times = signals.allocated.t.iter().copied();
    let reserved: Series = times
        .zip(signals.reserved.iter().copied())
        .filter(|(_, bytes)| bytes.is_finite())
        .collect();
    // The allocator reserves memory in large pieces, so reserved memory is constant in many time
    // blocks. The larger rise is therefore used: that of reserved memory or of the peak counter.
    let needed = rise(&reserved).max(rise(&signals.peak));
    held > 0.0 && needed > MAX_NEED * held
}

/// Finds a straight line in the allocator's peak counter, when the lowest samples rise at a similar
/// rate. The peak counter covers every step, so it shows a small leak long before the samples do.
fn line_of_peak(signals: &Signals) -> Option<Line> {
    let line = straight::find(&signals.peak, BLOCKS, LEAST)?;
    let (series, _) = signals.channel(Channel::Allocated);
    let slopes = [8, 12, 16].map(|blocks| straight::slope_of_floor(series, line.onset, blocks));
    let agreement = median(&slopes) / line.rate;
    let agrees = (MIN_AGREEMENT..=MAX_AGREEMENT).contains(&agreement);
    if agrees {
        return Some(straight::followed_back(line, series));
    }
    is_creep(signals, &line).then_some(line)
}

/// Whether the peak counter rises so evenly, and by so small a share of the step's amplitude, that
/// samples cannot confirm its growth. The peak of a program whose batches grow rises less evenly.
fn is_creep(signals: &Signals, line: &Line) -> bool {
    let (series, _) = signals.channel(Channel::Allocated);
    let first = series.index_at(line.onset);
    let low = quantile(&series.y[first..], 0.05);
    let amplitude = line.level - low;
    let is_even =
        line.misfit <= MAX_CREEP_MISFIT && (MIN_BEND..=1.0 / MIN_BEND).contains(&line.bend);
    is_even && line.grown <= MAX_CREEP * amplitude
}

/// Whether growth may come from loading a model or data. No step was counted during such growth, it
/// did not take longer than `LONGEST_LOAD_S`, and one more sign is needed: it started early, or
/// memory was never constant before it, or nothing was freed during it.
pub(crate) fn may_be_load(signals: &Signals, onset: f64, rate: f64, end: &End) -> bool {
    let is_too_long = signals.end - onset > LONGEST_LOAD_S && !end.is_normal();
    if is_too_long || signals.steps_since(onset).is_some() {
        return false;
    }
    onset < LOAD_SHARE * signals.end
        || !has_settled_before(signals, onset, rate)
        || frees_nothing(signals, onset)
}

/// Whether allocated memory was nearly constant for a while before time `onset`: between at least
/// two neighbouring time blocks, its floor changed by at most the share `STILL` of what growth at
/// `rate` adds.
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

/// Whether allocated memory was at its highest value so far in nearly every sample from `onset` on.
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

fn strength(signals: &Signals, line: &Line, is_stepped: bool, end: &End) -> Strength {
    let may_be_load = !is_stepped && may_be_load(signals, line.onset, line.rate, end);
    if line.blocks < MANY_BLOCKS || line.bend < MIN_BEND || may_be_load {
        Strength::Weak
    } else {
        Strength::Strong
    }
}
