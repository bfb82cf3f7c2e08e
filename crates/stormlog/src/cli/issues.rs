//! `stormlog issues`: recurring trouble, what people say about it, and a gate for CI.

mod gate;
mod show;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use stormlog_analysis::issue::{
    ChangedIssue, DecidedState, Decision, Issue, IssueFilter, SidecarError, States, change_states,
    compare, read_states, severity_rank, sidecar_of,
};
use stormlog_analysis::query::{Store, iso_to_ns};
use stormlog_format::fingerprint::ISSUE_STATES;
use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::{Map, Text, Value};
use stormlog_report::escape::for_terminal;
use stormlog_report::issues as render;

use super::sources::{Sources, warn};
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::now_ns;

/// Recurring trouble across runs: list it, settle it, compare it, gate on it
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  stormlog issues list runs/
  stormlog issues show 876c8d runs/
  stormlog issues resolve 876c8d runs/ --reason 'batch size halved'
  stormlog issues ignore 4071770 runs/ --for 14d
  stormlog issues diff runs/monday runs/tuesday --format md
  stormlog issues check runs/ --baseline main/issues.json --fail-on new,regressed"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Show(show::Arguments),
    Resolve(Settle),
    Ignore(Ignore),
    Reopen(Settle),
    Diff(Diff),
    Check(gate::Arguments),
}

/// List issues, the worst and latest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues list runs/
  stormlog issues list runs/ --state regressed --json
  stormlog issues list runs/ --save")]
struct List {
    #[command(flatten)]
    set: ArtifactSet,
    #[command(flatten)]
    form: Form,
    /// Only of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = ISSUE_STATES)]
    state: Option<String>,
    /// At least this bad
    #[arg(long, value_enum)]
    min_severity: Option<Severity>,
    /// Only seen in this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Note every issue in the sidecar, as a baseline for later
    #[arg(long)]
    save: bool,
}

/// Say that an issue is settled
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues resolve 876c8d runs/ --reason 'batch size halved'
  stormlog issues reopen 876c8d runs/")]
struct Settle {
    /// The issue: its id, or the beginning of it
    id: String,
    #[command(flatten)]
    set: ArtifactSet,
    #[command(flatten)]
    why: Why,
}

/// Say that nobody wants to hear of an issue, for ever or until a time
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues ignore 4071770 runs/ --reason 'known, harmless'
  stormlog issues ignore 4071770 runs/ --until 2026-12-01
  stormlog issues ignore 4071770 runs/ --for 14d")]
struct Ignore {
    #[command(flatten)]
    settle: Settle,
    /// Until this ISO date or time
    #[arg(long, value_name = "TIME", conflicts_with = "duration")]
    until: Option<String>,
    /// For so long: 14d, 12h, 2w
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
}

#[derive(Debug, Args)]
struct Why {
    /// Why, in a few words
    #[arg(long)]
    reason: Option<String>,
    /// Who says so
    #[arg(long, env = "USER", default_value = "unknown", hide_env_values = true)]
    by: String,
}

/// What is new, gone, back or more frequent between two artifact sets
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues diff runs/monday runs/tuesday
  stormlog issues diff old/ new/ --format md >> \"$GITHUB_STEP_SUMMARY\"")]
struct Diff {
    /// The artifacts before
    old: PathBuf,
    /// The artifacts after
    new: PathBuf,
    #[command(flatten)]
    form: Form,
}

/// Artifacts and the file of what people say about their issues.
#[derive(Debug, Args)]
struct ArtifactSet {
    #[command(flatten)]
    sources: Sources,
    /// The file of states; without it, issues.json in or beside the first path
    #[arg(long, value_name = "FILE")]
    sidecar: Option<PathBuf>,
}

/// How a list is printed.
#[derive(Debug, Args)]
struct Form {
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print JSON, as --format json
    #[arg(long)]
    json: bool,
}

impl Form {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// A Markdown table
    Md,
    /// Annotations for GitHub Actions
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    fn admits(self, issue: &Issue) -> bool {
        let most: u8 = match self {
            Self::Critical => 0,
            Self::Warning => 1,
            Self::Info => 2,
        };
        severity_rank(&issue.severity) <= most
    }
}

/// Runs a command about issues.
pub(crate) fn run(arguments: Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match arguments.action {
        Action::List(arguments) => list(arguments, console),
        Action::Show(arguments) => show::run(&arguments, console),
        Action::Resolve(arguments) => settle(arguments, DecidedState::Resolved, console),
        Action::Ignore(arguments) => {
            let until_ns = until(&arguments)?;
            settle(
                arguments.settle,
                DecidedState::Ignored { until_ns },
                console,
            )
        }
        Action::Reopen(arguments) => settle(arguments, DecidedState::Open, console),
        Action::Diff(arguments) => diff(&arguments, console),
        Action::Check(arguments) => gate::run(&arguments, console),
    }
}

/// The issues of an artifact set with their states.
struct Found {
    store: Store,
    issues: Vec<Issue>,
    states: States,
    /// Why the states could not be read; the issues are derived all the same.
    damaged: Option<SidecarError>,
}

impl ArtifactSet {
    fn sidecar(&self) -> PathBuf {
        match &self.sidecar {
            Some(file) => file.clone(),
            None => sidecar_of(
                self.sources
                    .paths
                    .first()
                    .map_or(Path::new("."), |path| path),
            ),
        }
    }

    fn find(&self, console: &mut Console<'_>) -> anyhow::Result<Found> {
        let store = self.sources.open(console)?;
        let (states, damaged) = match read_states(&self.sidecar()) {
            Ok(states) => (states.unwrap_or_default(), None),
            Err(error) => (States::default(), Some(error)),
        };
        let issues = derive(&store, &states);
        warn(&store, console)?;
        Ok(Found {
            store,
            issues,
            states,
            damaged,
        })
    }
}

impl Found {
    /// The issue that an id, or the beginning of one, means.
    fn named(&self, id: &str) -> anyhow::Result<&Issue> {
        let wanted = id.strip_prefix("issue:").unwrap_or(id);
        let means = |issue: &&Issue| {
            let known = issue.fingerprint_id.to_str_lossy();
            known
                .strip_prefix("issue:")
                .unwrap_or(&known)
                .starts_with(wanted)
        };
        let mut found = self.issues.iter().filter(means);
        match (found.next(), found.next()) {
            (Some(issue), None) => Ok(issue),
            (Some(_), Some(_)) => Err(hinted(
                anyhow::anyhow!("more than one issue begins with '{id}'"),
                "give more of the id",
            )),
            (None, _) => Err(hinted(
                anyhow::anyhow!("no issue begins with '{id}'"),
                "stormlog issues list shows the ids of all issues",
            )),
        }
    }

    /// Fails when the states could not be read, after the rest was told.
    fn finish(self) -> anyhow::Result<Exit> {
        match self.damaged {
            None => Ok(Exit::Fine),
            Some(error) => Err(damaged_sidecar(error)),
        }
    }
}

fn damaged_sidecar(error: SidecarError) -> anyhow::Error {
    hinted(
        error,
        "the issues are derived from the artifacts and still listed; mend the file or move it away",
    )
}

/// Issues with their states as of now.
fn derive(store: &Store, states: &States) -> Vec<Issue> {
    let filter = IssueFilter::default();
    let mut issues = store.issues(&filter, &std::collections::HashMap::new(), &[]);
    let now = now_ns();
    for issue in &mut issues {
        issue.state = states.state_of(issue, now);
    }
    issues
}

fn list(arguments: List, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let found = arguments.set.find(console)?;
    if arguments.save && found.damaged.is_none() {
        change_states(&arguments.set.sidecar(), |states| {
            for issue in &found.issues {
                states.remember(issue);
            }
        })?;
    }
    let filter = IssueFilter {
        kind: arguments.kind.map(Text::from),
        state: arguments.state.map(Text::from),
        session_id: arguments.session_id.map(Text::from),
        ..IssueFilter::default()
    };
    let is_wanted = |issue: &&Issue| {
        let bad_enough = arguments
            .min_severity
            .is_none_or(|least| least.admits(issue));
        filter.accepts(issue) && bad_enough
    };
    let wanted: Vec<Issue> = found.issues.iter().filter(is_wanted).cloned().collect();
    let text = match arguments.form.format() {
        Format::Text => render::text(&wanted),
        Format::Md => render::markdown(&wanted),
        Format::Github => render::github(wanted.iter().map(|issue| (issue.state, issue))),
        Format::Json => json(&list_of(
            wanted.iter().map(|issue| object(issue, &found.states)),
        )),
    };
    console.out.write_all(text.as_bytes())?;
    found.finish()
}

/// The documented issue object: the issue and what the sidecar says about it.
fn object(issue: &Issue, states: &States) -> Map {
    let mut map = issue.to_map();
    if let Some(entry) = states.entry(&issue.fingerprint_id) {
        let mut info = Map::new();
        for key in ["changed_at_ns", "changed_by", "reason", "ignored_until_ns"] {
            info.insert(key, entry.get(key).cloned().unwrap_or(Value::Null));
        }
        map.insert("state_info", Value::Map(info));
    }
    map
}

fn list_of(maps: impl Iterator<Item = Map>) -> Value {
    Value::List(maps.map(Value::Map).collect())
}

fn json(value: &Value) -> String {
    let writer = Writer::new(Layout::Indented).non_finite(NonFinite::Bare);
    let mut text = writer.to_string(value);
    text.push('\n');
    text
}

fn settle(
    arguments: Settle,
    state: DecidedState,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let found = arguments.set.find(console)?;
    if let Some(error) = found.damaged {
        return Err(damaged_sidecar(error));
    }
    let issue = found.named(&arguments.id)?;
    let decision = Decision {
        state,
        by: arguments.why.by.into(),
        at_ns: now_ns(),
        reason: arguments.why.reason.map(Text::from),
    };
    let file = arguments.set.sidecar();
    let states = change_states(&file, |states| {
        for known in &found.issues {
            states.remember(known);
        }
        states.decide(issue, &decision);
    })?;
    let state = states.state_of(issue, now_ns());
    let line = format!("{} is {state}: {}", issue.fingerprint_id, issue.title);
    writeln!(console.out, "{}", for_terminal(&line))?;
    let file = file.to_string_lossy();
    writeln!(console.err, "noted in '{}'", for_terminal(&file))?;
    Ok(Exit::Fine)
}

fn until(arguments: &Ignore) -> anyhow::Result<Option<i64>> {
    if let Some(time) = &arguments.until {
        let until = iso_to_ns(time).with_context(|| format!("'{time}' is no ISO date or time"))?;
        return Ok(Some(until));
    }
    let Some(text) = &arguments.duration else {
        return Ok(None);
    };
    let unknown = || format!("'{text}' is no duration such as 14d, 12h or 2w");
    let place = text
        .find(|ch: char| !ch.is_ascii_digit())
        .with_context(unknown)?;
    let seconds = match &text[place..] {
        "w" => 7 * 86_400,
        "d" => 86_400,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => anyhow::bail!(unknown()),
    };
    let count: i64 = text[..place].parse().with_context(unknown)?;
    let length = count
        .checked_mul(seconds)
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|length| length.checked_add(now_ns()));
    length.map(Some).with_context(unknown)
}

fn diff(arguments: &Diff, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let side = |path: &Path, console: &mut Console<'_>| {
        let set = ArtifactSet {
            sources: Sources {
                paths: vec![path.to_path_buf()],
                lenient: false,
            },
            sidecar: None,
        };
        let found = set.find(console)?;
        match found.damaged {
            None => Ok(found),
            Some(error) => Err(damaged_sidecar(error)),
        }
    };
    let old = side(&arguments.old, console)?;
    let mut new = side(&arguments.new, console)?;
    // What was resolved before is back, whichever side took note of it.
    let now = now_ns();
    for issue in &mut new.issues {
        if old.states.state_of(issue, now) == "regressed" {
            issue.state = "regressed";
        }
    }
    let changes = compare(&old.issues, &new.issues);
    let text = match arguments.form.format() {
        Format::Text => render::changes_text(&changes),
        Format::Md => render::changes_markdown(&changes),
        Format::Github => {
            let lines = changes.iter();
            render::github(lines.map(|changed| (changed.change.as_str(), &changed.issue)))
        }
        Format::Json => json(&list_of(changes.iter().map(ChangedIssue::to_map))),
    };
    console.out.write_all(text.as_bytes())?;
    Ok(Exit::Fine)
}
