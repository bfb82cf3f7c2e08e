//! The run on the screen beside another artifact: sizes, and findings that only one has.

use std::path::Path;

use stormlog_analysis::report::{AnalyzeOptions, Report, analyze};
use stormlog_analysis::{LoadOptions, Loaded, OnError, Overview, artifacts_at, load_sessions};
use stormlog_report::bytes;

use super::model::Comparison;

/// What is loaded, compared with the artifacts at a path.
pub(crate) fn with(loaded_here: &[Loaded], path: &Path) -> anyhow::Result<Comparison> {
    let options = LoadOptions {
        on_error: OnError::Skip,
        ..LoadOptions::default()
    };
    let mut there = Vec::new();
    for artifact in artifacts_at(path)? {
        there.push(load_sessions(&artifact, &options)?);
    }
    let look = |loaded: &[Loaded]| -> anyhow::Result<(Report, Overview)> {
        let report = analyze(loaded, &AnalyzeOptions::default(), &bytes::as_reference)?;
        let sessions = loaded.iter().flat_map(|loaded| &loaded.sessions);
        Ok((report, Overview::of(sessions)))
    };
    let (here, here_sizes) = look(loaded_here)?;
    let (other, other_sizes) = look(&there)?;
    let peak = |peak: Option<stormlog_analysis::Peak>| peak.map(|peak| peak.bytes);
    let row = |name: &str, a: Option<i64>, b: Option<i64>| (name.to_owned(), a, b);
    let kinds = |report: &Report| {
        let findings = report.findings().map(|finding| finding.kind);
        findings.collect::<std::collections::BTreeSet<_>>()
    };
    let only = |ours: &Report, theirs: &Report, is_other: bool| {
        let known = kinds(theirs);
        let mut lines: Vec<(bool, String)> = ours
            .findings()
            .filter(|finding| !known.contains(&finding.kind))
            .map(|finding| (is_other, finding.explanation.clone()))
            .collect();
        lines.dedup();
        lines
    };
    let mut only_one = only(&here, &other, false);
    only_one.extend(only(&other, &here, true));
    Ok(Comparison {
        name: path.display().to_string(),
        rows: vec![
            row(
                "peak allocated",
                peak(here_sizes.allocated),
                peak(other_sizes.allocated),
            ),
            row(
                "peak reserved",
                peak(here_sizes.reserved),
                peak(other_sizes.reserved),
            ),
            row(
                "peak device used",
                peak(here_sizes.used),
                peak(other_sizes.used),
            ),
            row("capacity", here_sizes.total_bytes, other_sizes.total_bytes),
        ],
        only_one,
    })
}
