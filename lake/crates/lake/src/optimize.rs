//! The command `optimize` joins the small files that frequent ingests leave into larger ones.

use stormlog_format::{counted, grouped};

use std::num::NonZeroU64;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use stormlog_lake_tables::{Lake, Table, delta_error, writer_properties};

use crate::output;

/// Join small files of a lake into larger ones.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  stormlog lake optimize --at /lake\n  stormlog lake optimize --at s3://bucket/fleet --json"
)]
pub(crate) struct OptimizeArgs {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
    /// Size of the files to make, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4096))]
    target: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: OptimizeArgs) -> Result<ExitCode> {
    let lake = Lake::at(&args.at)?;
    let target = NonZeroU64::new(args.target << 20).unwrap_or(NonZeroU64::MIN);
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for table in Table::ALL {
        let opened = lake.existing(table).await?;
        let (_, done) = opened
            .optimize()
            .with_target_size(target)
            .with_writer_properties(writer_properties(table))
            .await
            .map_err(|error| delta_error(table, error))?;
        lines.push(format!(
            "{:<9} {} became {}",
            table.name(),
            counted(done.num_files_removed, "file"),
            grouped(done.num_files_added)
        ));
        rows.push(json!({
            "table": table.name(),
            "files_removed": done.num_files_removed,
            "files_added": done.num_files_added,
        }));
    }
    if args.json {
        output::json(&json!({"schema_version": 1, "lake": lake.address(), "tables": rows}))?;
    } else {
        output::lines(&lines)?;
    }
    Ok(ExitCode::SUCCESS)
}
