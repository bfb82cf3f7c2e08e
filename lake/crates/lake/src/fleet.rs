//! The commands with predefined queries about a fleet; each lists the rows of a view in
//! `lake/views`, sorted.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use futures::TryStreamExt;
use stormlog_format::Map;
use stormlog_lake_ask::{Filter, FleetQuestion, OomGroup, rows_of};
use stormlog_report::rows::Rows;

use crate::lake_args::LakeArgs;
use crate::rows::{Flat, column_names};

/// Flags that all commands about a fleet have.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    lake: LakeArgs,
    #[command(flatten)]
    output: Flat,
    /// At most this many rows
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// Which jobs.
#[derive(Args)]
struct Wanted {
    /// Only this job
    #[arg(long)]
    job_id: Option<String>,
    /// Only jobs of this user
    #[arg(long)]
    user: Option<String>,
}

/// List runs whose memory grows without end, the fastest growth first.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake leaks --at /lake\n  stormlog lake leaks --at s3://bucket/fleet --user ada --json"
)]
pub(crate) struct LeaksArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    wanted: Wanted,
}

/// List memory that is reserved but not used, in GiB-hours by job and user, the largest first.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake waste --at /lake\n  stormlog lake waste --at /lake --csv --output waste.csv"
)]
pub(crate) struct WasteArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    wanted: Wanted,
}

/// Count out-of-memory errors by host, job or user, and compare each count with the device hours.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake ooms --at /lake --by host\n  stormlog lake ooms --at /lake --by user --json"
)]
pub(crate) struct OomsArgs {
    #[command(flatten)]
    common: Common,
    /// Whether each row is for a host, a job or a user
    #[arg(long, value_enum, default_value_t = By::Host)]
    by: By,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Host,
    Job,
    User,
}

/// List how close jobs came to the limit of their devices, the closest first.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake headroom --at /lake\n  stormlog lake headroom --at /lake --job-id 4711"
)]
pub(crate) struct HeadroomArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    wanted: Wanted,
}

/// List peak memory by commit and framework version, the largest increase first.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake regressions --at /lake\n  stormlog lake regressions --at /lake --program train.py"
)]
pub(crate) struct RegressionsArgs {
    #[command(flatten)]
    common: Common,
    /// Only this program
    #[arg(long)]
    program: Option<String>,
}

impl Wanted {
    fn filter(self) -> Filter {
        Filter {
            job_id: self.job_id,
            owner: self.user,
            ..Filter::default()
        }
    }
}

pub(crate) async fn leaks(args: LeaksArgs) -> Result<ExitCode> {
    answer(&FleetQuestion::Leaks, args.wanted.filter(), &args.common).await
}

pub(crate) async fn waste(args: WasteArgs) -> Result<ExitCode> {
    answer(&FleetQuestion::Waste, args.wanted.filter(), &args.common).await
}

pub(crate) async fn ooms(args: OomsArgs) -> Result<ExitCode> {
    let by = match args.by {
        By::Host => OomGroup::Host,
        By::Job => OomGroup::Job,
        By::User => OomGroup::Owner,
    };
    answer(&FleetQuestion::Ooms(by), Filter::default(), &args.common).await
}

pub(crate) async fn headroom(args: HeadroomArgs) -> Result<ExitCode> {
    answer(&FleetQuestion::Headroom, args.wanted.filter(), &args.common).await
}

pub(crate) async fn regressions(args: RegressionsArgs) -> Result<ExitCode> {
    let filter = Filter {
        program: args.program,
        ..Filter::default()
    };
    answer(&FleetQuestion::Regressions, filter, &args.common).await
}

async fn answer(question: &FleetQuestion, filter: Filter, common: &Common) -> Result<ExitCode> {
    let asker = common.lake.open().await?;
    let answer = asker.fleet(question, &filter, common.limit).await?;
    let names = column_names(&answer);
    let batches: Vec<_> = answer.try_collect().await?;
    let mut rows: Vec<Map> = Vec::new();
    for batch in &batches {
        rows.extend(rows_of(batch)?);
    }
    common.output.print(Rows::named(names, rows.into_iter()))?;
    Ok(ExitCode::SUCCESS)
}
