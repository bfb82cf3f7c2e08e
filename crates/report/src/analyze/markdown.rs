//! Renders the report of `stormlog analyze` for a pull request: a short table of findings, with all
//! other sections collapsed.

use std::fmt::Write as _;

use stormlog_analysis::analyze::Report;
use stormlog_format::counted;

use super::words::{self, RANK_COLUMNS};
use crate::limits_of_recording::limits_of_recording;
use crate::markdown::escaped;
use crate::removed::removed_lines;

/// Renders the report of `stormlog analyze` as Markdown.
pub fn report(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "**{}**", escaped(&words::headline(report)));
    let findings: usize = report.findings().count();
    if findings > 0 {
        let _ = writeln!(out, "\n| | kind | where | confidence | what | what to do |");
        let _ = writeln!(out, "|---|---|---|---|---|---|");
        for run in &report.runs {
            for finding in run.diagnosis.findings() {
                let since = words::since(finding, &run.timeline).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "| {} | {} | {} {since} | {:.0} % | {} | {} |",
                    finding.level().as_str(),
                    finding.kind,
                    escaped(&words::whose(finding, &run.timeline)),
                    finding.confidence * 100.0,
                    escaped(&finding.explanation),
                    escaped(&finding.advice),
                );
            }
        }
    }
    for note in report
        .runs
        .iter()
        .flat_map(|run| words::note_lines(&run.diagnosis))
    {
        let _ = writeln!(out, "\n{}", escaped(&note));
    }
    for run in report.runs.iter().filter(|run| run.ranks.len() > 1) {
        let (rows, left_out) = words::rank_rows(run);
        let _ = writeln!(
            out,
            "\n<details><summary>{}</summary>\n",
            counted(run.ranks.len(), "rank")
        );
        let _ = writeln!(out, "| {} |", RANK_COLUMNS.join(" | "));
        let _ = writeln!(out, "|{}", "---|".repeat(RANK_COLUMNS.len()));
        for row in &rows {
            let _ = writeln!(
                out,
                "| {} |",
                row.each_ref().map(|cell| escaped(cell)).join(" | ")
            );
        }
        if left_out > 0 {
            let more = counted(left_out, "more rank");
            let _ = writeln!(out, "\nand {more}");
        }
        let _ = writeln!(out, "\n</details>");
    }
    for looked_at in report.runs.iter().filter_map(words::looked_at) {
        let _ = writeln!(out, "\n{}", escaped(&looked_at));
    }
    let _ = writeln!(out, "\n{}", escaped(&words::coverage(report)));
    let runs = report.runs.iter().map(|run| &run.timeline);
    let limits = limits_of_recording(runs);
    for (label, text) in limits.into_iter().chain(removed_lines(&report.removed)) {
        let _ = writeln!(out, "\n{label}: {text}");
    }
    out
}
