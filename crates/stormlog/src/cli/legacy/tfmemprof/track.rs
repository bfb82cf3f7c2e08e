//! `tfmemprof monitor` and `tfmemprof track`: record the memory of a device.

use std::path::PathBuf;
use std::time::Duration;

use super::device::device;
use crate::Exit;
use crate::cli::integrations::Integrations;
use crate::cli::legacy::framework::Framework;
use crate::cli::legacy::framework::tracked::Tracking;
use crate::cli::sink_flags::SinkFlags;
use crate::console::Console;
use crate::recording::{IdentityArguments, MAX_EVENTS, positive_seconds};
use crate::services::Finished;

/// Monitor memory usage
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tfmemprof monitor --duration 60
  tfmemprof monitor --device /GPU:1 --output samples.json")]
pub(super) struct MonitorArguments {
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "1.0", value_parser = positive_seconds)]
    interval: Duration,
    /// Stop after this many seconds [default: on Ctrl+C]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    duration: Option<Duration>,
    /// Alert above this many megabytes
    #[arg(long, value_name = "MB")]
    threshold: Option<f64>,
    /// The device, /GPU:0 or /CPU:0
    #[arg(long, default_value = "/GPU:0")]
    device: String,
    /// Write the samples to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Track memory until interrupted, and write the result
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tfmemprof track --output tracking.json --threshold 8000")]
pub(super) struct TrackArguments {
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "1.0", value_parser = positive_seconds)]
    interval: Duration,
    /// Alert above this many megabytes
    #[arg(long, value_name = "MB", default_value_t = 4000.0)]
    threshold: f64,
    /// The device, /GPU:0 or /CPU:0
    #[arg(long, default_value = "/GPU:0")]
    device: String,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    identity: IdentityArguments,
    #[command(flatten)]
    sink: SinkFlags,
    #[command(flatten)]
    integrations: Integrations,
}

pub(super) fn monitor(
    arguments: &MonitorArguments,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let tracking = Tracking {
        framework: Framework::TensorFlow,
        subject: device(&arguments.device),
        interval: arguments.interval,
        threshold_mb: arguments.threshold,
        identity: IdentityArguments::default().resolve()?,
        sink: None,
        max_history: MAX_EVENTS,
        bundle_events: None,
    };
    let recording = tracking.recording()?;
    let tracked = recording.run(arguments.duration, |_| Ok(()))?;
    tracked.report("Monitoring Summary", arguments.output.as_deref(), console)?;
    Ok(Exit::Fine)
}

pub(super) fn track(arguments: &TrackArguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    arguments.integrations.check(console)?;
    let tracking = Tracking {
        framework: Framework::TensorFlow,
        subject: device(&arguments.device),
        interval: arguments.interval,
        threshold_mb: Some(arguments.threshold),
        sink: arguments.sink.config()?,
        identity: arguments.identity.resolve()?,
        max_history: MAX_EVENTS,
        bundle_events: None,
    };
    let recording = tracking.recording()?;
    writeln!(console.out, "Tracking memory; press Ctrl+C to stop")?;
    console.out.flush()?;
    let tracked = recording.run(None, |_| Ok(()))?;
    tracked.report("Tracking Summary", Some(&arguments.output), console)?;
    let finished = || Finished::tracking(&recording.recorder, Some(&arguments.output), None);
    let integrations = &arguments.integrations;
    integrations.log("tfmemprof-track", finished, console)?;
    Ok(Exit::Fine)
}
