//! The command `worker` runs one process of a cluster.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};
use stormlog_lake_ask::serve;
use stormlog_lake_tables::Lake;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Run one worker of a cluster. It reads the files of one lake, writes nothing and keeps nothing.
#[derive(Args)]
#[command(
    after_help = "Workers do not authenticate clients: every process that reaches the port can read the lake.
Listen on addresses of a trusted network only.

Examples:
  stormlog lake worker --at s3://bucket/fleet --listen 10.0.0.7:7400
  stormlog lake waste --at s3://bucket/fleet --engine http://10.0.0.7:7400,http://10.0.0.8:7400"
)]
pub(crate) struct WorkerArgs {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// How many threads run plans [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// End when the process that started this one ends
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

impl WorkerArgs {
    /// How many threads of the worker run query plans: as many as the user chose, or one for each
    /// core.
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(cores, NonZeroUsize::get)
    }
}

pub(crate) async fn run(args: WorkerArgs) -> Result<ExitCode> {
    if args.end_with_parent {
        set_parent_process_death_signal(Some(Signal::TERM))
            .context("cannot ask the kernel to end this worker with its parent process")?;
    }
    let lake = Lake::at(&args.at)?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let ended = ended()?;
    writeln!(io::stdout(), "http://{address}")?;
    serve(&lake, listener, args.threads(), ended).await?;
    Ok(ExitCode::SUCCESS)
}

/// A future that completes when the process receives SIGTERM or SIGINT.
pub(crate) fn ended() -> io::Result<impl Future<Output = ()>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}
