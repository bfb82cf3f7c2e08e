//! `gpumemprof track`: records memory until it is stopped, and prints alerts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stormlog_capture::record::event::TrackedEvent;
use stormlog_capture::record::export::ExportFormat;
use stormlog_capture::record::watchdog::Watchdog;
use stormlog_capture::record::{EventQuery, Recorder};
use stormlog_format::{EventType, Map, SessionStatus, Value, metadata_keys};
use stormlog_report::escape::for_terminal;

use super::capture::{number, recorder, save, size};
use crate::Exit;
use crate::cli::flight::{FlightFlags, print_bundle};
use crate::cli::integrations::Integrations;
use crate::cli::named_values::named;
use crate::cli::sink_flags::SinkFlags;
use crate::cli::subject::Source;
use crate::console::Console;
use crate::flight_recorder::FlightRecorder;
use crate::recording::{IdentityArguments, MAX_EVENTS, positive_seconds, until_end};
use crate::services::Finished;
use crate::signals::Signals;

/// How often `track` prints a line with the current state of the recording.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// Track memory in real time, with alerts
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  gpumemprof track --output tracking.csv
  gpumemprof track --device 0 --duration 60 --telemetry-sink-dir runs/today")]
pub(super) struct Arguments {
    /// Record this GPU (index) [default: the first]
    #[arg(long)]
    device: Option<u32>,
    /// Stop after this many seconds [default: on Ctrl+C]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    duration: Option<Duration>,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = positive_seconds)]
    interval: Duration,
    /// Write the events to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_parser = named(["csv", "json"], ExportFormat::parse), default_value = "csv")]
    format: ExportFormat,
    /// On alerts, free unused memory of the recorder; the recorded program is not affected
    #[arg(long)]
    watchdog: bool,
    /// Record a warning at this percentage of the memory
    #[arg(long, value_name = "PERCENT", default_value_t = 80.0)]
    warning_threshold: f64,
    /// Record a critical alert at this percentage of the memory
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    critical_threshold: f64,
    #[command(flatten)]
    flight: FlightFlags,
    #[command(flatten)]
    identity: IdentityArguments,
    #[command(flatten)]
    sink: SinkFlags,
    #[command(flatten)]
    integrations: Integrations,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    arguments.integrations.check(console)?;
    let sink = arguments.sink.config()?;
    let identity = arguments.identity.resolve()?;
    let (recorder, source) = recorder(
        arguments.device,
        arguments.interval,
        identity,
        sink,
        arguments.flight.bundle_events(MAX_EVENTS),
    )?;
    let signals = Signals::that_end()?;
    announce(arguments, source, console)?;
    recorder.set_threshold("memory_warning_percent", arguments.warning_threshold);
    recorder.set_threshold("memory_critical_percent", arguments.critical_threshold);
    let backend = source.backend("cuda");
    let mut flight = arguments.flight.recorder(backend, "gpumemprof track");
    let tracked = track(
        arguments,
        &recorder,
        &signals,
        source,
        flight.as_mut(),
        console,
    );
    if let (Err(error), Some(flight)) = (&tracked, &mut flight) {
        print_bundle(flight.failed(&recorder, error)?, console)?;
    }
    tracked?;
    recorder.stop(SessionStatus::Completed);
    summary(arguments, &recorder, source, console)?;
    let bundle = flight.as_ref().and_then(FlightRecorder::last_bundle);
    let finished = || Finished::tracking(&recorder, arguments.output.as_deref(), bundle);
    let integrations = &arguments.integrations;
    integrations.log("gpumemprof-track", finished, console)?;
    Ok(Exit::Fine)
}

fn track(
    arguments: &Arguments,
    recorder: &Arc<Recorder>,
    signals: &Signals,
    source: Source,
    mut flight: Option<&mut FlightRecorder>,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    recorder.start()?;
    let mut watchdog = arguments.watchdog.then(Watchdog::default);
    let mut next_status = Duration::ZERO;
    let mut reported_until_ns = 0;
    until_end(recorder, signals, arguments.duration, |elapsed| {
        let alerts = new_alerts(recorder, &mut reported_until_ns);
        tell_alerts(&alerts, console)?;
        for alert in &alerts {
            let now = Instant::now();
            let wanted = watchdog.as_mut().and_then(|dog| dog.wants(alert, now));
            if let Some(cleanup) = wanted {
                recorder.release_spare_memory();
                recorder.record(
                    EventType::Cleanup.as_str(),
                    0,
                    cleanup.context(),
                    Map::new(),
                );
                writeln!(console.out, "{}", cleanup.context())?;
            }
        }
        if let Some(flight) = &mut flight {
            print_bundle(flight.look(recorder)?, console)?;
        }
        if elapsed >= next_status {
            next_status = elapsed + STATUS_EVERY;
            status(recorder, source, elapsed, console)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn announce(
    arguments: &Arguments,
    source: Source,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let device = arguments
        .device
        .map_or_else(|| "current".to_owned(), |device| device.to_string());
    writeln!(console.out, "Starting real-time memory tracking...")?;
    writeln!(console.out, "Device: {device}")?;
    let interval = arguments.interval.as_secs_f64();
    writeln!(console.out, "Sampling interval: {interval:?}s")?;
    match arguments.duration {
        Some(duration) => writeln!(console.out, "Duration: {:?}s", duration.as_secs_f64())?,
        None => writeln!(console.out, "Duration: indefinite")?,
    }
    writeln!(console.out, "Press Ctrl+C to stop\n")?;
    if source == Source::Process {
        writeln!(
            console.out,
            "Running CPU memory tracker (no GPU backend available)."
        )?;
    }
    console.out.flush()?;
    Ok(())
}

/// The alerts that were recorded since the last call. All alerts of one sample are recorded
/// together with the same time, so every alert with a later time than the last reported alert is
/// new.
fn new_alerts(recorder: &Recorder, reported_until_ns: &mut i64) -> Vec<Arc<TrackedEvent>> {
    let query = EventQuery {
        alerts_only: true,
        ..EventQuery::default()
    };
    let mut alerts = recorder.events(&query);
    alerts.retain(|alert| alert.timestamp_ns > *reported_until_ns);
    let times = alerts.iter().map(|alert| alert.timestamp_ns);
    *reported_until_ns = times.max().unwrap_or(*reported_until_ns);
    alerts
}

fn tell_alerts(alerts: &[Arc<TrackedEvent>], console: &mut Console<'_>) -> anyhow::Result<()> {
    for alert in alerts {
        let text = alert.context.as_ref().map(|text| text.to_str_lossy());
        let text = text.unwrap_or_default();
        writeln!(console.out, "ALERT: {}", for_terminal(&text))?;
    }
    Ok(())
}

fn status(
    recorder: &Recorder,
    source: Source,
    elapsed: Duration,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let statistics = recorder.device_statistics(None);
    let current = recorder.current();
    let memory = current.map_or("-".into(), |reading| size(source, reading.level()));
    let utilization = match statistics.get("memory_utilization_percent") {
        Some(Value::Float(percent)) if source != Source::Process => format!("{percent:.1}%"),
        _ => "-".to_owned(),
    };
    let health = statistics
        .text(metadata_keys::COLLECTOR_HEALTH_STATUS)
        .map_or("unknown".into(), |text| text.to_str_lossy());
    writeln!(
        console.out,
        "Elapsed: {:.1}s, Memory: {memory} ({utilization}), Peak: {}, Health: {health}",
        elapsed.as_secs_f64(),
        size(source, number(&statistics, "peak_memory")),
    )?;
    console.out.flush()?;
    Ok(())
}

fn summary(
    arguments: &Arguments,
    recorder: &Recorder,
    source: Source,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let statistics = recorder.device_statistics(None);
    writeln!(console.out, "\nTracking Summary:")?;
    writeln!(console.out, "------------------------------")?;
    writeln!(
        console.out,
        "Total events: {}",
        number(&statistics, "total_events")
    )?;
    let peak = number(&statistics, "peak_memory");
    writeln!(console.out, "Peak memory: {}", size(source, peak))?;
    let alerts = number(&statistics, "alert_count");
    if alerts > 0 {
        writeln!(console.out, "Alerts: {alerts}")?;
    }
    let output = arguments.output.as_deref();
    save(recorder, output, arguments.format, "Events", console)?;
    Ok(())
}
