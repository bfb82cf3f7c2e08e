//! Renders the report of `stormlog analyze` for a terminal: the verdict first, then findings, ranks
//! and coverage.

use std::fmt::Write as _;

use stormlog_analysis::analyze::{Report, RunReport};
use stormlog_analysis::detect::Level;
use stormlog_format::counted;

use super::words::{self, RANK_COLUMNS};
use crate::escape::for_terminal;
use crate::ledger::{LedgerLines, ledger_lines};
use crate::limits_of_recording::limits_of_recording;
use crate::removed::removed_lines;
use crate::{Terminal, wrap};

/// The largest number of devices for which the text lists what uses their memory; the JSON report
/// contains these lists for all devices.
const MOST_LEDGERS: usize = 2;

/// How much of the evidence a text shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What is wrong, where, and what to do.
    Short,
    /// All evidence.
    All,
}

/// Renders the report of `stormlog analyze` as text that fits the width of the terminal.
pub fn report(report: &Report, detail: Detail, terminal: Terminal) -> String {
    let width = terminal.width;
    let mut out = String::new();
    let headline = words::headline(report);
    let headline = wrap(&for_terminal(&headline), "", width);
    let level = words::gravest(report).and_then(|run| run.diagnosis.verdict().level);
    let _ = writeln!(out, "{}", terminal.paint(colour(level), &headline));
    for run in &report.runs {
        self::run(&mut out, run, report.runs.len() > 1, detail, terminal);
    }
    let recorded = format!("Recorded: {}", words::coverage(report));
    let is_scope_last = report.runs.last().and_then(words::looked_at).is_some();
    if !is_scope_last {
        out.push('\n');
    }
    let _ = writeln!(out, "{}", wrap(&recorded, "", width));
    let runs = report.runs.iter().map(|run| &run.timeline);
    for (label, text) in limits_of_recording(runs) {
        let line = format!("  {label}: {text}");
        let _ = writeln!(out, "{}", wrap(&line, "    ", width));
    }
    for (label, text) in removed_lines(&report.removed) {
        let _ = writeln!(out, "  {label}: {text}");
    }
    for damage in report.damage.iter().take(10) {
        let _ = writeln!(out, "  damaged: {}", for_terminal(&damage.to_string()));
    }
    if report.damage.len() > 10 {
        let _ = writeln!(out, "  and {} more", report.damage.len() - 10);
    }
    out
}

fn run(
    out: &mut String,
    run: &RunReport,
    is_one_of_several: bool,
    detail: Detail,
    terminal: Terminal,
) {
    let width = terminal.width;
    let verdict = run.diagnosis.verdict();
    if is_one_of_several {
        let name = format!("{}: {verdict}", words::name(run));
        let name = wrap(&for_terminal(&name), "", width);
        let _ = writeln!(out, "\n{}", terminal.paint(colour(verdict.level), &name));
    }
    for (index, finding) in run.diagnosis.findings().into_iter().enumerate() {
        // The line of the first finding is the headline above.
        if index > 0 {
            let line = wrap(&for_terminal(&finding.headline), "", width);
            let level = Some(finding.level());
            let _ = writeln!(out, "\n{}", terminal.paint(colour(level), &line));
        }
        for line in words::finding_lines(finding, &run.timeline, detail) {
            let _ = writeln!(out, "{}", wrap(&for_terminal(&line), "  ", width));
        }
    }
    for text in words::note_lines(&run.diagnosis) {
        let _ = writeln!(out, "\n{}", wrap(&for_terminal(&text), "", width));
    }
    if run.ranks.len() > 1 {
        ranks(out, run);
    }
    if detail == Detail::All || words::is_about_device(run) {
        for ledger in ledger_lines(&run.timeline, MOST_LEDGERS) {
            self::ledger(out, &ledger, width);
        }
    }
    if let Some(looked_at) = words::looked_at(run) {
        let looked_at = wrap(&for_terminal(&looked_at), "", width);
        let _ = writeln!(out, "\n{looked_at}");
    }
}

/// Appends the ledger of a device to `out`: one line for each user of the device's memory (the CUDA
/// context, PyTorch's pools, other processes), with the amount that it uses.
pub fn ledger(out: &mut String, ledger: &LedgerLines, width: usize) {
    let _ = writeln!(out, "\n{}:", wrap(&for_terminal(&ledger.title), "", width));
    for line in &ledger.lines {
        let _ = writeln!(out, "  {:>10}  {}", line.size, for_terminal(&line.name));
    }
    if let Some(unknown) = &ledger.unknown {
        let _ = writeln!(out, "{}", wrap(&for_terminal(unknown), "  ", width));
    }
}

fn ranks(out: &mut String, run: &RunReport) {
    let (rows, left_out) = words::rank_rows(run);
    let mut widths = RANK_COLUMNS.map(|name| name.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(for_terminal(cell).chars().count());
        }
    }
    out.push('\n');
    let mut line = |cells: &[String; 8]| {
        let padded = cells
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(index, (cell, width))| {
                // In the table of ranks, the two text columns (indices 1 and 7) are aligned left
                // and the number columns right.
                if index == 1 || index == 7 {
                    format!("{:<width$}", for_terminal(cell))
                } else {
                    format!("{cell:>width$}")
                }
            });
        let line = padded.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "  {}", line.trim_end());
    };
    line(&RANK_COLUMNS.map(str::to_owned));
    for row in &rows {
        line(row);
    }
    if left_out > 0 {
        let more = counted(left_out, "more rank");
        let _ = writeln!(out, "  and {more}; --format json lists all ranks");
    }
}

/// The ANSI code of a level: red, amber or none, in bold.
fn colour(level: Option<Level>) -> &'static str {
    match level {
        Some(Level::Problem) => "1;31",
        Some(Level::Likely) => "1;33",
        Some(Level::Note) | None => "1",
    }
}
