//! Tests that files in other languages know the kinds of findings that the detectors have.

use stormlog_analysis::detect::{Detector, Kind};
use stormlog_analysis::issue::fingerprint::issue_kinds;
use stormlog_report::document::pretty;

use super::{is_current, repository};

/// The line of the view that selects the kinds of growth.
const SELECTED: &str = "WHERE findings.kind IN (";

fn growing() -> impl Iterator<Item = &'static str> {
    let growing = Kind::ALL
        .into_iter()
        .filter(|kind| kind.detector().is_growth);
    growing.map(Kind::as_str)
}

#[test]
fn other_languages_have_the_kinds_of_the_detectors() {
    let detectors: Vec<&Detector> = Kind::ALL.into_iter().map(Kind::detector).collect();
    is_current("docs/schemas/kinds.json", &pretty(&detectors));

    let kinds: Vec<String> = issue_kinds().map(|kind| format!("\"{kind}\"")).collect();
    let kinds = kinds.join(",\n    ");
    let python = format!(
        "\"\"\"The kinds of issues. Written by a test of the crate stormlog, from its list of detectors.\
         \"\"\"\n\nfrom typing import Literal\n\nIssueKind = Literal[\n    {kinds},\n]\n"
    );
    is_current("python/stormlog/_kinds.py", &python);

    let file = "lake/views/fleet_leaks.sql";
    let view = std::fs::read_to_string(repository().join(file)).unwrap();
    let kinds: Vec<String> = growing().map(|kind| format!("'{kind}'")).collect();
    let (before, after) = view.split_once(SELECTED).unwrap();
    let (_, after) = after.split_once(')').unwrap();
    is_current(
        file,
        &format!("{before}{SELECTED}{}){after}", kinds.join(", ")),
    );
}

#[test]
fn documents_name_the_kinds() {
    let text = |file: &str| std::fs::read_to_string(repository().join(file)).unwrap();
    let table = text("docs/analyze.md");
    let issues = text("docs/issues.md");
    for kind in Kind::ALL {
        assert!(
            table.contains(&format!("\n| `{kind}` |")),
            "{kind} in docs/analyze.md"
        );
        assert!(
            issues.contains(&format!("`{kind}`")),
            "{kind} in docs/issues.md"
        );
    }
    for file in [
        "docs/compatibility.md",
        "docs/schemas/diagnostic-summary.schema.json",
    ] {
        let text = text(file);
        for kind in growing() {
            assert!(text.contains(&format!("`{kind}`")), "{kind} in {file}");
        }
    }
}
