//! `stormlog query`: questions over many artifacts.

mod output;
mod table;
mod watch;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stormlog_analysis::issue::{Issue, IssueFilter};
use stormlog_analysis::query::{
    CorrelationFilter, DEFAULT_WINDOW_NS, EVIDENCE_KINDS, EventFilter, EventRow, Evidence, GroupBy,
    Metric, OomFilter, OomRow, RunAttachmentFilter, RunAttachmentRow, RunFilter, RunRow, Scope,
    SessionFilter, SessionRow, Store, SummaryRow,
};
use stormlog_format::Text;
use stormlog_format::fingerprint::{ISSUE_KINDS, ISSUE_STATES};

use super::sources::{Sources, warn};
use crate::Exit;
use crate::console::Console;
use crate::machine::on_this_machine;
pub(crate) use output::cell;
use output::{Columns, Flat, Nested, Rows};

/// Ask questions over sinks, files and bundles: sessions, events, runs, issues, summaries
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  stormlog query sessions runs/ --status interrupted
  stormlog query events runs/sink --has-alert --limit 20 --json
  stormlog query summary runs/ --metric peak_device_used_bytes --group-by session-rank
  stormlog query correlate runs/ --at-ns 1762000507000000000 --scope distributed
  stormlog query watch runs/"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    Runs(Runs),
    Attachments(Attachments),
    Sessions(Sessions),
    Events(Events),
    Ooms(Ooms),
    Issues(Issues),
    Summary(Summary),
    Correlate(Correlate),
    Watch(watch::Arguments),
}

/// List runs: described by an envelope, or sessions that share a job
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query runs experiments/
  stormlog query runs experiments/ --job-id 4711 --json")]
struct Runs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Flat,
    #[command(flatten)]
    wanted: RunWanted,
}

#[derive(Debug, Args)]
struct RunWanted {
    /// Only this run
    #[arg(long)]
    run_id: Option<String>,
    /// Only runs with this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only this job
    #[arg(long)]
    job_id: Option<String>,
    /// Only with this rank
    #[arg(long)]
    rank: Option<i64>,
    /// Only from this tool, `wandb` for example
    #[arg(long)]
    source_namespace: Option<String>,
    /// Only with this name in that tool
    #[arg(long)]
    source_ref: Option<String>,
}

/// List what belongs to runs: sinks, segments, bundles, links
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query attachments experiments/ --kind oom_bundle
  stormlog query attachments experiments/ --run-id exp-1 --csv > exp-1.csv")]
struct Attachments {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Flat,
    #[command(flatten)]
    wanted: RunWanted,
    /// Only of this kind
    #[arg(long)]
    kind: Option<String>,
}

/// List sessions, the newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query sessions runs/
  stormlog query sessions runs/ --has-oom-bundle --json")]
struct Sessions {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Flat,
    /// Only this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only with this status, as the files have it
    #[arg(long)]
    status: Option<String>,
    /// Only this job
    #[arg(long)]
    job_id: Option<String>,
    /// Only this rank
    #[arg(long)]
    rank: Option<i64>,
    /// Only of this world size
    #[arg(long)]
    world_size: Option<i64>,
    /// Only from sources of this kind
    #[arg(long)]
    source_kind: Option<String>,
    /// Only sessions that an OOM bundle names
    #[arg(long, overrides_with = "no_has_oom_bundle")]
    has_oom_bundle: bool,
    /// Only sessions that no OOM bundle names
    #[arg(long)]
    no_has_oom_bundle: bool,
}

/// List events, the earliest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query events runs/sink --session-id 0fe8 --event-type error
  stormlog query events runs/ --has-alert --jsonl --output alerts.jsonl")]
struct Events {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Flat,
    /// Only of this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only of this type
    #[arg(long)]
    event_type: Option<String>,
    /// Only of this rank
    #[arg(long)]
    rank: Option<i64>,
    /// Only from this collector
    #[arg(long)]
    collector: Option<String>,
    /// Only of sessions with this status
    #[arg(long)]
    status: Option<String>,
    /// Not before this time, in nanoseconds since the epoch
    #[arg(long)]
    time_start_ns: Option<i64>,
    /// Not after this time, in nanoseconds since the epoch
    #[arg(long)]
    time_end_ns: Option<i64>,
    /// Only warnings, critical events, errors and what is marked as severe
    #[arg(long, overrides_with = "no_has_alert")]
    has_alert: bool,
    /// Only events that are no alerts
    #[arg(long)]
    no_has_alert: bool,
    /// Only with this health in the metadata
    #[arg(long)]
    collector_health_status: Option<String>,
    /// Only with this backend in the metadata
    #[arg(long)]
    backend: Option<String>,
    /// At most so many
    #[arg(long)]
    limit: Option<usize>,
}

/// List OOM bundles, the oldest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query ooms oom_dumps/ --created-after 2026-11-01
  stormlog query ooms runs/ --session-id 0fe8 --json")]
struct Ooms {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Flat,
    /// Only of this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only of this backend
    #[arg(long)]
    backend: Option<String>,
    /// Only for this reason
    #[arg(long)]
    reason: Option<String>,
    /// Not written before this ISO time
    #[arg(long)]
    created_after: Option<String>,
    /// Not written after this ISO time
    #[arg(long)]
    created_before: Option<String>,
}

/// List recurring issues as the reference groups them (`stormlog issues` does more)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query issues runs/ --severity critical
  stormlog query issues runs/ --kind oom --json")]
struct Issues {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Nested,
    /// Only this issue
    #[arg(long)]
    fingerprint_id: Option<String>,
    /// Only of this kind
    #[arg(long, value_parser = ISSUE_KINDS)]
    kind: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = ISSUE_STATES)]
    state: Option<String>,
    /// Only of this severity
    #[arg(long)]
    severity: Option<String>,
    /// Only seen in this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
}

/// One number per session, rank or status
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query summary runs/ --metric peak_device_used_bytes
  stormlog query summary runs/ --metric alert_count --group-by status --json")]
struct Summary {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Nested,
    /// What to summarize
    #[arg(long, value_parser = Metric::ALL.map(Metric::as_str))]
    metric: String,
    /// What one number stands for
    #[arg(long, value_parser = GroupBy::ALL.map(GroupBy::as_str))]
    group_by: Option<String>,
}

/// What happened around a moment, the surest and nearest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query correlate runs/ --at-ns 1762000507000000000
  stormlog query correlate runs/ --record-id telemetry-d079… --scope distributed --json")]
struct Correlate {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Nested,
    #[command(flatten)]
    anchor: Anchor,
    /// Only of this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only of this job
    #[arg(long)]
    job_id: Option<String>,
    /// Only of this rank, and what has none
    #[arg(long)]
    rank: Option<i64>,
    /// Whether other sessions of the job count
    #[arg(long, value_parser = ["session", "distributed"], default_value = "session")]
    scope: String,
    /// How far to look before and after
    #[arg(long, default_value_t = DEFAULT_WINDOW_NS, value_parser = clap::value_parser!(i64).range(0..))]
    window_ns: i64,
    /// Only evidence of this kind; give it again for more
    #[arg(long, value_parser = EVIDENCE_KINDS)]
    kind: Vec<String>,
    /// At most so much evidence
    #[arg(long)]
    limit: Option<usize>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Anchor {
    /// The moment, in nanoseconds since the epoch
    #[arg(long)]
    at_ns: Option<i64>,
    /// The moment of this event
    #[arg(long)]
    record_id: Option<String>,
}

/// Answers a question.
pub(crate) fn run(arguments: Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match arguments.question {
        Question::Runs(question) => runs(question, console),
        Question::Attachments(question) => attachments(question, console),
        Question::Sessions(question) => sessions(question, console),
        Question::Events(question) => events(question, console),
        Question::Ooms(question) => ooms(question, console),
        Question::Issues(question) => issues(question, console),
        Question::Summary(question) => summary(&question, console),
        Question::Correlate(question) => correlate(question, console),
        Question::Watch(arguments) => watch::run(&arguments, console),
    }
}

/// The text of an option that was given.
fn text(option: Option<String>) -> Option<Text> {
    option.map(Text::from)
}

/// What a pair of flags for and against something says.
fn choice(yes: bool, no: bool) -> Option<bool> {
    match (yes, no) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// Opens the sources, answers, and tells of what went wrong on the way.
fn answer(
    sources: &Sources,
    console: &mut Console<'_>,
    ask: impl FnOnce(&Store, &mut Console<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let store = sources.open(console)?;
    ask(&store, console)?;
    warn(&store, console)?;
    Ok(Exit::Fine)
}

fn runs(question: Runs, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let wanted = question.wanted;
    let filter = RunFilter {
        run_id: text(wanted.run_id),
        session_id: text(wanted.session_id),
        job_id: text(wanted.job_id),
        rank: wanted.rank,
        source_namespace: text(wanted.source_namespace),
        source_ref: text(wanted.source_ref),
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.runs(&filter);
        let rows = rows.iter().map(RunRow::to_map);
        question
            .output
            .print(Rows::new(Columns::RUNS, rows), console)
    })
}

fn attachments(question: Attachments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let wanted = question.wanted;
    let filter = RunAttachmentFilter {
        run_id: text(wanted.run_id),
        session_id: text(wanted.session_id),
        job_id: text(wanted.job_id),
        rank: wanted.rank,
        kind: text(question.kind),
        source_namespace: text(wanted.source_namespace),
        source_ref: text(wanted.source_ref),
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.run_attachments(&filter);
        let rows = rows.iter().map(RunAttachmentRow::to_map);
        question
            .output
            .print(Rows::new(Columns::ATTACHMENTS, rows), console)
    })
}

fn sessions(question: Sessions, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = SessionFilter {
        session_id: text(question.session_id),
        status: text(question.status),
        job_id: text(question.job_id),
        rank: question.rank,
        world_size: question.world_size,
        has_oom_bundle: choice(question.has_oom_bundle, question.no_has_oom_bundle),
        source_kind: text(question.source_kind),
    };
    answer(&question.sources, console, |store, console| {
        let rows = on_this_machine(|here| store.sessions(&filter, Some(here)));
        let rows = rows.iter().map(SessionRow::to_map);
        question
            .output
            .print(Rows::new(Columns::SESSIONS, rows), console)
    })
}

fn events(question: Events, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = EventFilter {
        session_id: text(question.session_id),
        event_type: text(question.event_type),
        rank: question.rank,
        collector: text(question.collector),
        status: text(question.status),
        time_start_ns: question.time_start_ns,
        time_end_ns: question.time_end_ns,
        has_alert: choice(question.has_alert, question.no_has_alert),
        collector_health_status: text(question.collector_health_status),
        backend: text(question.backend),
        limit: question.limit,
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.events(&filter);
        let rows = rows.iter().map(EventRow::to_map);
        question
            .output
            .print(Rows::new(Columns::EVENTS, rows), console)
    })
}

fn ooms(question: Ooms, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = OomFilter {
        session_id: text(question.session_id),
        backend: text(question.backend),
        reason: text(question.reason),
        created_after: text(question.created_after),
        created_before: text(question.created_before),
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.oom_bundles(&filter);
        let rows = rows.iter().map(OomRow::to_map);
        question
            .output
            .print(Rows::new(Columns::OOMS, rows), console)
    })
}

fn issues(question: Issues, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = IssueFilter {
        fingerprint_id: text(question.fingerprint_id),
        kind: text(question.kind),
        state: text(question.state),
        severity: text(question.severity),
        session_id: text(question.session_id),
    };
    answer(&question.sources, console, |store, console| {
        let rows = store.issues(&filter, &std::collections::HashMap::new(), &[]);
        let rows = rows.iter().map(Issue::to_map);
        question
            .output
            .print(Rows::new(Columns::ISSUES, rows), console)
    })
}

fn summary(question: &Summary, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let metric = Metric::parse(&question.metric)
        .ok_or_else(|| anyhow::anyhow!("unknown metric '{}'", question.metric))?;
    let group_by = question.group_by.as_deref().and_then(GroupBy::parse);
    answer(&question.sources, console, |store, console| {
        let rows = store.summarize(metric, group_by.unwrap_or_default());
        let rows = rows.iter().map(SummaryRow::to_map);
        question
            .output
            .print(Rows::new(Columns::SUMMARY, rows), console)
    })
}

fn correlate(question: Correlate, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let filter = CorrelationFilter {
        session_id: text(question.session_id),
        job_id: text(question.job_id),
        rank: question.rank,
        scope: Scope::parse(&question.scope).unwrap_or_default(),
        at_ns: question.anchor.at_ns,
        record_id: text(question.anchor.record_id),
        window_ns: question.window_ns,
        kinds: question.kind.into_iter().map(Text::from).collect(),
        limit: question.limit,
    };
    answer(&question.sources, console, |store, console| {
        let result = store.correlate(&filter)?;
        let rows = result.evidence.iter().map(Evidence::to_map);
        let rows = Rows::new(Columns::CORRELATE, rows).with_document(result.to_map());
        question.output.print(rows, console)
    })
}

/// Where rows go when not to standard output.
type Destination = Option<PathBuf>;
