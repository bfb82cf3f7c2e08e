//! Renders the comparison of two runs as annotations of a GitHub workflow: errors for failed gates,
//! warnings for other increases and new findings, and a notice with the result.

use std::fmt::Write as _;

use stormlog_analysis::compare::{Change, Comparison, GateStatus};

use super::words;
use crate::annotation::{message, property};

/// The largest number of warnings that are printed: GitHub shows at most ten warnings for each step
/// of a workflow.
const WARNINGS: usize = 10;

/// Renders the comparison of two runs as GitHub annotations (`::warning title=...::...`), one per
/// line.
pub fn comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    let mut annotate = |command: &str, title: &str, text: &str| {
        let _ = writeln!(
            out,
            "::{command} title={}::{}",
            property(title),
            message(text)
        );
    };
    let failed = comparison
        .gates
        .iter()
        .filter(|gate| gate.status != GateStatus::Passed);
    for gate in failed {
        let title = format!("{} {}", words::gate(gate), words::status(gate.status));
        annotate("error", &title, &words::misses(gate).join("\n"));
    }
    let higher = comparison
        .differences()
        .filter(|(_, _, one)| one.verdict == Change::Higher)
        .map(|(rank, phase, one)| {
            let title = format!("{} is higher", words::metric(one.metric));
            let text = format!(
                "{}: {} -> {}, {}",
                words::place(rank, phase),
                words::measure(one.metric, one.base),
                words::measure(one.metric, one.new),
                words::change(one)
            );
            (title, text)
        });
    let new = comparison.findings.new.iter().map(|finding| {
        (
            format!("new finding {} {}", finding.kind, words::whose(finding)),
            finding.explanation.clone(),
        )
    });
    for (title, text) in new.chain(higher).take(WARNINGS) {
        annotate("warning", &title, &text);
    }
    annotate("notice", "stormlog compare", &words::headline(comparison));
    out
}
