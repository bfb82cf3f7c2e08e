//! Computes at which round numbers the memory axis and the time axis of a plot have ticks.

use stormlog_format::{whole, whole_count};

const SECOND: i64 = 1_000_000_000;
/// Possible distances between two time ticks, in nanoseconds.
const TIME_STEPS: [i64; 22] = [
    SECOND / 1000,
    SECOND / 100,
    SECOND / 10,
    SECOND / 5,
    SECOND / 2,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    60 * SECOND,
    120 * SECOND,
    300 * SECOND,
    600 * SECOND,
    900 * SECOND,
    1800 * SECOND,
    3600 * SECOND,
    7200 * SECOND,
    21_600 * SECOND,
    43_200 * SECOND,
    86_400 * SECOND,
];
/// The smallest number of columns between two time ticks.
const COLUMNS_APART: usize = 18;
/// The smallest number of rows between two memory ticks.
const ROWS_APART: u16 = 3;

/// The ticks of a byte axis at multiples of a power of two, the lowest first.
pub(super) fn of_bytes(low: f64, high: f64, rows: u16) -> Vec<i64> {
    let most = f64::from((rows / ROWS_APART).max(1));
    let mut step = 1_i64;
    while (step as f64) < (high - low) / most && step < 1 << 60 {
        step *= 2;
    }
    let first = whole((low / step as f64).ceil());
    let last = whole((high / step as f64).floor());
    (first..=last)
        .map(|index| index.saturating_mul(step))
        .collect()
}

/// The ticks of a time axis at multiples of a round step, each as its column and its time.
pub(super) fn of_time(from: i64, to: i64, width: usize) -> Vec<(usize, i64)> {
    let length = to.saturating_sub(from).max(1);
    let most = i64::try_from(width / COLUMNS_APART).unwrap_or(1).max(1);
    let fits = |step: &i64| length / step <= most;
    let step = TIME_STEPS.into_iter().find(fits).unwrap_or_else(|| {
        let days = length / most / TIME_STEPS[21] + 1;
        days.saturating_mul(TIME_STEPS[21])
    });
    let first = from.div_euclid(step).saturating_mul(step);
    let times = std::iter::successors(Some(first), |at| at.checked_add(step));
    times
        .skip_while(|at| *at < from)
        .take_while(|at| *at <= to)
        .map(|at| {
            let share = at.saturating_sub(from) as f64 / length as f64;
            (whole_count(share * width as f64), at)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;
    const GIB_DRAWN: f64 = 1_073_741_824.0;

    #[test]
    fn memory_is_counted_in_powers_of_two() {
        assert_eq!(of_bytes(0.0, 10.5 * GIB_DRAWN, 12), [0, 4 * GIB, 8 * GIB]);
        assert_eq!(of_bytes(0.0, 1.0, 12), [0, 1]);
        assert_eq!(of_bytes(0.0, 4.2 * GIB_DRAWN, 2), [0]);
        assert!(of_bytes(0.0, 9e18, 40).len() < 20);
    }

    #[test]
    fn time_is_counted_in_round_steps() {
        let seconds = |ticks: Vec<(usize, i64)>| -> Vec<i64> {
            ticks.into_iter().map(|(_, time)| time / SECOND).collect()
        };
        assert_eq!(seconds(of_time(0, 40 * SECOND, 70)), [0, 15, 30]);
        assert_eq!(seconds(of_time(61 * SECOND, 200 * SECOND, 70)), [120, 180]);
        assert_eq!(of_time(0, 40 * SECOND, 80).first(), Some(&(0, 0)));
        assert!(of_time(0, i64::MAX, 100).len() <= 6);
        assert_eq!(of_time(0, 0, 80), [(0, 0)]);
    }
}
