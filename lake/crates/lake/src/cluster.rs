//! The command `cluster` starts workers on this machine.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use stormlog_lake_tables::{Lake, Table};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::error;
use crate::worker::ended;

/// Start workers on this machine and print their addresses. Runs until it is interrupted.
#[derive(Args)]
#[command(
    after_help = "Prints one line with the addresses of the workers, for '--engine' or the variable
STORMLOG_LAKE_ENGINE.

Examples:
  stormlog lake cluster --at /lake --workers 4
  stormlog lake diagnose --at /lake --engine http://127.0.0.1:41001,http://127.0.0.1:41002"
)]
pub(crate) struct ClusterArgs {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
    /// How many workers
    #[arg(long, value_name = "N", default_value = "2")]
    workers: NonZeroUsize,
    /// Number of threads of each worker [default: the cores, divided among the workers]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

pub(crate) async fn run(args: ClusterArgs) -> Result<ExitCode> {
    // A lake that does not exist is reported here, once, and not by each worker.
    Lake::at(&args.at)?.existing(Table::Samples).await?;
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let shared = || (cores / args.workers.get()).max(1);
    let threads = args.threads.map_or_else(shared, NonZeroUsize::get);
    let mut workers = Vec::new();
    for _ in 0..args.workers.get() {
        workers.push(start(&args.at, threads).await?);
    }
    let addresses: Vec<&str> = workers
        .iter()
        .map(|(_, address)| address.as_str())
        .collect();
    writeln!(io::stdout(), "{}", addresses.join(","))?;
    let ended = ended()?;
    tokio::select! {
        () = ended => {}
        () = all_lost(&mut workers) => bail!("every worker has ended"),
    }
    for (worker, _) in &mut workers {
        let _ = worker.kill().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a worker process, waits until it listens, and returns the process and its address.
async fn start(lake: &str, threads: usize) -> Result<(Child, String)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut worker = Command::new(program)
        .args(["worker", "--at", lake, "--listen", "127.0.0.1:0"])
        .args(["--threads", &threads.to_string(), "--end-with-parent"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a worker")?;
    let output = worker.stdout.take().context("a worker has no output")?;
    let mut address = String::new();
    BufReader::new(output).read_line(&mut address).await?;
    if address.is_empty() {
        bail!(
            "a worker ended before it listened: {}",
            worker.wait().await?
        );
    }
    Ok((worker, address.trim().to_owned()))
}

/// Ends when no worker process is left. The end of each worker is reported, and later queries use
/// the other workers.
async fn all_lost(workers: &mut [(Child, String)]) {
    let watched = workers.iter_mut().map(|(worker, address)| async move {
        if let Ok(status) = worker.wait().await {
            error::warn(&format!("worker {address} has ended: {status}"));
        }
    });
    futures::future::join_all(watched).await;
}
