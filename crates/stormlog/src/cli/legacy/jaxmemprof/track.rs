//! `jaxmemprof monitor` and `jaxmemprof track`: record the memory of a device.

use std::path::PathBuf;
use std::time::Duration;

use super::device::device;
use super::needs_jax;
use crate::Exit;
use crate::cli::flight::{FlightFlags, print_bundle};
use crate::cli::integrations::Integrations;
use crate::cli::legacy::framework::Framework;
use crate::cli::legacy::framework::tracked::Tracking;
use crate::cli::sink_flags::SinkFlags;
use crate::cli::subject::Subject;
use crate::console::Console;
use crate::flight_recorder::FlightRecorder;
use crate::recording::{IdentityArguments, positive_seconds};
use crate::services::Finished;

/// Monitor memory usage
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jaxmemprof monitor --duration 60
  jaxmemprof monitor --device gpu --output samples.json")]
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
    /// The device: its index, cpu or gpu
    #[arg(long, default_value = "0", value_parser = device)]
    device: Subject,
    /// Write the samples to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    history: History,
}

/// Track memory until interrupted, and write the result
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jaxmemprof track --output tracking.json --threshold 8000
  jaxmemprof track --output tracking.json --telemetry-sink-dir runs/today")]
pub(super) struct TrackArguments {
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "1.0", value_parser = positive_seconds)]
    interval: Duration,
    /// Alert above this many megabytes
    #[arg(long, value_name = "MB", default_value_t = 4000.0)]
    threshold: f64,
    /// The device: its index, cpu or gpu
    #[arg(long, default_value = "0", value_parser = device)]
    device: Subject,
    /// Save a device memory profile; not possible from outside, so this only prints a note
    #[arg(long)]
    profile: bool,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    history: History,
    #[command(flatten)]
    flight: FlightFlags,
    #[command(flatten)]
    identity: IdentityArguments,
    #[command(flatten)]
    sink: SinkFlags,
    #[command(flatten)]
    integrations: Integrations,
}

#[derive(Clone, Debug, clap::Args)]
struct History {
    /// Number of samples kept in memory
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_history: u32,
}

impl History {
    fn samples(&self) -> usize {
        usize::try_from(self.max_history).unwrap_or(usize::MAX)
    }
}

pub(super) fn monitor(
    arguments: &MonitorArguments,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    needs_jax()?;
    let tracking = Tracking {
        framework: Framework::Jax,
        subject: arguments.device,
        interval: arguments.interval,
        threshold_mb: arguments.threshold,
        identity: IdentityArguments::default().resolve()?,
        sink: None,
        max_history: arguments.history.samples(),
        bundle_events: None,
    };
    let recording = tracking.recording()?;
    let tracked = recording.run(arguments.duration, |_| Ok(()))?;
    tracked.report("Monitoring Results", arguments.output.as_deref(), console)?;
    Ok(Exit::Fine)
}

pub(super) fn track(arguments: &TrackArguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    arguments.integrations.check(console)?;
    needs_jax()?;
    if arguments.profile {
        writeln!(
            console.err,
            "note: only the program itself can save a device memory profile: give its \
             MemoryTracker 'save_device_profile_on_stop=True'; this command saves none"
        )?;
    }
    let history = arguments.history.samples();
    let tracking = Tracking {
        framework: Framework::Jax,
        subject: arguments.device,
        interval: arguments.interval,
        threshold_mb: Some(arguments.threshold),
        sink: arguments.sink.config()?,
        identity: arguments.identity.resolve()?,
        max_history: history,
        bundle_events: arguments.flight.bundle_events(history),
    };
    let recording = tracking.recording()?;
    let backend = recording.source.backend("jax");
    let mut flight = arguments.flight.recorder(backend, "jaxmemprof track");
    writeln!(console.out, "Tracking memory; press Ctrl+C to stop")?;
    console.out.flush()?;
    let tracked = recording.run(None, |recorder| match &mut flight {
        Some(flight) => print_bundle(flight.look(recorder)?, console),
        None => Ok(()),
    });
    if let (Err(error), Some(flight)) = (&tracked, &mut flight) {
        print_bundle(flight.failed(&recording.recorder, error)?, console)?;
    }
    tracked?.report("Tracking Summary", Some(&arguments.output), console)?;
    let bundle = flight.as_ref().and_then(FlightRecorder::last_bundle);
    let finished = || Finished::tracking(&recording.recorder, Some(&arguments.output), bundle);
    let integrations = &arguments.integrations;
    integrations.log("jaxmemprof-track", finished, console)?;
    Ok(Exit::Fine)
}
