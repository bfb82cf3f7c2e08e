//! A table of rows: plain where a program may read it, easier on the eye on a terminal.

use std::io::Write;

use stormlog_format::{Map, Value};
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, time};

use super::output::cell;

/// Longer cells are cut on a terminal; `--raw` shows all of them.
const WIDEST: usize = 48;

/// Which rows the widths of the columns come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Widths {
    /// All that there are.
    OfAllRows,
    /// The first ones; more follow.
    OfFirstRows,
}

/// A table whose columns are decided.
pub(crate) struct Table<'a> {
    /// Each column and its width.
    columns: Vec<(&'a String, usize)>,
    humanise: bool,
}

impl<'a> Table<'a> {
    /// A table for rows. On a terminal, columns that are empty in all rows are left out.
    pub(crate) fn of(columns: &'a [String], rows: &[Map], widths: Widths, humanise: bool) -> Self {
        let hides = humanise && widths == Widths::OfAllRows;
        let shown = |name: &&String| !hides || rows.iter().any(|row| says(row.get(name)));
        let mut table = Self {
            columns: columns
                .iter()
                .filter(shown)
                .map(|name| (name, width(&title(name, humanise))))
                .collect(),
            humanise,
        };
        for row in rows {
            let cells = table.cells(row);
            for ((_, widest), cell) in table.columns.iter_mut().zip(cells) {
                *widest = width(&cell).max(*widest);
            }
        }
        table
    }

    /// Prints the first rows under the names of their columns.
    pub(crate) fn print<'r>(
        &self,
        rows: impl ExactSizeIterator<Item = &'r Map>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        if rows.len() == 0 {
            writeln!(out, "No rows.")?;
            return Ok(());
        }
        let columns = self.columns.iter();
        let titles: Vec<String> = columns
            .map(|(name, _)| title(name, self.humanise))
            .collect();
        let rule: Vec<String> = self
            .columns
            .iter()
            .map(|(_, width)| "-".repeat(*width))
            .collect();
        self.line(&titles, out)?;
        self.line(&rule, out)?;
        for row in rows {
            self.line(&self.cells(row), out)?;
        }
        Ok(())
    }

    /// Prints the rows that follow.
    pub(crate) fn print_more(
        &self,
        rows: impl Iterator<Item = Map>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        for row in rows {
            self.line(&self.cells(&row), out)?;
        }
        Ok(())
    }

    fn cells(&self, row: &Map) -> Vec<String> {
        let counts_bytes = row.get("metric").is_some_and(is_of_bytes);
        let cells = self.columns.iter().map(|(name, _)| match row.get(name) {
            Some(Value::Int(value)) if self.humanise && counts_bytes && *name == "value" => {
                bytes::human(*value)
            }
            value => text(name, value, self.humanise),
        });
        cells.collect()
    }

    fn line(&self, cells: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
        let mut text = String::new();
        for (cell, (_, column)) in cells.iter().zip(&self.columns) {
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(cell);
            let missing = column.saturating_sub(width(cell));
            text.extend(std::iter::repeat_n(' ', missing));
        }
        writeln!(out, "{}", text.trim_end())?;
        Ok(())
    }
}

/// Whether a metric's values are numbers of bytes.
fn is_of_bytes(metric: &Value) -> bool {
    let metric = metric.as_text().map(|text| text.to_str_lossy());
    metric.is_some_and(|metric| metric.ends_with("_bytes") || metric.ends_with("_gap_growth"))
}

/// Whether a cell tells anything.
fn says(value: Option<&Value>) -> bool {
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

/// `started_at_ns` as `Started At Ns`, or as `Started At` where the unit is in the cells.
fn title(name: &str, humanise: bool) -> String {
    let unit = ["_ns", "_bytes"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit));
    let name = match unit {
        Some(plain) if humanise => plain,
        _ => name,
    };
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

fn text(name: &str, value: Option<&Value>, humanise: bool) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return "-".into();
    };
    if !humanise {
        return for_terminal(&cell(value)).into_owned();
    }
    match value {
        Value::Int(number) if name.ends_with("_bytes") => bytes::human(*number),
        // Zero is how an unknown time is spelled in old bundles.
        Value::Int(0) if name.ends_with("_ns") => "-".into(),
        Value::Int(number) if name == "window_ns" => time::span(*number),
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
