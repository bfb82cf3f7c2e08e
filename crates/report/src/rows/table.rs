//! Prints rows as a table. On a terminal, numbers get units, long cells are cut, and columns that
//! do not fit are dropped; elsewhere the table contains the plain values.

use std::io::{self, Write};

use stormlog_format::{Map, Value, human_duration};

use super::cell;
use crate::escape::for_terminal;
use crate::{bytes, time, wrap};

/// The longest cell in characters on a terminal; a longer one is cut, and `--raw` shows it
/// completely.
const WIDEST: usize = 48;

/// Columns that can be dropped on a narrow terminal, least important first. If a table is too wide
/// even without these columns, further columns are dropped from the right; the first column always
/// stays.
const OPTIONAL: [&str; 16] = [
    "metadata",
    "source_ref",
    "source_namespace",
    "source_path",
    "source_kind",
    "source_count",
    "path",
    "url",
    "local_rank",
    "pid",
    "host",
    "warning_count",
    "world_size",
    "ended_at_ns",
    "first_seen_ns",
    "collector",
];

/// Which rows of a table determine the widths of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Widths {
    /// All rows of the table determine the widths.
    OfAllRows,
    /// The first rows determine the widths, because the rows after them are not known yet.
    OfFirstRows,
}

/// A table with fixed columns. On a terminal, numbers are printed with units, and columns that do
/// not fit are dropped; their names are printed below the table.
pub(super) struct Table<'a> {
    /// Each column with its width in characters.
    columns: Vec<(&'a String, usize)>,
    dropped: Vec<&'a String>,
    terminal_width: Option<usize>,
}

impl<'a> Table<'a> {
    /// Chooses the columns of a table and computes their widths from `rows`. On a terminal, columns
    /// that are empty in all rows are left out, if `rows` are all rows of the table.
    pub(super) fn of(
        columns: &'a [String],
        rows: &[Map],
        widths: Widths,
        terminal_width: Option<usize>,
    ) -> Self {
        let humanize = terminal_width.is_some();
        let hides = humanize && widths == Widths::OfAllRows;
        let shown = |name: &&String| !hides || rows.iter().any(|row| has_value(row.get(name)));
        let mut table = Self {
            columns: columns
                .iter()
                .filter(shown)
                .map(|name| (name, width(&title(name, humanize))))
                .collect(),
            dropped: Vec::new(),
            terminal_width,
        };
        for row in rows {
            let cells = table.cells(row);
            for ((_, widest), cell) in table.columns.iter_mut().zip(cells) {
                *widest = width(&cell).max(*widest);
            }
        }
        if let Some(most) = terminal_width {
            let dropped = dropped(&table.columns, most);
            table.dropped = dropped
                .iter()
                .map(|index| table.columns[*index].0)
                .collect();
            table.columns = table
                .columns
                .into_iter()
                .enumerate()
                .filter(|(index, _)| !dropped.contains(index))
                .map(|(_, column)| column)
                .collect();
        }
        table
    }

    /// Prints the titles of the columns, a line of dashes, and the rows.
    pub(super) fn print(&self, rows: &[Map], out: &mut dyn Write) -> io::Result<()> {
        if rows.is_empty() {
            return writeln!(out, "No rows.");
        }
        let humanize = self.terminal_width.is_some();
        let columns = self.columns.iter();
        let titles: Vec<String> = columns.map(|(name, _)| title(name, humanize)).collect();
        let columns = self.columns.iter();
        let rule: Vec<String> = columns.map(|(_, width)| "-".repeat(*width)).collect();
        self.line(&titles, out)?;
        self.line(&rule, out)?;
        for row in rows {
            self.line(&self.cells(row), out)?;
        }
        Ok(())
    }

    /// Prints further rows of a table whose column names were already printed.
    pub(super) fn print_more(
        &self,
        rows: impl Iterator<Item = Map>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for row in rows {
            self.line(&self.cells(&row), out)?;
        }
        Ok(())
    }

    /// Prints the names of the columns that did not fit, below the table.
    pub(super) fn name_dropped(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.dropped.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.dropped.iter().map(|name| name.as_str()).collect();
        let note = format!(
            "Columns not shown: {} (use a wider terminal, --raw or --json)",
            names.join(", ")
        );
        let width = self.terminal_width.unwrap_or(80);
        writeln!(out, "\n{}", wrap(&note, "", width))
    }

    fn cells(&self, row: &Map) -> Vec<String> {
        let humanize = self.terminal_width.is_some();
        let counts_bytes = row.get("metric").is_some_and(is_of_bytes);
        let cells = self.columns.iter().map(|(name, _)| match row.get(name) {
            Some(Value::Int(value)) if humanize && counts_bytes && *name == "value" => {
                bytes::human(*value)
            }
            value => text(name, value, humanize),
        });
        cells.collect()
    }

    fn line(&self, cells: &[String], out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        for (cell, (_, column)) in cells.iter().zip(&self.columns) {
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(cell);
            let missing = column.saturating_sub(width(cell));
            text.extend(std::iter::repeat_n(' ', missing));
        }
        writeln!(out, "{}", text.trim_end())
    }
}

/// The indices, in ascending order, of the columns to drop so that a table is at most `most`
/// characters wide.
fn dropped(columns: &[(&String, usize)], most: usize) -> Vec<usize> {
    let optional = OPTIONAL
        .iter()
        .filter_map(|name| columns.iter().position(|(column, _)| column == name));
    let rightmost = (1..columns.len()).rev();
    let mut dropped: Vec<usize> = Vec::new();
    // The width of the table includes two spaces between neighbouring columns.
    let widths = columns.iter().map(|(_, width)| width);
    let mut total = widths.sum::<usize>() + 2 * columns.len().saturating_sub(1);
    for index in optional.chain(rightmost) {
        if total <= most {
            break;
        }
        if index > 0 && !dropped.contains(&index) {
            dropped.push(index);
            total -= columns[index].1 + 2;
        }
    }
    dropped.sort_unstable();
    dropped
}

/// Whether the name of a metric says that its values are numbers of bytes.
fn is_of_bytes(metric: &Value) -> bool {
    let metric = metric.as_text().map(|text| text.to_str_lossy());
    metric.is_some_and(|metric| metric.ends_with("_bytes") || metric.ends_with("_gap_growth"))
}

/// Whether a cell contains anything; null, an empty map and an empty list count as empty.
fn has_value(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Map(map)) => !map.is_empty(),
        Some(Value::List(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// The title of a column: `started_at_ns` becomes `Started At Ns`, or `Started At` when the cells
/// already contain the unit.
fn title(name: &str, humanize: bool) -> String {
    let unit = ["_ns", "_bytes"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit));
    let name = match unit {
        Some(plain) if humanize => plain,
        _ => name,
    };
    let words = name.split('_').map(|word| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

fn text(name: &str, value: Option<&Value>, humanize: bool) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return "-".into();
    };
    if !humanize {
        return for_terminal(&cell(value)).into_owned();
    }
    match value {
        Value::Int(number) if name.ends_with("_bytes") => bytes::human(*number),
        // Bundles that older versions wrote contain a zero where a time is unknown.
        Value::Int(0) if name.ends_with("_ns") => "-".into(),
        Value::Int(number) if name == "window_ns" => human_duration(*number),
        Value::Int(number) if name.ends_with("_ns") => time::moment(*number),
        value => cut(&for_terminal(&cell(value))),
    }
}

fn cut(text: &str) -> String {
    if width(text) <= WIDEST {
        return text.to_owned();
    }
    let kept: String = text.chars().take(WIDEST - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(terminal_width: Option<usize>) -> String {
        let mut row = Map::new();
        for name in ["session_id", "status", "host", "event_count"] {
            row.insert(name, format!("{name}-value").as_str());
        }
        let columns = ["session_id", "status", "host", "event_count"].map(str::to_owned);
        let mut out = Vec::new();
        let rows = [row];
        let table = Table::of(&columns, &rows, Widths::OfAllRows, terminal_width);
        table.print(&rows, &mut out).unwrap();
        table.name_dropped(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_narrow_terminal_drops_columns_by_importance_and_names_them() {
        let text = printed(Some(50));
        assert!(text.lines().all(|line| width(line) <= 50), "{text}");
        assert!(text.contains("event_count-value") && !text.contains("host-value"));
        assert!(text.contains("\n\nColumns not shown: host (use"), "{text}");
        let narrower = printed(Some(20)).replace('\n', " ");
        assert!(
            narrower.contains("not shown: status, host, event_count"),
            "{narrower}"
        );
    }

    #[test]
    fn a_wide_terminal_and_a_pipe_show_every_column() {
        for width in [None, Some(70)] {
            let text = printed(width);
            assert!(
                text.contains("host-value") && !text.contains("not shown"),
                "{text}"
            );
        }
    }
}
