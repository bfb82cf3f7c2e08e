//! How regularly a track was sampled: the usual interval, late samples and sampling gaps.

use super::track::Track;

/// A sample is late when it comes more than this many sampling intervals after the previous one.
const LATE_INTERVALS: i64 = 2;
/// A pause between two samples is a sampling gap only if it is longer than this many median
/// sampling intervals.
const GAP_MEDIANS: i64 = 10;
/// A sampling gap must also be longer than this multiple of the intervals' 95th percentile, so that
/// a recorder that samples only when memory changes has no gaps.
const GAP_USUAL: i64 = 4;
/// A sampling gap must also be longer than this many sampling intervals declared by the recorder.
const GAP_DECLARED: i64 = 5;
/// Minimum number of samples needed to detect sampling gaps.
const MIN_SAMPLES: usize = 3;

/// How regularly a track was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// The median time between samples in nanoseconds; `None` with fewer than two samples.
    pub interval_ns: Option<i64>,
    /// Number of samples that came more than two sampling intervals after the previous one.
    pub late: usize,
    /// Two samples farther apart than this many nanoseconds have a sampling gap between them.
    pub gap_ns: i64,
    /// The sampling gaps, each as the times of the samples before and after it, in nanoseconds.
    pub gaps: Vec<(i64, i64)>,
}

impl Track {
    /// Computes how regularly the track was sampled. Samples in the thinned part are far apart on
    /// purpose and do not count as late.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let sorted: Vec<i64>;
        let times = if self.t_ns.is_sorted() {
            &self.t_ns
        } else {
            let mut times = self.t_ns.clone();
            times.sort_unstable();
            sorted = times;
            &sorted
        };
        let thinned = self.thinned_until_ns;
        let from = thinned.map_or(0, |until| times.partition_point(|&at| at <= until));
        let pairs = times[from..].windows(2);
        let mut steps: Vec<i64> = pairs.map(|w| w[1].saturating_sub(w[0])).collect();
        let interval_ns = quantile(&mut steps, 50);
        let usual = quantile(&mut steps, 95);
        let gap_ns = match (interval_ns, usual) {
            (Some(median), Some(usual)) if steps.len() + 1 >= MIN_SAMPLES => median
                .saturating_mul(GAP_MEDIANS)
                .max(usual.saturating_mul(GAP_USUAL))
                .max(self.declared_interval_ns.saturating_mul(GAP_DECLARED))
                .max(1),
            _ => i64::MAX,
        };
        let late_ns = interval_ns.map_or(0, |median| median.saturating_mul(LATE_INTERVALS));
        let is_late = |step: &&i64| late_ns > 0 && **step > late_ns;
        let wide = times[from..].windows(2);
        let wide = wide.filter(|pair| pair[1].saturating_sub(pair[0]) > gap_ns);
        Sampling {
            interval_ns,
            late: steps.iter().filter(is_late).count(),
            gap_ns,
            gaps: wide.map(|pair| (pair[0], pair[1])).collect(),
        }
    }
}

fn quantile(steps: &mut [i64], percent: usize) -> Option<i64> {
    let last = steps.len().checked_sub(1)?;
    let index = (last * percent).div_ceil(100).min(last);
    Some(*steps.select_nth_unstable(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at_seconds(seconds: impl Iterator<Item = i64>) -> Track {
        Track {
            t_ns: seconds.map(|second| second * SECOND).collect(),
            ..Track::default()
        }
    }

    /// A track that is sparse until 10,000 s, then has one sample per second with one sampling gap.
    fn thinned(until_s: Option<i64>) -> Sampling {
        let sparse = (0..100).map(|number| number * 100);
        let complete = (10_000..10_200).filter(|second| !(10_050..10_090).contains(second));
        let track = at_seconds(sparse.chain(complete));
        Track {
            thinned_until_ns: until_s.map(|until| until * SECOND),
            ..track
        }
        .sampling()
    }

    #[test]
    fn thinned_samples_are_no_gap() {
        let sampling = thinned(Some(9_999));
        assert_eq!(sampling.gaps, [(10_049 * SECOND, 10_090 * SECOND)]);
        assert_eq!((sampling.late, sampling.interval_ns), (1, Some(SECOND)));
        // When the end of the thinned part is unknown, its sparse samples count as late.
        assert_eq!(thinned(None).late, 101);
    }

    #[test]
    fn sampling_on_change_has_no_gaps() {
        let bursts = (0..40).flat_map(|burst| [burst * 60, burst * 60 + 1, burst * 60 + 2]);
        let sampling = at_seconds(bursts).sampling();
        assert_eq!(sampling.gaps, []);
        assert_eq!(at_seconds(0..2).sampling().gap_ns, i64::MAX);
    }

    #[test]
    fn the_announced_interval_counts() {
        let quick = at_seconds((0..50).chain([60]).chain(61..90));
        assert_eq!(quick.sampling().gaps, [(49 * SECOND, 60 * SECOND)]);
        let announced = Track {
            declared_interval_ns: 10 * SECOND,
            ..quick
        };
        assert_eq!(announced.sampling().gaps, []);
    }
}
