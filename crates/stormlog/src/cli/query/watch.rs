//! `stormlog query watch`: prints alerts, degraded collectors (which can no longer read all of
//! their counters), OOMs and findings of running recordings as they arrive.

use std::time::{Duration, Instant};

use clap::Args;
use stormlog_analysis::query::{Sighting, Watch};
use stormlog_format::json::{Layout, Writer, value_of};
use stormlog_report::escape::for_terminal;
use stormlog_report::time;

use super::findings::Findings;
use crate::Exit;
use crate::cli::sources::Sources;
use crate::console::Console;
use crate::recording::seconds;

/// Follow live sinks and print alerts, degraded collectors, OOMs and findings as they arrive
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog query watch runs/
  stormlog query watch runs/sink --json | jq .message
  stormlog query watch runs/ --from-start --for 1")]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Print existing events and the findings of ended runs first
    #[arg(long)]
    from_start: bool,
    /// Stop after this time [default: on Ctrl+C]
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    duration: Option<f64>,
    /// Time between checks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: f64,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let interval = Duration::try_from_secs_f64(arguments.interval)?.max(Duration::from_millis(10));
    let end = match arguments.duration {
        Some(duration) => Instant::now().checked_add(Duration::try_from_secs_f64(duration)?),
        None => None,
    };
    drop(arguments.sources.open(console)?);
    let mut watch = Watch::new(arguments.sources.paths.clone(), arguments.from_start);
    let mut findings = Findings::default();
    loop {
        for sighting in watch.look() {
            print(&sighting, arguments.json, console)?;
        }
        // New events are read in every pass of this loop, but the recordings are analyzed less
        // often; `findings` decides when an analysis is due.
        for finding in findings.look(&arguments.sources.paths, arguments.from_start) {
            print(&finding, arguments.json, console)?;
        }
        for warning in watch.take_warnings() {
            let text = format!("'{}': {}", warning.path, warning.message);
            writeln!(console.err, "warning: {}", for_terminal(&text))?;
        }
        console.out.flush()?;
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Exit::Fine);
        }
        std::thread::sleep(left.unwrap_or(interval).min(interval));
    }
}

fn print(sighting: &Sighting, json: bool, console: &mut Console<'_>) -> anyhow::Result<()> {
    if json {
        let line = Writer::new(Layout::Line).to_string(&value_of(&sighting));
        writeln!(console.out, "{line}")?;
        return Ok(());
    }
    let when = sighting.timestamp_ns.map_or("-".into(), time::moment);
    let session = sighting
        .session_id
        .as_ref()
        .map_or("-".into(), ToString::to_string);
    let rank = sighting
        .rank
        .map_or(String::new(), |rank| format!(" rank {rank}"));
    let line = format!(
        "{when}  {:<8}  {session}{rank}  {}",
        sighting.severity.to_str_lossy(),
        sighting.message
    );
    writeln!(console.out, "{}", for_terminal(&line))?;
    Ok(())
}
