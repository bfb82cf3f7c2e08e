//! Did all samples move up, or was the floor merely not seen for a while?
//!
//! A floor is followed through the few samples that happen to lie on it, so that its rise needs a
//! second opinion from all the others. There are three: how unlikely it is that no step came down to
//! the old floor any more if it was still there, and whether the mean and the peaks moved along.
//! Steps that fall into rhythm with the sampling hide the floor for long, but then they hide the
//! peaks as well.

use super::series::Series;

/// A step that always shows its floor still says no more than this about a floor not seen.
const MAX_SURPRISE_PER_STEP: f64 = 3.0;
/// Steps whose word the share of all steps without a visit counts for.
const KNOWN_STEPS: f64 = 4.0;
/// What mean and peaks may add each.
const MAX_MOVED: f64 = 3.0;
/// What the missing visits may add: a floor that is hidden by the rhythm of the sampling is missed
/// by all steps alike, so that their number proves nothing beyond this.
const MAX_ABSENCE: f64 = 25.0;
/// Blocks whose means give the uncertainty of the mean.
const BLOCKS: usize = 8;

/// A rise of the floor as it would show in single samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rise {
    /// Samples before this are not looked at.
    pub(super) from: f64,
    /// Samples up to here may come down below `line`,
    pub(super) until: f64,
    /// samples from here on should not.
    pub(super) split: f64,
    /// Level between the old floor and the new.
    pub(super) line: f64,
    /// How far the mean should have moved between the two sides.
    pub(super) shift: f64,
    /// Samples per step.
    pub(super) period: f64,
}

/// What the samples say of a rise, as log-odds: above zero for it, below against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Support {
    /// From visits to the old floor that no longer happen.
    pub(super) absence: f64,
    /// From the mean.
    pub(super) mean: f64,
    /// From the peaks.
    pub(super) peaks: f64,
}

impl Support {
    /// All three together. Mean and peaks also move with evaluations and batches, so that they may
    /// contradict a rise but not make one.
    pub(super) fn odds(&self) -> f64 {
        self.absence.min(MAX_ABSENCE) + self.mean.min(MAX_MOVED) + self.peaks.min(MAX_MOVED)
    }
}

/// Asks the samples about a rise.
pub(super) fn support(series: &Series, rise: &Rise) -> Support {
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

/// How surprising the missing visits to the old floor are: a log-likelihood ratio.
///
/// Were the floor still there, steps would come down to it as before. Steps and samples that fall
/// into rhythm stay away from it for many steps on end, so that how long they stayed away before
/// counts, not only how often.
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
        let away = if was_away { stays_away } else { 1.0 - expected };
        was_away = !visit;
        if visit { 1.0 - away } else { away }.ln()
    });
    let old: f64 = old.sum();
    let new = after
        .iter()
        .map(|&visit| if visit { seen } else { 1.0 - seen }.ln());
    let new: f64 = new.sum();
    (new - old).max(0.0)
}

/// Whether each step comes down below a line. Steps need not be whole samples long.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts of samples"
)]
fn visits(samples: &[f64], line: f64, period: f64) -> Vec<bool> {
    let mut visits = vec![false; (samples.len() as f64 / period).ceil() as usize];
    let last = visits.len() - 1;
    for (i, _) in samples.iter().enumerate().filter(|(_, y)| **y < line) {
        visits[((i as f64 / period) as usize).min(last)] = true;
    }
    visits
}

#[allow(clippy::cast_precision_loss, reason = "counts of steps")]
fn share_of(visits: &[bool]) -> f64 {
    visits.iter().filter(|&&visit| visit).count() as f64 / visits.len().max(1) as f64
}

/// How likely a step that follows one without a visit has none either. Few such steps say little, so
/// that the share of all steps without a visit counts as [`KNOWN_STEPS`] more of them.
#[allow(clippy::cast_precision_loss, reason = "counts of steps")]
fn stays_away(visits: &[bool], away: f64) -> f64 {
    let after_away = visits.windows(2).filter(|pair| !pair[0]).count() as f64;
    let twice_away = visits
        .windows(2)
        .filter(|pair| !pair[0] && !pair[1])
        .count() as f64;
    ((twice_away + KNOWN_STEPS * away) / (after_away + KNOWN_STEPS)).max(away)
}

/// Whether a figure moved by `shift` rather than not at all, in units of its own uncertainty as its
/// scatter from block to block shows it.
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

#[allow(clippy::cast_precision_loss, reason = "counts of samples")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[allow(clippy::cast_precision_loss, reason = "counts of blocks")]
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

    /// Visits the floor every fifth sample, and is anywhere up to 100 above it otherwise.
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
        // Steps and samples in rhythm: the floor shows for 24 samples, hides for 24, and so on.
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
