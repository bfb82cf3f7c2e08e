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
    let _ = writeln!(
        out,
        "\nbase  {}",
        for_terminal(&words::side(&comparison.base))
    );
    let _ = writeln!(out, "new   {}", for_terminal(&words::side(&comparison.new)));
    for note in words::notes(comparison) {
        let _ = writeln!(out, "note: {}", for_terminal(&note));
    }
    gates(&mut out, comparison, terminal);
    ranks(&mut out, comparison, terminal);
    findings(&mut out, comparison, terminal.width);
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
        let _ = writeln!(out, "\n{}", capital(&words::place(rank, None)));
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

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|ch| ch.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

fn table(out: &mut String, differences: &[Difference], terminal: Terminal) {
    let rows: Vec<[String; 4]> = differences
        .iter()
        .map(|one| {
            [
                words::metric(one.metric).to_owned(),
                words::measure(one.metric, one.base),
                words::measure(one.metric, one.new),
                words::change(one),
            ]
        })
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2), width(3)];
    for (row, one) in rows.iter().zip(differences) {
        let verdict = words::verdict(one.verdict);
        let verdict = match one.verdict {
            Change::Higher => terminal.paint("1;31", verdict),
            Change::Lower => terminal.paint("32", verdict),
            Change::Unchanged | Change::NotEnoughEvidence => verdict.to_owned(),
        };
        let _ = writeln!(
            out,
            "  {:<a$}  {:>b$} -> {:>c$}  {:<d$}  {verdict}",
            row[0],
            row[1],
            row[2],
            row[3],
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3],
        );
    }
}

fn findings(out: &mut String, comparison: &Comparison, width: usize) {
    let lists = words::finding_lists(comparison);
    if lists.iter().all(|(_, findings)| findings.is_empty()) {
        return;
    }
    let _ = writeln!(out, "\nFindings");
    for (heading, findings) in lists {
        for finding in findings {
            let line = format!("{heading}: {}", words::finding(finding));
            let _ = writeln!(out, "{}", wrap(&for_terminal(&line), "  ", width));
        }
    }
}
