//! Compares the run on the screen with another artifact or a saved baseline, as `stormlog compare`
//! does.

use std::path::Path;

use stormlog_analysis::analyze::AnalyzeOptions;
use stormlog_analysis::compare::{Gates, Side, compare, profile_of, read_side};
use stormlog_analysis::{LoadOptions, Loaded};
use stormlog_report::Terminal;
use stormlog_report::compare::to_text;

use super::model::Comparison;

/// Compares the loaded run with a run or a saved baseline at the given path.
pub(crate) fn with(loaded: &[Loaded], source: &Path, base: &Path) -> anyhow::Result<Comparison> {
    let options = LoadOptions::skipping();
    let everything = AnalyzeOptions::default();
    let (base, _) = read_side(base, &everything, &options)?;
    let name = base.source.clone();
    let new = Side {
        source: source.display().to_string(),
        profile: profile_of(loaded, &everything)?,
    };
    let comparison = compare(base, new, &Gates::default());
    let text = to_text(&comparison, Terminal::PLAIN);
    Ok(Comparison {
        name,
        lines: text.lines().map(str::to_owned).collect(),
    })
}
