//! `stormlog issues`: lists problems that recur across recorded runs, stores decisions about them
//! (such as resolved or ignored), and fails a CI build when there are new ones.

mod diff;
mod gate;
mod settle;
mod show;
mod timeline;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use stormlog_analysis::issue::fingerprint::{ISSUE_STATES, issue_kinds_with_findings};
use stormlog_analysis::issue::{
    DecidedState, Issue, IssueFilter, SidecarError, States, change_states, read_states,
    read_states_of, severity_rank, sidecar_of,
};
use stormlog_analysis::query::Store;
use stormlog_format::Text;
use stormlog_format::classify::Severity;
use stormlog_report::document::pretty;
use stormlog_report::issues as render;

use super::list_format::ListFormat;
use super::named_values::named;
use super::newest_run::given_or_newest;
use super::sources::{Sources, warn};
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::now_ns;

/// List, resolve and compare problems that recur across runs; fail builds on new ones
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
    /// Mark an issue as fixed; when it is seen again, it is regressed
    #[command(after_help = "Examples:
  stormlog issues resolve 876c8d runs/ --reason 'batch size halved'
  stormlog issues resolve 876c8d runs/ --by ana")]
    Resolve(settle::Settle),
    Ignore(settle::Ignore),
    /// Mark a resolved or ignored issue as open again
    #[command(after_help = "Examples:
  stormlog issues reopen 876c8d runs/
  stormlog issues reopen 876c8d runs/ --reason 'only hidden by the smaller batch'")]
    Reopen(settle::Settle),
    Diff(diff::Arguments),
    Check(gate::Arguments),
}

/// List issues, most severe and most recent first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues list
  stormlog issues list runs/ --state regressed --json
  stormlog issues list runs/ --save")]
struct List {
    #[command(flatten)]
    set: SetOrNewest,
    #[command(flatten)]
    form: Form,
    /// Only of this kind
    #[arg(long, value_parser = PossibleValuesParser::new(issue_kinds_with_findings()))]
    kind: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = ISSUE_STATES)]
    state: Option<String>,
    /// Only with at least this severity
    #[arg(long, value_parser = named(Severity::ALL.map(Severity::as_str), Severity::parse))]
    min_severity: Option<Severity>,
    /// Only seen in this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Write all found issues to the state file, as a baseline for later checks
    #[arg(long)]
    save: bool,
}

/// The artifacts that are searched for issues, and the file with the states of the issues.
#[derive(Debug, Args)]
struct ArtifactSet {
    #[command(flatten)]
    sources: Sources,
    /// State file [default: issues.json in or beside the first path]
    #[arg(long, value_name = "FILE")]
    sidecar: Option<PathBuf>,
}

/// Like [`ArtifactSet`], but without a path, the newest run is searched.
#[derive(Debug, Args)]
struct SetOrNewest {
    /// Sinks, files, bundles, or directories of them [default: the newest run in stormlog-runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Ignore missing paths as long as one path has data
    #[arg(long)]
    lenient: bool,
    /// State file [default: issues.json in or beside the first path]
    #[arg(long, value_name = "FILE")]
    sidecar: Option<PathBuf>,
}

impl SetOrNewest {
    fn resolve(self, console: &mut Console<'_>) -> anyhow::Result<ArtifactSet> {
        let paths = given_or_newest(&self.paths, console)?.into_owned();
        let sources = Sources {
            paths,
            lenient: self.lenient,
        };
        Ok(ArtifactSet {
            sources,
            sidecar: self.sidecar,
        })
    }
}

/// How a list is printed.
#[derive(Debug, Args)]
struct Form {
    /// Output format
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
    /// Print JSON, like --format json
    #[arg(long)]
    json: bool,
}

impl Form {
    fn format(&self) -> ListFormat {
        if self.json {
            ListFormat::Json
        } else {
            self.format
        }
    }
}

fn is_at_least(issue: &Issue, least: Severity) -> bool {
    // The rank of the worst severity is 0.
    severity_rank(&issue.severity) <= severity_rank(&least.as_str().into())
}

/// Runs the subcommand of `stormlog issues` that the user gave, such as `list` or `resolve`.
pub(crate) fn run(arguments: Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match arguments.action {
        Action::List(arguments) => list(arguments, console),
        Action::Show(arguments) => show::run(&arguments, console),
        Action::Resolve(arguments) => settle::settle(arguments, DecidedState::Resolved, console),
        Action::Ignore(arguments) => settle::ignore(arguments, console),
        Action::Reopen(arguments) => settle::settle(arguments, DecidedState::Open, console),
        Action::Diff(arguments) => diff::run(&arguments, console),
        Action::Check(arguments) => gate::run(&arguments, console),
    }
}

/// The issues (problems that recur across runs) found in the given recordings. `states` contains
/// the decisions about them, such as resolved or ignored, from the file `issues.json`.
struct Found {
    store: Store,
    issues: Vec<Issue>,
    states: States,
    /// Why the states of the issues could not be read. The issues themselves are found even when
    /// their states cannot be read.
    damaged: Option<SidecarError>,
}

impl ArtifactSet {
    /// The issues of one path, with the states from the `issues.json` of that path.
    fn at(path: &Path) -> Self {
        Self {
            sources: Sources {
                paths: vec![path.to_path_buf()],
                lenient: false,
            },
            sidecar: None,
        }
    }

    fn sidecar(&self) -> PathBuf {
        match &self.sidecar {
            Some(file) => file.clone(),
            None => sidecar_of(self.first_path()),
        }
    }

    fn first_path(&self) -> &Path {
        let first = self.sources.paths.first();
        first.map_or(Path::new("."), PathBuf::as_path)
    }

    /// Reads the states of issues from the given file, or from the `issues.json` beside the
    /// artifacts.
    fn states(&self) -> Result<Option<States>, SidecarError> {
        match &self.sidecar {
            Some(file) => read_states(file),
            None => read_states_of(self.first_path()),
        }
    }

    fn find(&self, console: &mut Console<'_>) -> anyhow::Result<Found> {
        let store = self.sources.open(console)?;
        let (states, damaged) = match self.states() {
            Ok(states) => (states.unwrap_or_default(), None),
            Err(error) => (States::default(), Some(error)),
        };
        let mut issues = store.issues_with_findings(&IssueFilter::default(), &HashMap::new());
        // The states depend on the time, because an issue may be ignored only until a date.
        states.apply(&mut issues, now_ns());
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
    /// Finds the issue whose id starts with `id`. Fails if no issue id, or more than one, starts
    /// with `id`.
    fn named(&self, id: &str) -> anyhow::Result<&Issue> {
        let wanted = id.strip_prefix("issue:").unwrap_or(id);
        let begins = |id: &Text| {
            let known = id.to_str_lossy();
            let known = known.strip_prefix("issue:").unwrap_or(&known);
            known.starts_with(wanted)
        };
        // An id that an earlier version of Stormlog printed still selects its issue.
        let means =
            |issue: &&Issue| begins(&issue.fingerprint_id) || issue.former_ids.iter().any(begins);
        let mut found = self.issues.iter().filter(means);
        match (found.next(), found.next()) {
            (Some(issue), None) => Ok(issue),
            (Some(_), Some(_)) => Err(hinted(
                anyhow::anyhow!("more than one issue id starts with '{id}'"),
                "give more characters of the id",
            )),
            (None, _) => Err(hinted(
                anyhow::anyhow!("no issue id starts with '{id}'"),
                "'stormlog issues list' shows the ids of all issues",
            )),
        }
    }

    /// Returns the issues, or an error when the file with their states could not be read.
    fn sound(self) -> anyhow::Result<Self> {
        match self.damaged {
            None => Ok(self),
            Some(error) => Err(damaged_sidecar(error)),
        }
    }

    /// Adds every found issue to the state file `sidecar`. Later checks treat the issues in this
    /// file as already known.
    fn save(&self, sidecar: &Path) -> anyhow::Result<()> {
        change_states(sidecar, |states| {
            for issue in &self.issues {
                states.remember(issue);
            }
        })?;
        Ok(())
    }

    /// Returns an error when the states of the issues could not be read; called after the issues
    /// were printed.
    fn finish(self) -> anyhow::Result<Exit> {
        self.sound().map(|_| Exit::Fine)
    }
}

fn damaged_sidecar(error: SidecarError) -> anyhow::Error {
    hinted(
        error,
        "'stormlog issues list' still lists the issues, but not their states; repair the file or \
         move it away",
    )
}

fn list(arguments: List, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let set = arguments.set.resolve(console)?;
    let found = set.find(console)?;
    if arguments.save && found.damaged.is_none() {
        found.save(&set.sidecar())?;
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
            .is_none_or(|least| is_at_least(issue, least));
        filter.accepts(issue) && bad_enough
    };
    let wanted: Vec<Issue> = found.issues.iter().filter(is_wanted).cloned().collect();
    let text = match arguments.form.format() {
        ListFormat::Text => render::text(&wanted),
        ListFormat::Md => render::markdown(&wanted),
        ListFormat::Github => render::github(wanted.iter().map(|issue| (issue.state, issue))),
        ListFormat::Json => pretty(&wanted),
    };
    console.out.write_all(text.as_bytes())?;
    found.finish()
}
