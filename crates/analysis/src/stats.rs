//! Order statistics and robust fits on small slices. An empty slice is allowed: the result is then
//! zero or an empty list, because the callers decide whether there is enough data.

use std::ops::Range;

use stormlog_format::whole_count;

/// Maximum number of points that [`theil_sen`] compares in pairs. When there are more points,
/// [`theil_sen`] uses every k-th point, with the smallest k that leaves at most this many.
const MAX_SLOPE_POINTS: usize = 40;

/// The quantile `q` of `values`: the member of the sorted values whose index is nearest to `q`
/// times the last index.
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut copy = values.to_vec();
    let last = copy.len() - 1;
    let index = whole_count((last as f64 * q.clamp(0.0, 1.0)).round()).min(last);
    *copy.select_nth_unstable_by(index, f64::total_cmp).1
}

/// The median: the middle value, or the mean of the two middle values when the count is even.
pub fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut copy = values.to_vec();
    let mid = copy.len() / 2;
    let even = copy.len().is_multiple_of(2);
    let (below, &mut upper, _) = copy.select_nth_unstable_by(mid, f64::total_cmp);
    if !even {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lower.midpoint(upper)
}

/// The highest of the values; minus infinity when there are none.
pub(crate) fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The median absolute deviation, scaled so that it equals the standard deviation for normally
/// distributed values.
pub(crate) fn robust_sigma(values: &[f64]) -> f64 {
    let centre = median(values);
    let deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    1.4826 * median(&deviations)
}

/// Scatter of a sequence without its trend, measured by how far each value lies from the mean of
/// its two neighbours.
pub(crate) fn bend_scatter(values: &[f64]) -> f64 {
    let bends: Vec<f64> = values
        .windows(3)
        .map(|w| w[1] - w[0].midpoint(w[2]))
        .collect();
    // For independent values, the distance from the mean of two neighbours has 1.5 times the
    // variance of a single value.
    robust_sigma(&bends) / 1.5_f64.sqrt()
}

/// The weighted median: the value below which half of the total weight lies. The weighted median
/// minimizes the weighted sum of absolute deviations.
pub(crate) fn weighted_median(pairs: &mut [(f64, f64)]) -> f64 {
    let half = pairs.iter().map(|p| p.1).sum::<f64>() / 2.0;
    let (mut rest, mut below) = (pairs, 0.0);
    loop {
        let middle = match rest.len() {
            0 => return 0.0,
            1 => return rest[0].0,
            n => n / 2,
        };
        rest.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0));
        let lower: f64 = rest[..middle].iter().map(|p| p.1).sum();
        if below + lower >= half {
            rest = &mut rest[..middle];
        } else {
            below += lower;
            rest = &mut rest[middle..];
            if below + rest[0].1 >= half {
                return rest[0].0;
            }
            below += rest[0].1;
            rest = &mut rest[1..];
        }
    }
}

/// Slope of the Theil-Sen line: the median of the slopes between all pairs of points. The
/// slope stays close to the true one while fewer than 29 % of the points are outliers.
pub(crate) fn theil_sen(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len().min(y.len());
    let stride = n.div_ceil(MAX_SLOPE_POINTS).max(1);
    let picks: Vec<usize> = (0..n).step_by(stride).collect();
    let mut slopes = Vec::with_capacity(picks.len() * picks.len() / 2);
    for (k, &i) in picks.iter().enumerate() {
        for &j in &picks[k + 1..] {
            let run = x[j] - x[i];
            if run > 0.0 {
                slopes.push((y[j] - y[i]) / run);
            }
        }
    }
    median(&slopes)
}

/// The non-decreasing sequence closest to `values` in least squares (pool adjacent violators).
pub(crate) fn isotonic(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for &value in values {
        pools.push((value, 1));
        while let [.., (before, m), (last, n)] = pools[..] {
            if before <= last {
                break;
            }
            let count = m + n;
            let mean = (before * m as f64 + last * n as f64) / count as f64;
            pools.truncate(pools.len() - 2);
            pools.push((mean, count));
        }
    }
    pools
        .into_iter()
        .flat_map(|(level, count)| std::iter::repeat_n(level, count))
        .collect()
}

/// The largest difference between a value in `levels` and a later, lower one; 0 if no value is
/// lower than an earlier one.
pub(crate) fn largest_fall(levels: &[f64]) -> f64 {
    let mut highest = f64::NEG_INFINITY;
    levels.iter().fold(0.0, |fall: f64, &level| {
        highest = highest.max(level);
        fall.max(highest - level)
    })
}

/// Replaces each value by the median of itself and its two neighbours. The first and last value
/// stay unchanged.
pub(crate) fn smooth3(values: &[f64]) -> Vec<f64> {
    let mut out = values.to_vec();
    for (k, window) in values.windows(3).enumerate() {
        let (a, b, c) = (window[0], window[1], window[2]);
        out[k + 1] = a.min(b).max(a.max(b).min(c));
    }
    out
}

/// The highest values of ranges of a list. A query takes time logarithmic in the length of the list.
#[derive(Debug)]
pub(crate) struct RangeMax {
    /// A binary tree: the node at index `i` has its children at `2 * i` and `2 * i + 1` and is the
    /// higher of the two. The second half of the nodes are the values themselves.
    nodes: Vec<i64>,
}

impl RangeMax {
    pub(crate) fn of(values: &[i64]) -> Self {
        let mut nodes = vec![i64::MIN; values.len()];
        nodes.extend(values);
        for i in (1..values.len()).rev() {
            nodes[i] = nodes[2 * i].max(nodes[2 * i + 1]);
        }
        Self { nodes }
    }

    /// The highest value of a range; `i64::MIN` when the range is empty.
    pub(crate) fn of_range(&self, range: Range<usize>) -> i64 {
        let count = self.nodes.len() / 2;
        let (mut from, mut to) = (range.start + count, range.end + count);
        let mut highest = i64::MIN;
        while from < to {
            // A node whose parent also covers values outside the range counts by itself.
            if from % 2 == 1 {
                highest = highest.max(self.nodes[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                highest = highest.max(self.nodes[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn order_statistics_of_nothing_are_zero() {
        close(median(&[]), 0.0);
        close(quantile(&[], 0.5), 0.0);
        close(theil_sen(&[], &[]), 0.0);
        close(weighted_median(&mut []), 0.0);
    }

    #[test]
    fn medians() {
        close(median(&[3.0, 1.0, 2.0]), 2.0);
        close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        close(quantile(&[5.0, 1.0, 3.0], 1.0), 5.0);
        close(
            weighted_median(&mut [(1.0, 1.0), (9.0, 5.0), (2.0, 1.0)]),
            9.0,
        );
        close(robust_sigma(&[1.0, 1.0, 1.0, 50.0]), 0.0);
    }

    #[test]
    fn slope_ignores_a_quarter_of_wild_points() {
        let x: Vec<f64> = (0..40).map(f64::from).collect();
        let y: Vec<f64> = x
            .iter()
            .map(|v| if v % 5.0 == 0.0 { 1e6 } else { 3.0 * v })
            .collect();
        close(theil_sen(&x, &y), 3.0);
    }

    #[test]
    fn isotonic_pools_what_falls() {
        assert_eq!(isotonic(&[1.0, 3.0, 2.0, 4.0]), vec![1.0, 2.5, 2.5, 4.0]);
        assert_eq!(isotonic(&[3.0, 2.0, 1.0]), vec![2.0, 2.0, 2.0]);
    }

    #[test]
    fn the_highest_of_every_range_is_found() {
        let values = [3, -1, 4, 1, -5, 9, 2];
        let found = RangeMax::of(&values);
        for start in 0..=values.len() {
            for end in start..=values.len() {
                let highest = values[start..end].iter().copied().max();
                assert_eq!(found.of_range(start..end), highest.unwrap_or(i64::MIN));
            }
        }
        assert_eq!(RangeMax::of(&[]).of_range(0..0), i64::MIN);
    }
}
