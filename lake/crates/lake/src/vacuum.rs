//! The command `vacuum` deletes files that no table version within the retention time needs.

use stormlog_format::counted;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use deltalake::operations::vacuum::VacuumMode;
use serde_json::json;
use stormlog_lake_tables::{Lake, Table, delta_error};

use crate::output;

/// Delete files that no table version within the retention time needs.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake vacuum --at /lake --dry-run\n  stormlog lake vacuum --at s3://bucket/fleet --retention 336    # hours"
)]
pub(crate) struct VacuumArgs {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
    /// Hours for which replaced files are kept, at least 168 unless --force is given
    #[arg(long, value_name = "HOURS", default_value_t = 168, value_parser = clap::value_parser!(u32).range(0..=876_000))]
    retention: u32,
    /// Accept a shorter retention: a reader or an ingest that is under way may fail
    #[arg(long)]
    force: bool,
    /// List the files and delete none
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: VacuumArgs) -> Result<ExitCode> {
    let lake = Lake::at(&args.at)?;
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for table in Table::ALL {
        let opened = lake.existing(table).await?;
        // Files of a killed ingest were never committed, so only a full vacuum, which lists the
        // directory, finds them.
        let (_, done) = opened
            .vacuum()
            .with_mode(VacuumMode::Full)
            .with_retention_period(chrono::Duration::hours(i64::from(args.retention)))
            .with_enforce_retention_duration(!args.force)
            .with_dry_run(args.dry_run)
            .await
            .map_err(|error| delta_error(table, error))?;
        let verb = if args.dry_run {
            "would be deleted"
        } else {
            "deleted"
        };
        lines.push(format!(
            "{:<9} {} {verb}",
            table.name(),
            counted(done.files_deleted.len(), "file")
        ));
        rows.push(json!({"table": table.name(), "files": done.files_deleted}));
    }
    if args.json {
        output::json(&json!({
            "schema_version": 1,
            "lake": lake.address(),
            "dry_run": args.dry_run,
            "tables": rows,
        }))?;
    } else {
        output::lines(&lines)?;
    }
    Ok(ExitCode::SUCCESS)
}
