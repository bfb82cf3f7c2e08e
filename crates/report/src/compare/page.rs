//! Renders the comparison of two runs as parts of an HTML page: the verdict with the findings that
//! differ, and the gates and numbers.

use askama::Template;
use stormlog_analysis::compare::{Comparison, Difference};

use super::words;
use crate::error::{DrawError, rendered};
use crate::label::clean_paragraph;

#[derive(Template)]
#[template(path = "comparison_verdict.html")]
struct Verdict {
    outcome: &'static str,
    headline: String,
    findings: Vec<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "comparison.html")]
struct Sections {
    sides: [String; 2],
    notes: Vec<String>,
    gates: Vec<Gate>,
    tables: Vec<Table>,
    left_out: usize,
}

struct Gate {
    status: &'static str,
    passed: bool,
    text: String,
    misses: Vec<String>,
}

struct Table {
    title: String,
    rows: Vec<Row>,
}

struct Row {
    metric: &'static str,
    base: String,
    new: String,
    change: String,
    verdict: String,
    class: &'static str,
}

/// Renders the verdict of the comparison of two runs as HTML, with every text escaped: the outcome,
/// and what is new and what is gone. A page shows the verdict above everything else.
pub fn verdict(comparison: &Comparison) -> Result<String, DrawError> {
    let lists = words::finding_lists(comparison);
    let findings = lists.into_iter().flat_map(|(what, findings)| {
        let words = findings.iter().map(words::finding);
        words.map(move |text| (what, clean_paragraph(&text)))
    });
    rendered(&Verdict {
        outcome: outcome(comparison),
        headline: clean_paragraph(&words::headline(comparison)),
        findings: findings.collect(),
    })
}

/// The class of the headline, which gives it its colour.
fn outcome(comparison: &Comparison) -> &'static str {
    if comparison.failed() {
        "critical"
    } else {
        "info"
    }
}

/// Renders the numbers of the comparison of two runs as HTML for the body of a page, with every text
/// escaped.
pub fn sections(comparison: &Comparison) -> Result<String, DrawError> {
    let (ranks, left_out) = words::listed_ranks(comparison);
    let mut tables = Vec::new();
    for rank in ranks {
        tables.push(table(words::place(rank, None), &rank.differences));
        for phase in &rank.phases {
            let title = words::place(rank, Some(&phase.name));
            tables.push(table(title, &phase.differences));
        }
    }
    let gates = comparison.gates.iter().map(|gate| Gate {
        status: words::status(gate.status),
        passed: gate.status == stormlog_analysis::compare::GateStatus::Passed,
        text: words::gate(gate),
        misses: words::misses(gate),
    });
    rendered(&Sections {
        sides: [words::side(&comparison.base), words::side(&comparison.new)],
        notes: words::notes(comparison),
        gates: gates.collect(),
        tables,
        left_out,
    })
}

fn table(title: String, differences: &[Difference]) -> Table {
    let rows = differences.iter().map(|one| Row {
        metric: words::metric(one.metric),
        base: words::measure(one.metric, one.base),
        new: words::measure(one.metric, one.new),
        change: words::change(one),
        verdict: words::verdict(one),
        class: one.verdict.as_str(),
    });
    Table {
        title,
        rows: rows.collect(),
    }
}
