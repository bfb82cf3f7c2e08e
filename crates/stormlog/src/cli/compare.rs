//! `stormlog compare`: compares two runs and checks gates that can fail a build.

use std::path::{Path, PathBuf};

use stormlog_analysis::Gathered;
use stormlog_analysis::analyze::AnalyzeOptions;
use stormlog_analysis::compare::{
    FailOn, Gates, GrowthLimit, Side, SideError, SlopeLimit, StepLimit, baseline_text, compare,
    read_side,
};
use stormlog_format::Text;
use stormlog_report::compare::{Document, to_github, to_markdown, to_text, unjudged_gates};
use stormlog_report::document::pretty;
use stormlog_report::escape::{for_terminal, path_for_terminal};

use super::accept_damage::AcceptDamage;
use super::analyze::positive_hours;
use super::artifact::load_failure;
use super::list_format::ListFormat;
use super::named_values::{described, named};
use super::run_files::{loading, warn_of_gathered};
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::whole_file::write_whole;

/// Compare the memory of two runs, and fail a build when it increased
///
/// Compares peaks, steady levels, slopes and hidden memory of every rank and phase. A change
/// counts when it exceeds the noise of both runs and is large enough to matter.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when all gates pass; 2 when one fails; 1 on failure, also when a
gate cannot be evaluated or a recording is damaged or still open.

Examples:
  stormlog compare runs/main runs/pr
  stormlog compare runs/main --save-baseline baseline.json
  stormlog compare baseline.json runs/pr --max-peak-growth 20%
  stormlog compare baseline.json runs/pr --fail-on new-findings --format github
  stormlog compare baseline.json runs/pr --format md >> $GITHUB_STEP_SUMMARY"
)]
pub(crate) struct Arguments {
    /// Base of the comparison: a file, folder, sink or bundle, or a saved baseline
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// Run to evaluate; optional with --save-baseline
    #[arg(value_name = "NEW", required_unless_present = "save_baseline")]
    new: Option<PathBuf>,
    /// Fail when the peak of a rank increased by more than this: 20%, 512MiB
    #[arg(long, value_name = "LIMIT")]
    max_peak_growth: Option<GrowthLimit>,
    /// Fail when memory of NEW grows faster than this: 10MB/min, 1GiB/h
    #[arg(long, value_name = "RATE")]
    max_slope: Option<SlopeLimit>,
    /// Fail when a step of NEW leaks more than this: 64KiB/step, 1MB/step
    #[arg(long, value_name = "LIMIT")]
    max_leak_per_step: Option<StepLimit>,
    /// Fail when hidden memory increased by more than this: 20%, 512MiB
    #[arg(long, value_name = "LIMIT")]
    max_gap_growth: Option<GrowthLimit>,
    /// Fail on findings that BASE does not have, or on any metric that increased
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = named(described(FAIL_ON), FailOn::parse))]
    fail_on: Vec<FailOn>,
    /// Save NEW as a baseline, unless a gate fails; without NEW, save BASE
    #[arg(long, value_name = "FILE")]
    save_baseline: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use only this session of NEW
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Use only this session of BASE
    #[arg(long, value_name = "ID")]
    base_session_id: Option<String>,
    /// Use only this rank
    #[arg(long)]
    rank: Option<i64>,
    /// Report running out of memory as a risk when it is at most this far ahead
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, value_parser = positive_hours)]
    oom_horizon: f64,
    /// Skip and list records that cannot be read
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    accept_damage: AcceptDamage,
}

const FAIL_ON: &[(&str, &str)] = &[
    ("new-findings", "A finding that BASE does not have"),
    ("higher", "Any metric that increased"),
];

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let gates = Gates {
        max_peak_growth: arguments.max_peak_growth,
        max_slope: arguments.max_slope.clone(),
        max_leak_per_step: arguments.max_leak_per_step.clone(),
        max_gap_growth: arguments.max_gap_growth,
        fail_on: arguments.fail_on.clone(),
    };
    let Some(new) = &arguments.new else {
        return save_alone(arguments, &gates, console);
    };
    let (base, of_base) = read(
        &arguments.base,
        arguments.base_session_id.as_ref(),
        arguments,
        console,
    )?;
    let (new, of_new) = read(new, arguments.session_id.as_ref(), arguments, console)?;
    let comparison = compare(base, new, &gates);
    let text = match arguments.format {
        ListFormat::Text => to_text(&comparison, console.terminal(arguments.output.as_deref())),
        ListFormat::Json => pretty(&Document::of(&comparison)),
        ListFormat::Md => to_markdown(&comparison),
        ListFormat::Github => to_github(&comparison),
    };
    if gates != Gates::default() && !comparison.failed() {
        for (side, gathered) in [(&comparison.base, &of_base), (&comparison.new, &of_new)] {
            let is_judged = |id: &Text| side.profile.sessions.contains(id);
            arguments.accept_damage.check(&gathered.loaded, is_judged)?;
        }
    }
    let unjudged = unjudged_gates(&comparison);
    let exit = match (comparison.failed(), unjudged.is_empty()) {
        (true, _) => Exit::Risk,
        (false, true) => Exit::Fine,
        (false, false) => Exit::Failure,
    };
    console.decided = Some(exit);
    super::analyze::write(arguments.output.as_deref(), &text, console)?;
    for line in &unjudged {
        writeln!(console.err, "error: {}", for_terminal(line))?;
    }
    if let Some(file) = &arguments.save_baseline {
        if comparison.passed() {
            save(file, &comparison.new, console)?;
        } else {
            writeln!(
                console.err,
                "warning: the baseline '{}' is not written, because a gate failed",
                path_for_terminal(file)
            )?;
        }
    }
    Ok(exit)
}

/// Saves a run as a baseline file for later comparisons, when only one run was given.
fn save_alone(
    arguments: &Arguments,
    gates: &Gates,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    if *gates != Gates::default() {
        return Err(hinted(
            anyhow::anyhow!("gates (--max-..., --fail-on) need two runs, and only one was given"),
            "give BASE and NEW, or omit the gates",
        ));
    }
    let session_id = arguments.session_id.as_ref();
    let session_id = session_id.or(arguments.base_session_id.as_ref());
    let (side, _) = read(&arguments.base, session_id, arguments, console)?;
    if let Some(file) = &arguments.save_baseline {
        save(file, &side, console)?;
    }
    Ok(Exit::Fine)
}

fn save(file: &Path, side: &Side, console: &mut Console<'_>) -> anyhow::Result<()> {
    if side.profile.ranks.is_empty() {
        return Err(hinted(
            anyhow::anyhow!("'{}' has no samples for a baseline", side.source),
            "record the run first: stormlog run --dir run -- COMMAND",
        ));
    }
    write_whole(file, baseline_text(side).as_bytes())?;
    let file = path_for_terminal(file);
    writeln!(console.err, "baseline saved to '{file}'")?;
    Ok(())
}

fn read(
    path: &Path,
    session_id: Option<&String>,
    arguments: &Arguments,
    console: &mut Console<'_>,
) -> anyhow::Result<(Side, Gathered)> {
    let skips = arguments.skip_damaged;
    let choice = AnalyzeOptions {
        session_id: session_id.cloned(),
        rank: arguments.rank,
        oom_horizon_hours: arguments.oom_horizon,
    };
    let (side, gathered) = loading([path], skips, console, |options| {
        read_side(path, &choice, options)
    })
    .map_err(|error| failure(error, skips))?;
    warn_of_gathered(&gathered, console)?;
    Ok((side, gathered))
}

fn failure(error: SideError, skips: bool) -> anyhow::Error {
    match error {
        SideError::Load { path, error } => load_failure(&error, &path, skips),
        SideError::Baseline(error) => hinted(
            error,
            "save the baseline again: stormlog compare RUN --save-baseline FILE",
        ),
        SideError::Analyze { .. } => hinted(
            error,
            "'stormlog show PATH' lists the sessions and ranks of an artifact",
        ),
        error => hinted(
            error,
            "give the run instead of its baseline, or a baseline of that session",
        ),
    }
}
