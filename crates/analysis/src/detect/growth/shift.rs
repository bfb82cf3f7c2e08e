//! Checks whether all samples moved up, or whether samples only missed the floor for a while.
//!
//! A floor is estimated from the few samples on it, so a rise of the floor is checked against all
//! samples in three ways. The first check assumes that the old floor still exists, and computes how
//! unlikely it then is that no step returned to it. The other two check whether the mean and the
//! peaks of the samples rose as well. When the sampling interval happens to match the step length,
//! samples can miss the floor for long, but then they miss the peaks too.

use stormlog_format::whole_count;

use crate::detect::evidence::series::Series;
use crate::stats::highest;

/// One step without a sample on the old floor adds at most this much to the log-odds in favour of a
/// rise.
const MAX_SURPRISE_PER_STEP: f64 = 3.0;
/// The weight that [`stays_away`] gives to the overall share of steps without a sample on the old
/// floor, as a number of steps.
const KNOWN_STEPS: f64 = 4.0;
/// Maximum log-odds that the mean and the peaks of the samples can each add in favour of a rise.
const MAX_MOVED: f64 = 3.0;
/// Maximum log-odds that missing samples on the old floor can add in favour of a rise. When the
/// sampling misses the floor, it misses the floor of all steps alike, so more steps without such a
/// sample prove nothing more.
const MAX_ABSENCE: f64 = 25.0;
/// Number of time blocks used to estimate the uncertainty of the mean and of the peaks.
const BLOCKS: usize = 8;

/// A rise of the memory floor, with the times and levels needed to check it against the samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rise {
    /// Start of the time that is examined, in seconds; samples before it are ignored.
    pub(crate) from: f64,
    /// End of the part before the rise, in seconds; samples before this time may lie below `line`.
    pub(crate) until: f64,
    /// Start of the part after the rise, in seconds; samples from this time on should not lie below
    /// `line`.
    pub(crate) split: f64,
    /// A memory level between the old and the new floor, in bytes, that separates the samples on
    /// the old floor from those on the new one.
    pub(crate) line: f64,
    /// How far the mean of the samples should have moved from before the rise to after it, in
    /// bytes.
    pub(crate) shift: f64,
    /// Number of samples per training step.
    pub(crate) period: f64,
}

/// Log-odds of a rise according to the samples: positive values support the rise, negative values
/// contradict it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Support {
    /// Log-odds from how rarely samples after the rise still reach down to the old floor.
    pub(crate) absence: f64,
    /// Log-odds from how far the mean of the samples moved up.
    pub(crate) mean: f64,
    /// Log-odds from how far the peaks of the samples moved up.
    pub(crate) peaks: f64,
}

impl Support {
    /// The sum of the three log-odds, each with an upper limit. Evaluations and batch sizes also
    /// move the mean and the peaks. The mean and the peaks may therefore contradict a rise
    /// strongly, but add only a little in its favour.
    pub(crate) fn odds(&self) -> f64 {
        self.absence.min(MAX_ABSENCE) + self.mean.min(MAX_MOVED) + self.peaks.min(MAX_MOVED)
    }
}

/// Computes the log-odds by which the samples of `series` support or contradict that their floor
/// rose as described by `rise`.
pub(crate) fn support(series: &Series, rise: &Rise) -> Support {
    let first = series.index_at(rise.from);
    let until = series.index_at(rise.until).max(first);
    let split = series.index_at(rise.split).max(until);
    let (before, after) = (&series.y[first..until], &series.y[split..]);
    if before.is_empty() || after.is_empty() {
        return Support {
            absence: 0.0,
            mean: 0.0,
            peaks: 0.0,
        };
    }
    Support {
        absence: absence(before, after, rise),
        mean: moved_along(before, after, rise.shift, mean),
        peaks: moved_along(before, after, rise.shift, highest),
    }
}

/// Compares two explanations for missing samples on the old floor: the floor rose, or the samples
/// missed it by chance. Returns their log-likelihood ratio; a high value favours the rise.
///
/// If the old floor still existed, samples would lie on it as often as before. Sampling at an
/// interval that matches the step length misses the floor in many steps in a row. A step that
/// misses the floor is therefore less surprising after another step that missed it.
fn absence(before: &[f64], after: &[f64], rise: &Rise) -> f64 {
    let visits = |samples: &[f64]| visits(samples, rise.line, rise.period.max(1.0));
    let (before, after) = (visits(before), visits(after));
    let expected = share_of(&before).min(1.0 - (-MAX_SURPRISE_PER_STEP).exp());
    let seen = share_of(&after);
    if seen >= expected {
        return 0.0;
    }
    let stays_away = stays_away(&before, 1.0 - expected);
    let mut was_away = false;
    let old = after.iter().map(|&visit| {
        let chance = if was_away { stays_away } else { 1.0 - expected };
        was_away = !visit;
        if visit { 1.0 - chance } else { chance }.ln()
    });
    let old: f64 = old.sum();
    let new = after
        .iter()
        .map(|&visit| if visit { seen } else { 1.0 - seen }.ln());
    let new: f64 = new.sum();
    (new - old).max(0.0)
}

/// For each step, whether it visits the old floor: whether one of its samples lies below `line`. A
/// step need not last a whole number of samples.
fn visits(samples: &[f64], line: f64, period: f64) -> Vec<bool> {
    let mut visits = vec![false; whole_count((samples.len() as f64 / period).ceil())];
    let last = visits.len() - 1;
    for (i, _) in samples.iter().enumerate().filter(|(_, y)| **y < line) {
        visits[whole_count(i as f64 / period).min(last)] = true;
    }
    visits
}

fn share_of(visits: &[bool]) -> f64 {
    visits.iter().filter(|&&visit| visit).count() as f64 / visits.len().max(1) as f64
}

/// The probability that a step does not visit the old floor when the step before did not either.
/// Few such steps are weak evidence, so `overall`, the share of steps that do not visit the old
/// floor, is averaged in with the weight of [`KNOWN_STEPS`] steps.
fn stays_away(visits: &[bool], overall: f64) -> f64 {
    let after_away = visits.windows(2).filter(|pair| !pair[0]).count() as f64;
    let twice_away = visits
        .windows(2)
        .filter(|pair| !pair[0] && !pair[1])
        .count() as f64;
    ((twice_away + KNOWN_STEPS * overall) / (after_away + KNOWN_STEPS)).max(overall)
}

/// Log-odds that a figure of the samples, such as the mean, moved by `shift` and not by zero. The
/// uncertainty of the figure is estimated from its scatter between time blocks.
fn moved_along(before: &[f64], after: &[f64], shift: f64, figure: fn(&[f64]) -> f64) -> f64 {
    let size = (before.len().min(after.len()) / BLOCKS).max(1);
    let blocks = |samples: &[f64]| samples.chunks_exact(size).map(figure).collect::<Vec<_>>();
    let (before, after) = (blocks(before), blocks(after));
    let variance = (variance_of_mean(&before) + variance_of_mean(&after))
        .max((0.02 * shift).powi(2))
        .max(1.0);
    let moved = mean(&after) - mean(&before);
    (moved.powi(2) - (moved - shift).powi(2)) / (2.0 * variance)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance_of_mean(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    let count = values.len() as f64;
    squares / (count - 1.0).max(1.0) / count.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(y: impl Fn(u32) -> f64) -> Series {
        Series {
            t: (0..200).map(f64::from).collect(),
            y: (0..200).map(y).collect(),
        }
    }

    /// A signal in which every fifth sample lies on the floor; the others lie up to 100 above it.
    fn sampled(k: u32) -> f64 {
        if k.is_multiple_of(5) {
            0.0
        } else {
            f64::from(k * 37 % 100)
        }
    }

    const RISE: Rise = Rise {
        from: 0.0,
        until: 100.0,
        split: 100.0,
        line: 15.0,
        shift: 30.0,
        period: 3.0,
    };

    #[test]
    fn backs_a_rise_of_all_samples() {
        let risen = series(|k| sampled(k) + if k < 100 { 0.0 } else { 30.0 });
        let support = support(&risen, &RISE);
        assert!(
            support.absence > 10.0 && support.mean > 0.0 && support.peaks > 0.0,
            "{support:?}"
        );
        assert!(support.odds() > 14.0);
    }

    #[test]
    fn contradicts_a_floor_that_only_hides() {
        let hidden = series(|k| {
            if k < 100 {
                sampled(k)
            } else {
                f64::from(30 + k * 37 % 40)
            }
        });
        let support = support(&hidden, &RISE);
        assert!(support.absence > 10.0 && support.peaks < 0.0, "{support:?}");
        assert!(support.odds() < 5.0, "{support:?}");
    }

    #[test]
    fn a_floor_that_was_hidden_for_long_before_may_be_again() {
        // The sampling interval nearly matches the step length: 24 samples lie on the floor, the
        // next 24 do not, and so on.
        let in_rhythm = |k: u32| {
            if k % 48 < 24 {
                sampled(k)
            } else {
                f64::from(30 + k % 40)
            }
        };
        let at_random = |k: u32| {
            if (k * 7919) % 101 < 50 {
                sampled(k)
            } else {
                f64::from(30 + k % 40)
            }
        };
        let odds = |y: &dyn Fn(u32) -> f64| {
            let risen = series(|k| {
                if k < 120 {
                    y(k)
                } else {
                    f64::from(30 + k % 40)
                }
            });
            let rise = Rise {
                until: 120.0,
                split: 120.0,
                ..RISE
            };
            support(&risen, &rise).absence
        };
        assert!(odds(&in_rhythm) < 0.6 * odds(&at_random));
    }

    #[test]
    fn says_nothing_of_no_samples() {
        assert!(support(&Series::default(), &RISE).odds().abs() < 1e-9);
    }
}
