//! Reduces the number of samples to draw without changing the chart: each pixel column keeps the
//! first, lowest, highest and last value of its samples, so no peak is lost.

use crate::measure::UNKNOWN;
use crate::scale::TimeScale;

/// The first, lowest, highest and last sample of a pixel column, each with its time.
#[derive(Clone, Copy, Debug)]
struct Column {
    pixel: i64,
    first: (i64, i64),
    least: (i64, i64),
    greatest: (i64, i64),
    last: (i64, i64),
}

impl Column {
    fn new(pixel: i64, point: (i64, i64)) -> Self {
        Self {
            pixel,
            first: point,
            least: point,
            greatest: point,
            last: point,
        }
    }

    fn add(&mut self, point: (i64, i64)) {
        if point.1 < self.least.1 {
            self.least = point;
        }
        if point.1 > self.greatest.1 {
            self.greatest = point;
        }
        self.last = point;
    }

    fn write(&self, piece: &mut Vec<(i64, i64)>) {
        let (early, late) = if self.least.0 <= self.greatest.0 {
            (self.least, self.greatest)
        } else {
            (self.greatest, self.least)
        };
        for point in [self.first, early, late, self.last] {
            if piece.last() != Some(&point) {
                piece.push(point);
            }
        }
    }
}

/// Computes the lines through samples, with at most four points per pixel column. A line is
/// interrupted where a value is unknown or where no sample was taken for longer than `gap_ns`,
/// unless the interruption is too short to be visible.
///
/// The result has at most `4 * width + 4` points for any input.
pub(crate) fn pieces(
    times: &[i64],
    values: &[i64],
    scale: TimeScale,
    gap_ns: i64,
) -> Vec<Vec<(i64, i64)>> {
    let per_pixel = scale.ns_per_pixel().max(f64::MIN_POSITIVE);
    let mut pieces: Vec<Vec<(i64, i64)>> = Vec::new();
    let mut piece: Vec<(i64, i64)> = Vec::new();
    let mut column: Option<Column> = None;
    let mut broken = false;
    for (&time, &value) in times.iter().zip(values) {
        if value == UNKNOWN {
            broken = true;
            continue;
        }
        let pixel = (time.saturating_sub(scale.span.from) as f64 / per_pixel).floor() as i64;
        let Some(current) = column.as_mut() else {
            column = Some(Column::new(pixel, (time, value)));
            broken = false;
            continue;
        };
        if current.pixel == pixel {
            // An interruption of the line inside one pixel column is not visible, so the line
            // continues.
            current.add((time, value));
            broken = false;
            continue;
        }
        let pause = time.saturating_sub(current.last.0) > gap_ns;
        current.write(&mut piece);
        if broken || pause {
            pieces.push(std::mem::take(&mut piece));
        }
        broken = false;
        *current = Column::new(pixel, (time, value));
    }
    if let Some(column) = column {
        column.write(&mut piece);
        pieces.push(piece);
    }
    pieces
}

/// The lowest and the highest value in each column of a plot; `None` where a column has no point.
pub type Columns = Vec<Option<(i64, i64)>>;

/// The extremes of points (time and value) in each of `count` columns of a plot, which divide the
/// time span from `from` to `to` evenly. Points outside the span are ignored.
pub fn columns(
    points: impl IntoIterator<Item = (i64, i64)>,
    (from, to): (i64, i64),
    count: usize,
) -> Columns {
    let mut columns: Columns = vec![None; count];
    // Integers, because a float cannot represent nanoseconds exactly: points on the edge of a
    // column would be in the column before it.
    let length = i128::from(to) - i128::from(from);
    for (time, value) in points {
        if time < from || time > to || count == 0 {
            continue;
        }
        let share = (i128::from(time) - i128::from(from)) * count as i128 / length.max(1);
        let index = usize::try_from(share).unwrap_or(0).min(count - 1);
        let column = &mut columns[index];
        let (low, high) = column.unwrap_or((value, value));
        *column = Some((low.min(value), high.max(value)));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Span;

    fn scale(to: i64, width: f64) -> TimeScale {
        TimeScale {
            span: Span::new(0, to),
            left: 0.0,
            width,
        }
    }

    #[test]
    fn one_peak_among_a_million_stays() {
        let times: Vec<i64> = (0..1_000_000).collect();
        let mut values = vec![10; times.len()];
        values[654_321] = 99;
        values[123_456] = 1;
        let pieces = pieces(&times, &values, scale(1_000_000, 800.0), 1000);
        assert_eq!(pieces.len(), 1);
        assert!(pieces[0].len() <= 4 * 800 + 4);
        assert!(pieces[0].contains(&(654_321, 99)));
        assert!(pieces[0].contains(&(123_456, 1)));
        assert!(pieces[0].is_sorted_by_key(|point| point.0));
    }

    #[test]
    fn few_samples_are_kept_as_they_are() {
        let pieces = pieces(&[0, 40, 90], &[1, 2, 3], scale(100, 100.0), 1000);
        assert_eq!(pieces, [[(0, 1), (40, 2), (90, 3)]]);
    }

    #[test]
    fn unknown_values_and_pauses_break_the_line() {
        let (times, values) = ([0, 10, 20, 30, 80, 90], [1, 1, UNKNOWN, 2, 3, 3]);
        let pieces = pieces(&times, &values, scale(100, 100.0), 40);
        let expected = vec![vec![(0, 1), (10, 1)], vec![(30, 2)], vec![(80, 3), (90, 3)]];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn breaks_within_a_pixel_do_not_multiply_pieces() {
        let times: Vec<i64> = (0..100_000).collect();
        let values: Vec<i64> = times
            .iter()
            .map(|time| if time % 2 == 0 { UNKNOWN } else { 5 })
            .collect();
        let count: usize = pieces(&times, &values, scale(100_000, 100.0), 1)
            .iter()
            .map(Vec::len)
            .sum();
        assert!(count <= 404, "{count}");
    }

    #[test]
    fn columns_tell_no_samples_from_zero() {
        let columns = columns([(0, 0), (1, 7), (99, 3)], (0, 100), 4);
        assert_eq!(columns, [Some((0, 7)), None, None, Some((3, 3))]);
    }

    #[test]
    fn a_point_on_an_edge_is_in_the_column_that_begins_there() {
        let columns = columns([(5, 1)], (0, 10), 58);
        assert_eq!(columns[29], Some((1, 1)));
    }

    #[test]
    fn columns_keep_peaks() {
        let points = (0..1000).map(|i| (i, if i == 511 { 99 } else { i % 3 }));
        let columns = columns(points, (0, 999), 10);
        assert_eq!(columns[5], Some((0, 99)));
        assert_eq!(columns[9], Some((0, 2)));
    }

    #[test]
    fn columns_of_nothing_and_nowhere() {
        assert_eq!(columns([], (0, 9), 3), [None, None, None]);
        assert_eq!(columns([(5, 1)], (5, 5), 2), [Some((1, 1)), None]);
        assert_eq!(columns([(5, 1)], (6, 9), 0), []);
        assert_eq!(
            columns([(i64::MAX, 7)], (i64::MIN, i64::MAX), 2),
            [None, Some((7, 7))]
        );
    }
}
