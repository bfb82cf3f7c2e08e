//! The subcommands of `stormlog query` and their flags, as clap parses them.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use stormlog_analysis::issue::fingerprint::{ISSUE_KINDS, ISSUE_STATES};
use stormlog_analysis::query::{GroupBy, Metric, RunFilter};
use stormlog_compat::correlate::{DEFAULT_WINDOW_NS, EVIDENCE_KINDS, Scope};
use stormlog_format::Text;

use super::output::{Flat, Nested};
use crate::cli::named_values::named;
use crate::cli::sources::{Sources, SourcesOrRuns};

/// List runs: one per stormlog_run.json; others by run id or job id
#[expect(
    clippy::doc_markdown,
    reason = "the help prints this comment as plain text, without Markdown"
)]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query runs
  stormlog query runs experiments/
  stormlog query runs experiments/ --job-id 4711 --json")]
pub(super) struct Runs {
    #[command(flatten)]
    pub(super) sources: SourcesOrRuns,
    #[command(flatten)]
    pub(super) output: Flat,
    #[command(flatten)]
    pub(super) wanted: RunWanted,
}

#[derive(Debug, Args)]
pub(super) struct RunWanted {
    /// Only this run
    #[arg(long)]
    pub(super) run_id: Option<Text>,
    /// Only runs with this session
    #[arg(long, alias = "session")]
    pub(super) session_id: Option<Text>,
    /// Only this job
    #[arg(long)]
    pub(super) job_id: Option<Text>,
    /// Only with this rank
    #[arg(long)]
    pub(super) rank: Option<i64>,
    /// Only from this tool, such as wandb
    #[arg(long)]
    pub(super) source_namespace: Option<Text>,
    /// Only with this name in the tool of --source-namespace
    #[arg(long)]
    pub(super) source_ref: Option<Text>,
}

impl RunWanted {
    pub(super) fn filter(self) -> RunFilter {
        RunFilter {
            run_id: self.run_id,
            session_id: self.session_id,
            job_id: self.job_id,
            rank: self.rank,
            source_namespace: self.source_namespace,
            source_ref: self.source_ref,
        }
    }
}

/// List the files and links of runs: sinks, segments, bundles, URLs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query attachments experiments/ --kind oom_bundle
  stormlog query attachments experiments/ --run-id exp-1 --csv > exp-1.csv")]
pub(super) struct Attachments {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Flat,
    #[command(flatten)]
    pub(super) wanted: RunWanted,
    /// Only of this kind
    #[arg(long)]
    pub(super) kind: Option<Text>,
}

/// List sessions, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query sessions runs/
  stormlog query sessions runs/ --has-oom-bundle --json")]
pub(super) struct Sessions {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Flat,
    /// Only this session
    #[arg(long, alias = "session")]
    pub(super) session_id: Option<Text>,
    /// Only with this status, as stored in the files
    #[arg(long)]
    pub(super) status: Option<Text>,
    /// Only this job
    #[arg(long)]
    pub(super) job_id: Option<Text>,
    /// Only this rank
    #[arg(long)]
    pub(super) rank: Option<i64>,
    /// Only of this world size
    #[arg(long)]
    pub(super) world_size: Option<i64>,
    /// Only from artifacts of this kind, such as sink
    #[arg(long)]
    pub(super) source_kind: Option<Text>,
    /// Only sessions that an OOM bundle names
    #[arg(long, overrides_with = "no_has_oom_bundle")]
    pub(super) has_oom_bundle: bool,
    /// Only sessions that no OOM bundle names
    #[arg(long)]
    pub(super) no_has_oom_bundle: bool,
}

/// List events, earliest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query events runs/sink --session-id 0fe8 --event-type error
  stormlog query events runs/ --has-alert --jsonl --output alerts.jsonl")]
pub(super) struct Events {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Flat,
    /// Only of this session
    #[arg(long, alias = "session")]
    pub(super) session_id: Option<Text>,
    /// Only of this type
    #[arg(long)]
    pub(super) event_type: Option<Text>,
    /// Only of this rank
    #[arg(long)]
    pub(super) rank: Option<i64>,
    /// Only from this collector
    #[arg(long)]
    pub(super) collector: Option<Text>,
    /// Only of sessions with this status
    #[arg(long)]
    pub(super) status: Option<Text>,
    /// Not before this time, in nanoseconds since the epoch
    #[arg(long)]
    pub(super) time_start_ns: Option<i64>,
    /// Not after this time, in nanoseconds since the epoch
    #[arg(long)]
    pub(super) time_end_ns: Option<i64>,
    /// Only alerts: warnings, critical events, errors, events marked as severe
    #[arg(long, overrides_with = "no_has_alert")]
    pub(super) has_alert: bool,
    /// Only events that are not alerts
    #[arg(long)]
    pub(super) no_has_alert: bool,
    /// Only with this health of the collector in the metadata, such as degraded
    #[arg(long)]
    pub(super) collector_health_status: Option<Text>,
    /// Only with this backend in the metadata
    #[arg(long)]
    pub(super) backend: Option<Text>,
    /// At most this many rows
    #[arg(long)]
    pub(super) limit: Option<usize>,
}

/// List OOM bundles, oldest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query ooms oom_dumps/ --created-after 2026-11-01
  stormlog query ooms runs/ --session-id 0fe8 --json")]
pub(super) struct Ooms {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Flat,
    /// Only of this session
    #[arg(long, alias = "session")]
    pub(super) session_id: Option<Text>,
    /// Only bundles of this backend, such as cuda
    #[arg(long)]
    pub(super) backend: Option<Text>,
    /// Only with this reason
    #[arg(long)]
    pub(super) reason: Option<Text>,
    /// Not written before this ISO time
    #[arg(long)]
    pub(super) created_after: Option<Text>,
    /// Not written after this ISO time
    #[arg(long)]
    pub(super) created_before: Option<Text>,
}

/// List recurring issues, grouped as in stormlog 0.3.9 ('stormlog issues' does more)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query issues runs/ --severity critical
  stormlog query issues runs/ --kind oom --json")]
pub(super) struct Issues {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Nested,
    /// Only this issue
    #[arg(long)]
    pub(super) fingerprint_id: Option<Text>,
    /// Only of this kind
    #[arg(long, value_parser = PossibleValuesParser::new(ISSUE_KINDS).map(Text::from))]
    pub(super) kind: Option<Text>,
    /// Only in this state
    #[arg(long, value_parser = PossibleValuesParser::new(ISSUE_STATES).map(Text::from))]
    pub(super) state: Option<Text>,
    /// Only of this severity
    #[arg(long)]
    pub(super) severity: Option<Text>,
    /// Only seen in this session
    #[arg(long, alias = "session")]
    pub(super) session_id: Option<Text>,
}

/// Summarize a metric per session, rank or status
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query summary runs/ --metric peak_device_used_bytes
  stormlog query summary runs/ --metric alert_count --group-by status --json")]
pub(super) struct Summary {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Nested,
    /// Metric
    #[arg(long, value_parser = named(Metric::ALL.map(Metric::as_str), Metric::parse))]
    pub(super) metric: Metric,
    /// Compute one value for each of these [default: session]
    #[arg(long, value_parser = named(GroupBy::ALL.map(GroupBy::as_str), GroupBy::parse))]
    pub(super) group_by: Option<GroupBy>,
}

/// List what happened around a moment, sorted by confidence, then by distance in time
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query correlate runs/ --at-ns 1762000507000000000
  stormlog query correlate runs/ --record-id telemetry-d079… --json")]
pub(super) struct Correlate {
    #[command(flatten)]
    pub(super) sources: Sources,
    #[command(flatten)]
    pub(super) output: Nested,
    #[command(flatten)]
    pub(super) anchor: Anchor,
    /// Only of this session
    #[arg(long, alias = "session")]
    pub(super) session_id: Option<Text>,
    /// Only of this job
    #[arg(long)]
    pub(super) job_id: Option<Text>,
    /// Only of this rank, or without a rank
    #[arg(long)]
    pub(super) rank: Option<i64>,
    /// Include other sessions of the job (distributed), or not (session)
    #[arg(long, value_parser = named(Scope::ALL.map(Scope::as_str), Scope::parse), default_value = "session")]
    pub(super) scope: Scope,
    /// Nanoseconds before and after the moment
    #[arg(long, default_value_t = DEFAULT_WINDOW_NS, value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) window_ns: i64,
    /// Only evidence of this kind; repeatable
    #[arg(long, value_parser = PossibleValuesParser::new(EVIDENCE_KINDS).map(Text::from))]
    pub(super) kind: Vec<Text>,
    /// At most this many rows
    #[arg(long)]
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Anchor {
    /// The moment, in nanoseconds since the epoch
    #[arg(long)]
    pub(super) at_ns: Option<i64>,
    /// The moment of this event
    #[arg(long)]
    pub(super) record_id: Option<Text>,
}
