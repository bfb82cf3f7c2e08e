//! Assigns the points of a curve to the columns of a plot and keeps the extremes of each column, so
//! that no peak is lost.

/// The lowest and the highest value in each plot column; `None` where a column has no point.
pub(crate) type Columns = Vec<Option<(i64, i64)>>;

/// The extremes of points (time and value) in each of `count` plot columns, which divide the time
/// span from `from` to `to` evenly. Points outside the span are ignored.
pub(crate) fn columns(
    points: impl IntoIterator<Item = (i64, i64)>,
    (from, to): (i64, i64),
    count: usize,
) -> Columns {
    let mut columns: Columns = vec![None; count];
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

    #[test]
    fn peaks_are_kept() {
        let points = (0..1000).map(|i| (i, if i == 511 { 99 } else { i % 3 }));
        let columns = columns(points, (0, 999), 10);
        assert_eq!(columns[5], Some((0, 99)));
        assert_eq!(columns[9], Some((0, 2)));
    }

    #[test]
    fn nothing_and_nowhere() {
        assert_eq!(columns([], (0, 9), 3), [None, None, None]);
        assert_eq!(columns([(5, 1)], (5, 5), 2), [Some((1, 1)), None]);
        assert_eq!(columns([(5, 1)], (6, 9), 0), []);
        assert_eq!(
            columns([(i64::MAX, 7)], (i64::MIN, i64::MAX), 2),
            [None, Some((7, 7))]
        );
    }
}
