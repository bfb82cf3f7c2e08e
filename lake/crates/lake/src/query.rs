//! The command `query` answers the queries of `stormlog query` over a lake, with the same flags and
//! rows.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use stormlog_analysis::issue::IssueFilter;
use stormlog_analysis::issue::fingerprint::{ISSUE_KINDS, ISSUE_STATES};
use stormlog_analysis::query::{GroupBy, Metric, OomBundle, OomFilter, SessionFilter};
use stormlog_compat::correlate::{CorrelationFilter, DEFAULT_WINDOW_NS, EVIDENCE_KINDS, Scope};
use stormlog_format::Text;
use stormlog_format::json::map_of;
use stormlog_report::rows::{Columns, Rows};

use crate::lake_args::LakeArgs;
use crate::rows::{Flat, Nested};

/// Ask the questions of `stormlog query` over a lake.
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  stormlog lake query sessions --at /lake --status interrupted
  stormlog lake query summary --at /lake --metric peak_device_used_bytes
  stormlog lake query correlate --at /lake --at-ns 1762000507000000000"
)]
pub(crate) struct QueryArgs {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    Sessions(Sessions),
    Ooms(Ooms),
    Issues(Issues),
    Summary(Summary),
    Correlate(Correlate),
}

/// List sessions, newest first
#[derive(Args)]
struct Sessions {
    #[command(flatten)]
    lake: LakeArgs,
    #[command(flatten)]
    output: Flat,
    /// Only this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only with this status, as stored in the files
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
    /// Only from artifacts of this kind, such as sink
    #[arg(long)]
    source_kind: Option<String>,
    /// Only sessions that an OOM bundle names
    #[arg(long, overrides_with = "no_has_oom_bundle")]
    has_oom_bundle: bool,
    /// Only sessions that no OOM bundle names
    #[arg(long)]
    no_has_oom_bundle: bool,
}

/// List OOM bundles, oldest first
#[derive(Args)]
struct Ooms {
    #[command(flatten)]
    lake: LakeArgs,
    #[command(flatten)]
    output: Flat,
    /// Only of this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
    /// Only bundles of this backend, such as cuda
    #[arg(long)]
    backend: Option<String>,
    /// Only with this reason
    #[arg(long)]
    reason: Option<String>,
    /// Not before this time (ISO 8601)
    #[arg(long)]
    created_after: Option<String>,
    /// Not after this time (ISO 8601)
    #[arg(long)]
    created_before: Option<String>,
}

/// List recurring problems, grouped as in stormlog 0.3.9
#[derive(Args)]
struct Issues {
    #[command(flatten)]
    lake: LakeArgs,
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
    /// Only with this session
    #[arg(long, alias = "session")]
    session_id: Option<String>,
}

/// Compute one value per session, rank or status
#[derive(Args)]
struct Summary {
    #[command(flatten)]
    lake: LakeArgs,
    #[command(flatten)]
    output: Nested,
    /// What to compute
    #[arg(long, value_parser = Metric::ALL.map(Metric::as_str))]
    metric: String,
    /// What to compute one value for [default: session]
    #[arg(long, value_parser = GroupBy::ALL.map(GroupBy::as_str))]
    group_by: Option<String>,
}

/// List what happened around a moment, sorted by confidence, then by distance in time
#[derive(Args)]
struct Correlate {
    #[command(flatten)]
    lake: LakeArgs,
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
    /// Only of this rank, or without a rank
    #[arg(long)]
    rank: Option<i64>,
    /// Include other sessions of the job (distributed), or not (session)
    #[arg(long, value_parser = ["session", "distributed"], default_value = "session")]
    scope: String,
    /// Nanoseconds before and after the moment
    #[arg(long, default_value_t = DEFAULT_WINDOW_NS, value_parser = clap::value_parser!(i64).range(0..))]
    window_ns: i64,
    /// Only evidence of this kind; repeatable
    #[arg(long, value_parser = EVIDENCE_KINDS)]
    kind: Vec<String>,
    /// At most this many rows
    #[arg(long)]
    limit: Option<usize>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Anchor {
    /// The moment, in nanoseconds since the epoch
    #[arg(long)]
    at_ns: Option<i64>,
    /// The moment of this event
    #[arg(long)]
    record_id: Option<String>,
}

pub(crate) async fn run(args: QueryArgs) -> Result<ExitCode> {
    match args.question {
        Question::Sessions(question) => sessions(question).await?,
        Question::Ooms(question) => ooms(question).await?,
        Question::Issues(question) => issues(question).await?,
        Question::Summary(question) => summary(question).await?,
        Question::Correlate(question) => correlate(question).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(option: Option<String>) -> Option<Text> {
    option.map(Text::from)
}

async fn sessions(question: Sessions) -> Result<()> {
    let has_oom_bundle = match (question.has_oom_bundle, question.no_has_oom_bundle) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let filter = SessionFilter {
        session_id: text(question.session_id),
        status: text(question.status),
        job_id: text(question.job_id),
        rank: question.rank,
        world_size: question.world_size,
        has_oom_bundle,
        source_kind: text(question.source_kind),
    };
    let rows = question.lake.open().await?.sessions(&filter).await?;
    let rows = rows.iter().map(map_of);
    question.output.print(Rows::new(Columns::SESSIONS, rows))
}

async fn ooms(question: Ooms) -> Result<()> {
    let filter = OomFilter {
        session_id: text(question.session_id),
        backend: text(question.backend),
        reason: text(question.reason),
        created_after: text(question.created_after),
        created_before: text(question.created_before),
    };
    let rows = question.lake.open().await?.ooms(&filter).await?;
    let rows = rows.iter().map(OomBundle::to_row);
    question.output.print(Rows::new(Columns::OOMS, rows))
}

async fn issues(question: Issues) -> Result<()> {
    let filter = IssueFilter {
        fingerprint_id: text(question.fingerprint_id),
        kind: text(question.kind),
        state: text(question.state),
        severity: text(question.severity),
        session_id: text(question.session_id),
    };
    let rows = question.lake.open().await?.issues(&filter).await?;
    let rows = rows.iter().map(map_of);
    question.output.print(Rows::new(Columns::ISSUES, rows))
}

async fn summary(question: Summary) -> Result<()> {
    let metric = Metric::parse(&question.metric)
        .ok_or_else(|| anyhow::anyhow!("unknown metric '{}'", question.metric))?;
    let group_by = question.group_by.as_deref().and_then(GroupBy::parse);
    let asker = question.lake.open().await?;
    let rows = asker.summary(metric, group_by.unwrap_or_default()).await?;
    let rows = rows.iter().map(map_of);
    question.output.print(Rows::new(Columns::SUMMARY, rows))
}

async fn correlate(question: Correlate) -> Result<()> {
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
    let result = question.lake.open().await?.correlate(&filter).await?;
    let rows = result.evidence.iter().map(map_of);
    let rows = Rows::new(Columns::CORRELATE, rows).with_document(map_of(&result));
    question.output.print(rows)
}
