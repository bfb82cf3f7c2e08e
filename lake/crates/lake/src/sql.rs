//! The command `sql` runs any SQL statement that only reads.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;

use futures::TryStreamExt;
use stormlog_format::Map;
use stormlog_lake_ask::rows_of;
use stormlog_report::rows::Rows;

use crate::lake_args::LakeArgs;
use crate::output;
use crate::rows::{Flat, column_names};

/// Run one SQL statement that only reads.
#[derive(Args)]
#[command(
    after_help = "Tables: samples, steps, events, rollups, sessions, ooms, runs, findings, issues, sources.
Views: fleet_leaks, fleet_waste, fleet_ooms, fleet_headroom, fleet_regressions.

Examples:
  stormlog lake sql \"SELECT host, count(*) FROM sessions GROUP BY host\" --at /lake
  stormlog lake sql \"SELECT * FROM rollups\" --at /lake --parquet rollups.parquet
  stormlog lake sql \"SHOW COLUMNS FROM samples\" --at /lake"
)]
pub(crate) struct SqlArgs {
    /// The statement
    statement: String,
    #[command(flatten)]
    lake: LakeArgs,
    #[command(flatten)]
    output: Flat,
    /// Write the rows to a Parquet file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "jsonl", "csv", "table", "output", "raw"])]
    parquet: Option<PathBuf>,
    /// Print how the statement would be answered instead of its rows
    #[arg(long, conflicts_with_all = ["json", "jsonl", "csv", "table", "output", "raw", "parquet"])]
    explain: bool,
}

pub(crate) async fn run(args: SqlArgs) -> Result<ExitCode> {
    let asker = args.lake.open().await?;
    if args.explain {
        let plan = asker.explain(&args.statement).await?;
        output::lines(&[plan.trim_end().to_owned()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = asker.sql(&args.statement).await?;
    match &args.parquet {
        Some(path) => write_parquet(answer, path).await?,
        None => print(answer, &args.output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the rows as they arrive; only the first rows, which set the column widths of a table, are
/// kept in memory.
async fn print(answer: SendableRecordBatchStream, output: &Flat) -> Result<()> {
    let names = column_names(&answer);
    // At most two batches wait for the printing thread, however slowly its output is read.
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<Map>>(2);
    let reading = tokio::spawn(async move {
        let mut answer = answer;
        while let Some(batch) = answer.try_next().await? {
            let sender = sender.clone();
            let rows = rows_of(&batch)?;
            let sent = tokio::task::spawn_blocking(move || sender.send(rows)).await;
            // The printing thread has stopped, because its output was closed.
            if !matches!(sent, Ok(Ok(()))) {
                break;
            }
        }
        Ok::<(), datafusion::error::DataFusionError>(())
    });
    let rows = receiver.into_iter().flatten();
    let printed = tokio::task::block_in_place(|| output.print(Rows::named(names, rows).streamed()));
    reading.await.context("reading rows was interrupted")??;
    printed
}

async fn write_parquet(mut answer: SendableRecordBatchStream, path: &Path) -> Result<()> {
    let context = || format!("cannot write '{}'", path.display());
    let file = File::create(path).with_context(context)?;
    let mut writer = ArrowWriter::try_new(file, answer.schema(), None).with_context(context)?;
    while let Some(batch) = answer.try_next().await? {
        writer.write(&batch).with_context(context)?;
    }
    writer.close().with_context(context)?;
    Ok(())
}
