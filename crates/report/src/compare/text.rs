//! Renders the comparison of two runs for a terminal: the outcome first, then gates, numbers and
//! findings.

use std::fmt::Write as _;

use stormlog_analysis::compare::{Change, Comparison, Difference, GateStatus};
use stormlog_format::counted;

use super::words;
use crate::escape::for_terminal;
use crate::{Terminal, wrap};

/// Renders the comparison of two runs as text for a terminal.
pub fn comparison(comparison: &Comparison, terminal: Terminal) -> String {
    let mut out = String::new();
    let headline = wrap(
        &for_terminal(&words::headline(comparison)),
        "",
        terminal.width,
    );
    let _ = writeln!(out, "{}", terminal.paint("1", &headline));
    findings(&mut out, comparison, terminal.width);
    for (name, side) in [("base", &comparison.base), ("new ", &comparison.new)] {
        let gap = if name == "base" { "\n" } else { "" };
        let _ = writeln!(out, "{gap}{name}  {}", for_terminal(&words::side(side)));
    }
    for note in words::notes(comparison) {
        let note = wrap(&for_terminal(&note), "      ", terminal.width);
        let _ = writeln!(out, "note: {}", note.trim_start());
    }
    gates(&mut out, comparison, terminal);
    ranks(&mut out, comparison, terminal);
    out
}

fn gates(out: &mut String, comparison: &Comparison, terminal: Terminal) {
    if comparison.gates.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nGates");
    for gate in &comparison.gates {
        let status = words::status(gate.status);
        let painted = match gate.status {
            GateStatus::Passed => terminal.paint("32", status),
            GateStatus::Failed | GateStatus::NotJudged => terminal.paint("1;31", status),
        };
        let _ = writeln!(out, "  {painted}: {}", words::gate(gate));
        for line in words::misses(gate) {
            let _ = writeln!(out, "    {}", for_terminal(&line));
        }
    }
}

fn ranks(out: &mut String, comparison: &Comparison, terminal: Terminal) {
    let (ranks, left_out) = words::listed_ranks(comparison);
    for rank in ranks {
        let _ = writeln!(out, "\n{}", words::capital(&words::place(rank, None)));
        table(out, &rank.differences, terminal);
        for phase in &rank.phases {
            let _ = writeln!(out, "  in phase {}", for_terminal(&phase.name));
            table(out, &phase.differences, terminal);
        }
    }
    if left_out > 0 {
        let more = counted(left_out, "more rank");
        let _ = writeln!(out, "\nand {more}; --format json lists all ranks");
    }
}

fn table(out: &mut String, differences: &[Difference], terminal: Terminal) {
    let rows: Vec<[String; 5]> = differences
        .iter()
        .map(|one| {
            [
                words::metric(one.metric).to_owned(),
                words::measure(one.metric, one.base),
                words::measure(one.metric, one.new),
                words::change(one),
                words::verdict(one),
            ]
        })
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2), width(3), width(4)];
    // Two spaces before the first column and between columns, and the arrow.
    let is_wide = widths.iter().sum::<usize>() + 10 <= terminal.width;
    for (row, one) in rows.iter().zip(differences) {
        let [metric, base, new, change, verdict] = row;
        let verdict = match one.verdict {
            Change::Higher => terminal.paint("1;31", verdict),
            Change::Lower => terminal.paint("32", verdict),
            _ => verdict.clone(),
        };
        let [a, b, c, d, _] = widths;
        let values = format!("  {metric:<a$}  {base:>b$} -> {new:>c$}");
        let is_same = one.verdict == Change::Unchanged || change.is_empty();
        let _ = match (is_wide, is_same) {
            (true, _) => writeln!(out, "{values}  {change:<d$}  {verdict}"),
            (false, true) => writeln!(out, "{values}  {verdict}"),
            (false, false) => writeln!(out, "{values}\n      {change}, {verdict}"),
        };
    }
}

/// What is new and what is gone, and then the findings of both runs.
fn findings(out: &mut String, comparison: &Comparison, width: usize) {
    for (heading, findings) in words::finding_lists(comparison) {
        for finding in findings {
            let line = format!("{heading}: {}", words::finding(finding));
            let _ = writeln!(out, "{}", wrap(&for_terminal(&line), "  ", width));
        }
    }
}
