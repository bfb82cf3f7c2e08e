//! Text in the cells of a CSV file that no spreadsheet takes for a formula and runs.

use std::borrow::Cow;

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
