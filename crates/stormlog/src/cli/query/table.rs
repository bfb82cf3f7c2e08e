//! A table of rows: plain where a program may read it, easier on the eye on a terminal.

use std::io::Write;

use stormlog_format::{Map, Value};
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, time, wrap};

use super::output::cell;

/// Longer cells are cut on a terminal; `--raw` shows all of them.
const WIDEST: usize = 48;

/// Columns that a narrow terminal can do without, least important first. When that is not enough,
/// columns are dropped from the right; the first one always stays.
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

/// Prints rows under the names of their columns. On a terminal, numbers are readable and columns
/// that do not fit its width are dropped and named.
pub(crate) fn print(
    columns: &[String],
    rows: &[Map],
    terminal_width: Option<usize>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let humanise = terminal_width.is_some();
    if rows.is_empty() {
        writeln!(out, "No rows.")?;
        return Ok(());
    }
    let shown = |name: &&String| !humanise || rows.iter().any(|row| has_value(row.get(name)));
    let columns: Vec<&String> = columns.iter().filter(shown).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let counts_bytes = row.get("metric").is_some_and(is_of_bytes);
            let cells = columns.iter().map(|name| match row.get(name) {
                Some(Value::Int(value)) if humanise && counts_bytes && *name == "value" => {
                    bytes::human(*value)
                }
                value => text(name, value, humanise),
            });
            cells.collect()
        })
        .collect();
    let titles: Vec<String> = columns.iter().map(|name| title(name, humanise)).collect();
    let widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(index, title)| {
            let widest = cells.iter().map(|row| width(&row[index])).max();
            width(title).max(widest.unwrap_or(0))
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let dropped = terminal_width.map_or(Vec::new(), |most| dropped(&columns, &widths, most));
    for line in [&titles, &rule].into_iter().chain(&cells) {
        let mut text = String::new();
        for (index, (cell, column)) in line.iter().zip(&widths).enumerate() {
            if dropped.contains(&index) {
                continue;
            }
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', column - width(cell)));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    if !dropped.is_empty() {
        let names: Vec<&str> = dropped
            .iter()
            .map(|index| columns[*index].as_str())
            .collect();
        let note = format!(
            "Columns not shown: {} (use a wider terminal, --raw or --json)",
            names.join(", ")
        );
        writeln!(out, "\n{}", wrap(&note, "", terminal_width.unwrap_or(80)))?;
    }
    Ok(())
}

/// The indices of the columns to drop so that a table fits a width, in the order of the columns.
fn dropped(columns: &[&String], widths: &[usize], most: usize) -> Vec<usize> {
    let optional = OPTIONAL
        .iter()
        .filter_map(|name| columns.iter().position(|column| column == name));
    let rightmost = (1..columns.len()).rev();
    let mut dropped: Vec<usize> = Vec::new();
    // Each column but the first has two spaces before it.
    let mut total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    for index in optional.chain(rightmost) {
        if total <= most {
            break;
        }
        if index > 0 && !dropped.contains(&index) {
            dropped.push(index);
            total -= widths[index] + 2;
        }
    }
    dropped.sort_unstable();
    dropped
}

/// Whether a metric's values are numbers of bytes.
fn is_of_bytes(metric: &Value) -> bool {
    let metric = metric.as_text().map(|text| text.to_str_lossy());
    metric.is_some_and(|metric| metric.ends_with("_bytes") || metric.ends_with("_gap_growth"))
}

/// Whether a cell has a value.
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
        print(&columns, &[row], terminal_width, &mut out).unwrap();
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
