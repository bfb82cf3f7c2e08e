//! `stormlog issues check`: fails a build when issues are new or regressed.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use stormlog_analysis::issue::{
    Issue, SIDECAR_NAME, SidecarError, StateError, States, read_states,
};
use stormlog_analysis::query::Store;
use stormlog_format::classify::Severity;
use stormlog_report::document::pretty;
use stormlog_report::issues as render;

use super::{ArtifactSet, Form, ListFormat, damaged_sidecar, is_at_least};
use crate::Exit;
use crate::cli::accept_damage::AcceptDamage;
use crate::cli::named_values::named;
use crate::cli::sources::Sources;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::now_ns;

/// Exit with 2 when there are new or regressed issues
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 when no issue fails the check; 2 when one does; 1 on failure, also
when there is nothing to check, or a recording is damaged or still open.

Examples:
  stormlog issues check runs/ --baseline main/issues.json
  stormlog issues check runs/ --min-severity warning --format github
  stormlog issues check runs/ --save"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    set: ArtifactSet,
    /// Issues known before: an issues.json, or artifacts [default: the state file]
    #[arg(long, value_name = "PATH")]
    baseline: Option<PathBuf>,
    /// Issues that fail the check
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Failing::New, Failing::Regressed])]
    fail_on: Vec<Failing>,
    /// Ignore issues below this severity
    #[arg(long, default_value_t = Severity::Info, value_parser = named(Severity::ALL.map(Severity::as_str), Severity::parse))]
    min_severity: Severity,
    #[command(flatten)]
    form: Form,
    /// After the check, write all found issues to the state file, as a baseline for later checks
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    accept_damage: AcceptDamage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Failing {
    /// Not known before
    New,
    /// Resolved before, and seen again
    Regressed,
    /// Known before and neither resolved nor ignored
    Open,
}

stormlog_format::names!(Failing {
    New => "new",
    Regressed => "regressed",
    Open => "open",
});

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let found = arguments.set.find(console)?.sound()?;
    saw_everything(&found.store, &arguments.set.sources)?;
    let baseline = match &arguments.baseline {
        Some(path) => known_before(path, console)?,
        None => found.states.clone(),
    };
    let now = now_ns();
    let judge = |issue: &Issue| {
        let own = found.states.state_of(issue, now);
        let before = baseline.state_of(issue, now);
        // An issue that is ignored or resolved in the state file or in the baseline does not fail
        // the check. Any other issue that is regressed in either of them counts as regressed.
        let verdict = match (own, before) {
            ("ignored" | "resolved", _) | (_, "ignored" | "resolved") => return None,
            ("regressed", _) | (_, "regressed") => Failing::Regressed,
            _ if baseline.knows_issue(issue) => Failing::Open,
            _ => Failing::New,
        };
        let is_severe = is_at_least(issue, arguments.min_severity);
        let counts = is_severe && arguments.fail_on.contains(&verdict);
        counts.then_some(verdict)
    };
    let failing: Vec<Failure> = found
        .issues
        .iter()
        .filter_map(|issue| {
            let failed_on = judge(issue)?;
            let mut issue = issue.clone();
            if failed_on == Failing::Regressed {
                issue.state = "regressed";
            }
            Some(Failure { failed_on, issue })
        })
        .collect();
    let exit = if failing.is_empty() {
        let artifacts: Vec<_> = found.store.artifacts().collect();
        let artifacts = artifacts.iter().map(AsRef::as_ref);
        arguments.accept_damage.check(artifacts, |_| true)?;
        Exit::Fine
    } else {
        Exit::Risk
    };
    console.decided = Some(exit);
    if arguments.save {
        found.save(&arguments.set.sidecar())?;
    }
    print(arguments, &failing, console)?;
    Ok(exit)
}

/// Returns an error when there are no recordings to check or a source could not be read, because a
/// gate must not pass without data.
fn saw_everything(store: &Store, sources: &Sources) -> anyhow::Result<()> {
    if let Some(unread) = store.unread().first() {
        let text = format!("cannot check '{}': {}", unread.path, unread.message);
        return Err(hinted(
            anyhow::anyhow!(text),
            "repair or remove the file; 'stormlog validate' lists its problems",
        ));
    }
    let mut paths = sources.paths.iter();
    // With `--lenient`, a path may be missing as long as another path has data.
    let empty = if sources.lenient {
        let has_some = paths.any(|path| store.has_evidence(path));
        sources.paths.first().filter(|_| !has_some)
    } else {
        paths.find(|path| !store.has_evidence(path))
    };
    match empty {
        None => Ok(()),
        Some(path) => Err(hinted(
            anyhow::anyhow!(
                "nothing to check in '{}': no events, no OOM bundle",
                path.display()
            ),
            "give the folder of a recorded run, which contains manifest.json, or a folder above it",
        )),
    }
}

/// Loads the issues that count as already known in this check: from a state file such as
/// `issues.json`, or by searching other recordings for issues.
fn known_before(path: &Path, console: &mut Console<'_>) -> anyhow::Result<States> {
    if !path.exists() {
        return Err(hinted(
            anyhow::anyhow!("baseline '{}' not found", path.display()),
            "'stormlog issues list PATH --save' writes a baseline",
        ));
    }
    if path.is_file() {
        match read_states(path) {
            Ok(states) => return Ok(states.unwrap_or_default()),
            // If the baseline file does not declare that it contains issue states, it is loaded as
            // a recording.
            Err(SidecarError::NotStates {
                cause: StateError::WrongFormat | StateError::NotAnObject,
                ..
            }) => {}
            Err(SidecarError::NotJson { .. })
                if path.file_name() != Some(SIDECAR_NAME.as_ref()) => {}
            Err(error) => return Err(damaged_sidecar(error)),
        }
    }
    let set = ArtifactSet::at(path);
    let found = set.find(console)?.sound()?;
    saw_everything(&found.store, &set.sources)?;
    let mut states = found.states;
    for issue in &found.issues {
        states.remember(issue);
    }
    Ok(states)
}

/// What `stormlog issues check --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    passed: bool,
    failures: &'a [Failure],
}

/// An issue that fails the check, and why.
#[derive(Serialize)]
struct Failure {
    failed_on: Failing,
    issue: Issue,
}

fn print(
    arguments: &Arguments,
    failing: &[Failure],
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let issues: Vec<Issue> = failing.iter().map(|one| one.issue.clone()).collect();
    let text = match arguments.form.format() {
        ListFormat::Text if failing.is_empty() => {
            let searched: Vec<&str> = arguments.fail_on.iter().map(|kind| kind.as_str()).collect();
            format!("passed: no {} issues\n", searched.join(" or "))
        }
        ListFormat::Text => {
            let words: Vec<String> = [Failing::Regressed, Failing::New, Failing::Open]
                .into_iter()
                .filter_map(|kind| {
                    let count = failing.iter().filter(|one| one.failed_on == kind).count();
                    (count > 0).then(|| format!("{count} {}", kind.as_str()))
                })
                .collect();
            format!("failed: {}\n{}", words.join(", "), render::text(&issues))
        }
        ListFormat::Md => render::markdown(&issues),
        ListFormat::Github => {
            let lines = failing.iter();
            render::github(lines.map(|one| (one.failed_on.as_str(), &one.issue)))
        }
        ListFormat::Json => pretty(&Document {
            passed: failing.is_empty(),
            failures: failing,
        }),
    };
    console.out.write_all(text.as_bytes())?;
    Ok(())
}
