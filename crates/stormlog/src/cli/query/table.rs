//! A table of rows: plain where a program may read it, easier on the eye on a terminal.

use std::io::Write;

use stormlog_format::{Map, Value};
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, time};

use super::output::cell;

/// Longer cells are cut on a terminal; `--raw` shows all of them.
const WIDEST: usize = 48;

/// Prints rows under the names of their columns.
pub(crate) fn print(
    columns: &[String],
    rows: &[Map],
    humanise: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if rows.is_empty() {
        writeln!(out, "No rows.")?;
        return Ok(());
    }
    let shown = |name: &&String| !humanise || rows.iter().any(|row| says(row.get(name)));
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
        .map(|(place, title)| {
            let widest = cells.iter().map(|row| width(&row[place])).max();
            width(title).max(widest.unwrap_or(0))
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    for line in [&titles, &rule].into_iter().chain(&cells) {
        let mut text = String::new();
        for (cell, column) in line.iter().zip(&widths) {
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', column - width(cell)));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
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
