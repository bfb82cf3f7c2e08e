//! Writes CSV rows and tables of events, and protects text that a spreadsheet would execute as a
//! formula.

use std::borrow::Cow;

use crate::event::FIELDS;
use crate::json::{Layout, Writer};
use crate::value::{Map, Value};

/// The line end that spreadsheets expect after a CSV row.
pub const ROW_END: &str = "\r\n";

/// Appends a CSV row and its line end. Cells with a comma, a quote or a line end are quoted.
pub fn push_row<C: AsRef<str>>(
    out: &mut String,
    cells: impl IntoIterator<Item = C>,
    row_end: &str,
) {
    let start = out.len();
    let mut is_first = true;
    for cell in cells {
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
        let cell = cell.as_ref();
        if cell.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    if out.len() == start && !is_first {
        // A row with one empty cell must not become a blank line, because readers skip blank lines.
        out.push_str("\"\"");
    }
    out.push_str(row_end);
}

/// Appends the header of a table of events.
pub fn push_event_header(out: &mut String) {
    push_row(out, FIELDS, ROW_END);
}

/// Appends the record of an event as a row of a table of events. A cell is empty for null, and
/// contains JSON for nested values.
pub fn push_event_row(out: &mut String, record: &Map) {
    let cells = record.iter().map(|(_, value)| match value {
        Value::Null => String::new(),
        Value::Text(text) => protected(&text.to_str_lossy()).into_owned(),
        other => Writer::new(Layout::Line).to_string(other),
    });
    push_row(out, cells, ROW_END);
}

/// The first characters of spreadsheet formulas, including the full-width forms that some
/// spreadsheets accept.
const FORMULA_STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// The character that is put before a text so that a spreadsheet does not execute the text.
const QUOTE_MARK: char = '\'';

/// The text, with a quote mark before it if a spreadsheet would execute it as a formula.
/// [`unprotected`] removes the mark.
pub fn protected(text: &str) -> Cow<'_, str> {
    if is_formula(text.trim_start_matches(QUOTE_MARK)) {
        Cow::Owned(format!("{QUOTE_MARK}{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text of a cell without the quote mark that [`protected`] put before it.
pub fn unprotected(cell: &str) -> &str {
    match cell.strip_prefix(QUOTE_MARK) {
        Some(text) if is_formula(text.trim_start_matches(QUOTE_MARK)) => text,
        _ => cell,
    }
}

/// Whether a spreadsheet would execute the text as a formula. Spreadsheets skip white space before
/// a formula, and drop a tab or line end at the start of a cell.
fn is_formula(text: &str) -> bool {
    let skipped = |ch: char| ch.is_whitespace() || ch.is_control();
    text.starts_with(['\t', '\r', '\n'])
        || text.trim_start_matches(skipped).starts_with(FORMULA_STARTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;

    #[test]
    fn rows_quote_what_separates() {
        let mut out = String::new();
        push_row(
            &mut out,
            ["a", "b,c", "say \"x\"", "two\nlines", ""],
            ROW_END,
        );
        push_row(&mut out, [""], "\n");
        assert_eq!(out, "a,\"b,c\",\"say \"\"x\"\"\",\"two\nlines\",\r\n\"\"\n");
    }

    #[test]
    fn a_row_of_an_event_executes_nothing() {
        let mut record = Map::new();
        record.insert("job_id", Text::from("=1+1"));
        record.insert("rank", -1_i64);
        record.insert("context", Value::Null);
        record.insert("metadata", Value::Map(Map::new()));
        let mut out = String::new();
        push_event_row(&mut out, &record);
        assert_eq!(out, "'=1+1,-1,,{}\r\n");
    }

    #[test]
    fn formulas_are_marked_and_come_back() {
        for formula in [
            "=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", "\n=1", "\nx", " =1", "\u{a0}=1", "＝1",
            "'=1", "''=1", "\u{0}=1", "-",
        ] {
            let cell = protected(formula);
            assert_eq!(cell, format!("'{formula}"));
            assert_eq!(unprotected(&cell), formula);
        }
        for text in [
            "",
            "a=1",
            "'quoted'",
            "it's",
            " a",
            "1-1",
            "'",
            "{\"a\": 1}",
        ] {
            assert_eq!(protected(text), text);
            assert_eq!(unprotected(text), text);
        }
    }
}
