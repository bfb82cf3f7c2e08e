//! `stormlog run`: a Python program records itself, without a change to it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use stormlog_analysis::{LoadOptions, load_sessions};

use crate::Exit;
use crate::child;
use crate::console::Console;
use crate::recording::positive_seconds;
use crate::watched::{self, Ended, sinks};

/// Run a Python program and have it record its own memory, without changing it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog run -- python train.py --epochs 3
  stormlog run --dir runs/today -- torchrun --nproc-per-node 8 train.py

The program's exit code and signals are passed on. Each rank of a job records into its own
directory; an out-of-memory error leaves a bundle beside the session.")]
pub(crate) struct Arguments {
    /// Where sessions go [default: stormlog-runs/ and the time]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = positive_seconds)]
    interval: Duration,
    /// Say nothing of our own
    #[arg(long, short)]
    quiet: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let root = match &arguments.dir {
        Some(directory) => directory.clone(),
        None => Path::new("stormlog-runs").join(stamp()),
    };
    fs::create_dir_all(&root).with_context(|| format!("cannot make '{}'", root.display()))?;
    let root = fs::canonicalize(&root)?;
    let ended = watched::run(&root, &arguments.command, arguments.interval, &[])?;
    if !arguments.quiet {
        tell(&root, &ended, console)?;
    }
    Ok(child::exit_of(ended.status))
}

/// One line per session on the error stream: the output belongs to the program.
fn tell(root: &Path, ended: &Ended, console: &mut Console<'_>) -> anyhow::Result<()> {
    if !ended.status.success() {
        writeln!(console.err, "stormlog: {}", ended.describe())?;
    }
    let mut told = false;
    for directory in sinks(root) {
        let Ok(loaded) = load_sessions(&directory, &LoadOptions::default()) else {
            continue;
        };
        for session in &loaded.sessions {
            told = true;
            let summary = &session.summary;
            let from = if summary.source == watched::OUTSIDE {
                ", sampled from outside (no Python in it could import stormlog)"
            } else {
                ""
            };
            writeln!(
                console.err,
                "stormlog: {} events, {}{from}, in '{}'",
                session.events.len(),
                summary.status.as_str(),
                directory.display()
            )?;
        }
    }
    if !told {
        writeln!(
            console.err,
            "stormlog: nothing was recorded in '{}'",
            root.display()
        )?;
    }
    Ok(())
}

fn stamp() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("{now}-{}", std::process::id())
}
