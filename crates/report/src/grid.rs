//! A grid of ranks and time columns: each cell is the highest value of a rank within a time column.

use rayon::prelude::*;

use crate::measure::Measure;
use crate::scale::Span;
use crate::track::DrawnTrack;

/// One row per track, one value per time column; `None` where no value is known.
pub(crate) struct Grid {
    pub(crate) columns: usize,
    pub(crate) rows: Vec<Vec<Option<i64>>>,
}

impl Grid {
    pub(crate) fn new(tracks: &[DrawnTrack], measure: Measure, span: Span, columns: usize) -> Self {
        let columns = columns.max(1);
        let rows = tracks
            .par_iter()
            .map(|track| row(track, measure, span, columns))
            .collect();
        Self { columns, rows }
    }

    /// The index of a rank's row after [`Self::merged`] has merged the rows into `count` rows.
    pub(crate) fn merged_index(&self, index: usize, count: usize) -> usize {
        index * count / self.rows.len().max(1)
    }

    /// Merges the rows of neighbouring ranks into `count` rows, each with the highest value of its
    /// ranks in every time column.
    pub(crate) fn merged(&self, count: usize) -> Vec<Vec<Option<i64>>> {
        let mut merged = vec![vec![None; self.columns]; count];
        for (index, row) in self.rows.iter().enumerate() {
            let line = &mut merged[self.merged_index(index, count)];
            for (cell, value) in line.iter_mut().zip(row) {
                *cell = (*cell).max(*value);
            }
        }
        merged
    }

    /// The known values of all ranks in one time column, in ascending order.
    pub(crate) fn sorted_column(&self, column: usize) -> Vec<i64> {
        let mut values: Vec<i64> = self.rows.iter().filter_map(|row| row[column]).collect();
        values.sort_unstable();
        values
    }

    /// The highest value of all cells; 0 if no value is known.
    pub(crate) fn peak(&self) -> i64 {
        let values = self.rows.iter().flatten().flatten();
        values.copied().max().unwrap_or(0)
    }
}

fn row(track: &DrawnTrack, measure: Measure, span: Span, columns: usize) -> Vec<Option<i64>> {
    let found = track.columns(measure, (span.from, span.to), columns);
    let mut row: Vec<Option<i64>> = found
        .iter()
        .map(|cell| cell.map(|(_, most)| most))
        .collect();
    // The value of a sample also fills the following time columns until the next sample, unless
    // there is a sampling gap between the two samples.
    let column_ns = (span.length() / columns as i64).max(1);
    let most_columns = (track.gap_ns() / column_ns).min(columns as i64) as usize;
    let mut last: Option<usize> = None;
    for index in 0..columns {
        if row[index].is_none() {
            continue;
        }
        if let Some(last) = last.filter(|last| index - last <= most_columns + 1) {
            let value = row[last];
            row[last + 1..index].fill(value);
        }
        last = Some(index);
    }
    row
}

/// The quantile of sorted values: a share of 0 returns the lowest value, 0.5 the median and 1 the
/// highest.
pub(crate) fn quantile(sorted: &[i64], share: f64) -> Option<i64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}
