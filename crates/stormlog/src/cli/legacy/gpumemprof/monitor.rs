//! `gpumemprof monitor`: records memory for a given time and prints it.

use std::path::PathBuf;
use std::time::Duration;

use stormlog_capture::record::EventQuery;
use stormlog_capture::record::export::ExportFormat;
use stormlog_format::{DistributedIdentity, EventType, SessionStatus};

use super::capture::{number, recorder, save, size};
use crate::Exit;
use crate::cli::named_values::named;
use crate::cli::subject::Source;
use crate::console::Console;
use crate::recording::{positive_seconds, until_end};
use crate::signals::Signals;

/// How often `monitor` prints a line with the current memory use.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Monitor memory usage for a while
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  gpumemprof monitor --duration 60
  gpumemprof monitor --device 0 --interval 0.5 --output samples.csv")]
pub(super) struct Arguments {
    /// Record this GPU (index) [default: the first]
    #[arg(long)]
    device: Option<u32>,
    /// Record for this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "10.0", value_parser = positive_seconds)]
    duration: Duration,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = positive_seconds)]
    interval: Duration,
    /// Write the samples to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_parser = named(["csv", "json"], ExportFormat::parse), default_value = "csv")]
    format: ExportFormat,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let alone = DistributedIdentity {
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
    };
    let (recorder, source) = recorder(arguments.device, arguments.interval, alone, None, None)?;
    let signals = Signals::that_end()?;
    let seconds = arguments.duration.as_secs_f64();
    writeln!(
        console.out,
        "Starting memory monitoring for {seconds:?} seconds..."
    )?;
    let name = match source {
        Source::Gpu(_) => "GPU (cuda)",
        Source::Process => "CPU",
    };
    writeln!(console.out, "Mode: {name}")?;
    let interval = arguments.interval.as_secs_f64();
    writeln!(console.out, "Sampling interval: {interval:?}s")?;
    writeln!(console.out, "Press Ctrl+C to stop early\n")?;
    recorder.start()?;
    let mut next = Duration::ZERO;
    until_end(&recorder, &signals, Some(arguments.duration), |elapsed| {
        if elapsed >= next {
            next = elapsed + LINE_EVERY;
            let current = recorder.current();
            let memory = current.map_or("-".into(), |reading| size(source, reading.level()));
            let elapsed = elapsed.as_secs_f64();
            writeln!(
                console.out,
                "Elapsed: {elapsed:.1}s, Current Memory: {memory}"
            )?;
            console.out.flush()?;
        }
        Ok(())
    })?;
    recorder.stop(SessionStatus::Completed);
    let samples = recorder.events(&EventQuery {
        event_type: Some(EventType::Sample.into()),
        ..EventQuery::default()
    });
    let levels = [samples.last(), samples.first()].map(|event| event?.counters.level());
    let [last, first] = levels.map(|level| level.unwrap_or(0));
    let change = last - first;
    writeln!(console.out, "\nMonitoring Summary:")?;
    writeln!(console.out, "------------------------------")?;
    writeln!(console.out, "Snapshots collected: {}", samples.len())?;
    let peak = number(&recorder.tally(), "peak_memory");
    writeln!(console.out, "Peak memory usage: {}", size(source, peak))?;
    writeln!(
        console.out,
        "Memory change from baseline: {}",
        size(source, change)
    )?;
    let output = arguments.output.as_deref();
    save(&recorder, output, arguments.format, "Data", console)?;
    Ok(Exit::Fine)
}
