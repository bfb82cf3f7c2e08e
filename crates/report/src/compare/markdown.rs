//! Renders the comparison of two runs for a pull request: tables of what changed, with all other
//! sections collapsed.

use std::fmt::Write as _;

use stormlog_analysis::compare::{Change, Comparison, Difference, RankComparison};
use stormlog_format::counted;

use super::words;
use crate::markdown::escaped;

/// The largest number of rows in a table, so that a comment on a pull request stays below GitHub's
/// limit of 65,536 characters.
const ROWS: usize = 60;

/// Renders the comparison of two runs as Markdown.
pub fn comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "**{}**", escaped(&words::headline(comparison)));
    findings(&mut out, comparison);
    let _ = writeln!(out, "\nbase: {}  ", escaped(&words::side(&comparison.base)));
    let _ = writeln!(out, "new: {}", escaped(&words::side(&comparison.new)));
    gates(&mut out, comparison);
    let changed = |one: &Difference| matches!(one.verdict, Change::Higher | Change::Lower);
    let rows: Vec<Row> = comparison
        .differences()
        .filter(|row| changed(row.2))
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(out);
        table(&mut out, &rows);
    }
    let rest: Vec<Row> = comparison
        .differences()
        .filter(|row| !changed(row.2))
        .collect();
    if !rest.is_empty() {
        let _ = writeln!(
            out,
            "\n<details><summary>{} neither higher nor lower</summary>\n",
            counted(rest.len(), "number")
        );
        table(&mut out, &rest);
        let _ = writeln!(out, "\n</details>");
    }
    let notes = words::notes(comparison);
    if !notes.is_empty() {
        let _ = writeln!(out);
    }
    for note in notes.iter().take(ROWS) {
        let _ = writeln!(out, "- {}", escaped(note));
    }
    out
}

type Row<'a> = (&'a RankComparison, Option<&'a str>, &'a Difference);

fn table(out: &mut String, rows: &[Row]) {
    let _ = writeln!(out, "| where | what | base | new | change | verdict |");
    let _ = writeln!(out, "|---|---|---:|---:|---:|---|");
    for (rank, phase, one) in rows.iter().take(ROWS) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            escaped(&words::place(rank, *phase)),
            words::metric(one.metric),
            words::measure(one.metric, one.base),
            words::measure(one.metric, one.new),
            words::change(one),
            words::verdict(one),
        );
    }
    if rows.len() > ROWS {
        let _ = writeln!(out, "\nand {} more", rows.len() - ROWS);
    }
}

fn gates(out: &mut String, comparison: &Comparison) {
    if comparison.gates.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n| gate | | |");
    let _ = writeln!(out, "|---|---|---|");
    for gate in &comparison.gates {
        let lines: Vec<String> = words::misses(gate).iter().map(|one| escaped(one)).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            escaped(&words::gate(gate)),
            words::status(gate.status),
            lines.join("<br>"),
        );
    }
}

fn findings(out: &mut String, comparison: &Comparison) {
    let lists = words::finding_lists(comparison);
    if lists.iter().all(|(_, findings)| findings.is_empty()) {
        return;
    }
    let _ = writeln!(out, "\n| finding | kind | where | what |");
    let _ = writeln!(out, "|---|---|---|---|");
    for (heading, findings) in lists {
        for finding in findings.iter().take(ROWS) {
            let _ = writeln!(
                out,
                "| {heading} | {} | {} | {} |",
                escaped(&finding.kind),
                words::whose(finding),
                escaped(&finding.explanation),
            );
        }
    }
}
