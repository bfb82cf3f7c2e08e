//! CSV files: rows, and text in cells that no spreadsheet takes for a formula and runs.

use std::borrow::Cow;

/// What ends a row for spreadsheets.
pub const ROW_END: &str = "\r\n";

/// Appends a row: its cells in quotes where they hold a separator, and what ends it.
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
        // A row of one empty cell is no blank line, which readers skip.
        out.push_str("\"\"");
    }
    out.push_str(row_end);
}

/// What a formula begins with, also in the wide forms that some spreadsheets accept.
const STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// What stands before text that is no formula.
const MARK: char = '\'';

/// The text with a mark in front where a spreadsheet would run it; [`unprotected`] takes the mark
/// away again.
pub fn protected(text: &str) -> Cow<'_, str> {
    if is_formula(text.trim_start_matches(MARK)) {
        Cow::Owned(format!("{MARK}{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text of a cell without the mark.
pub fn unprotected(cell: &str) -> &str {
    match cell.strip_prefix(MARK) {
        Some(text) if is_formula(text.trim_start_matches(MARK)) => text,
        _ => cell,
    }
}

/// Spreadsheets skip white space before a formula, and import a cell that begins with a tab or a
/// line end as what follows it.
fn is_formula(text: &str) -> bool {
    let skipped = |ch: char| ch.is_whitespace() || ch.is_control();
    text.starts_with(['\t', '\r', '\n']) || text.trim_start_matches(skipped).starts_with(STARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

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
