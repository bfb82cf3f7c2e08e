//! `tfmemprof monitor` and `tfmemprof track`: a device in megabytes, with a threshold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use stormlog_capture::collect::nvml::Share;
use stormlog_capture::record::clock::seconds;
use stormlog_capture::record::event::TrackedEvent;
use stormlog_capture::record::{EventQuery, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{DistributedIdentity, Map, SessionStatus, Value};

use crate::Exit;
use crate::cli::integrations::Integrations;
use crate::cli::sink_flags::SinkFlags;
use crate::console::Console;
use crate::recording::{
    Capture, IdentityArguments, MAX_EVENTS, gpu_collectors, own_collector, positive_seconds,
    until_end,
};
use crate::signals::EndSignals;

/// Monitor memory usage
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tfmemprof monitor --duration 60
  tfmemprof monitor --device /GPU:1 --output samples.json")]
pub(super) struct MonitorArguments {
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "1.0", value_parser = positive_seconds)]
    interval: Duration,
    /// Stop after so many seconds [default: when interrupted]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    duration: Option<Duration>,
    /// Alert above so many megabytes
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
    /// Alert above so many megabytes
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
    let identity = IdentityArguments::default().resolve()?;
    let recorder = recorder(&arguments.device, arguments.interval, identity, None);
    let signals = EndSignals::watch()?;
    let (duration, threshold) = (arguments.duration, arguments.threshold);
    let tracked = record(&recorder, &signals, duration, threshold, console)?;
    writeln!(console.out, "\nMonitoring Summary:")?;
    tracked.print(console)?;
    if let Some(path) = &arguments.output {
        tracked.write(path, &recorder)?;
        writeln!(console.out, "Results saved to: {}", path.display())?;
    }
    Ok(Exit::Fine)
}

pub(super) fn track(arguments: &TrackArguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    arguments.integrations.refuse()?;
    let sink = arguments.sink.config()?;
    let identity = arguments.identity.resolve()?;
    let recorder = recorder(&arguments.device, arguments.interval, identity, sink);
    let signals = EndSignals::watch()?;
    writeln!(console.out, "Tracking memory; press Ctrl+C to stop")?;
    let threshold = Some(arguments.threshold);
    let tracked = record(&recorder, &signals, None, threshold, console)?;
    writeln!(console.out, "\nTracking Summary:")?;
    tracked.print(console)?;
    tracked.write(&arguments.output, &recorder)?;
    writeln!(
        console.out,
        "Results saved to: {}",
        arguments.output.display()
    )?;
    Ok(Exit::Fine)
}

/// A recorder of the device; of this process when the machine has no GPU.
fn recorder(
    device: &str,
    interval: Duration,
    identity: DistributedIdentity,
    sink: Option<SinkConfig>,
) -> Arc<Recorder> {
    let name = device.to_ascii_lowercase();
    let collectors = if name.contains("cpu") {
        vec![own_collector()]
    } else {
        let number = name
            .rsplit(':')
            .next()
            .and_then(|digits| digits.parse().ok());
        gpu_collectors(&[number.unwrap_or(0)], Share::Nobody)
            .unwrap_or_else(|_| vec![own_collector()])
    };
    let capture = Capture {
        collectors,
        interval,
        identity,
        session_source: "stormlog.tensorflow.tracker",
        pid: std::process::id(),
        sink,
    };
    capture.recorder()
}

/// What was seen, in the units of these commands.
struct Tracked {
    samples: Vec<(f64, f64)>,
    alerts: Vec<Value>,
}

fn record(
    recorder: &Arc<Recorder>,
    signals: &EndSignals,
    duration: Option<Duration>,
    threshold_mb: Option<f64>,
    console: &mut Console<'_>,
) -> anyhow::Result<Tracked> {
    console.out.flush()?;
    recorder.start()?;
    until_end(recorder, signals, duration, |_| Ok(()))?;
    recorder.stop(SessionStatus::Completed);
    let samples: Vec<(f64, f64)> = recorder
        .events(&EventQuery {
            event_type: Some("sample".into()),
            ..EventQuery::default()
        })
        .iter()
        .map(|event| (seconds(event.timestamp_ns), megabytes(event)))
        .collect();
    let alerts = threshold_mb.map_or_else(Vec::new, |threshold| crossings(&samples, threshold));
    Ok(Tracked { samples, alerts })
}

/// One alert for every time that memory goes above the threshold, not for every sample.
fn crossings(samples: &[(f64, f64)], threshold_mb: f64) -> Vec<Value> {
    let mut was_above = false;
    let mut alerts = Vec::new();
    for (time, memory_mb) in samples {
        let is_above = *memory_mb > threshold_mb;
        if is_above && !was_above {
            let mut alert = Map::new();
            alert.insert("timestamp", Value::Float(*time));
            alert.insert("memory_mb", Value::Float(*memory_mb));
            alert.insert("threshold_mb", Value::Float(threshold_mb));
            let message =
                format!("Memory usage {memory_mb:.2} MB exceeds threshold {threshold_mb:.2} MB");
            alert.insert("message", &*message);
            alerts.push(Value::Map(alert));
        }
        was_above = is_above;
    }
    alerts
}

impl Tracked {
    fn peak(&self) -> f64 {
        self.samples
            .iter()
            .map(|(_, memory)| *memory)
            .fold(0.0, f64::max)
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of samples")]
    fn average(&self) -> f64 {
        let sum: f64 = self.samples.iter().map(|(_, memory)| memory).sum();
        sum / self.samples.len().max(1) as f64
    }

    fn print(&self, console: &mut Console<'_>) -> anyhow::Result<()> {
        writeln!(console.out, "--------------------")?;
        writeln!(console.out, "Peak Memory: {:.2} MB", self.peak())?;
        writeln!(console.out, "Average Memory: {:.2} MB", self.average())?;
        writeln!(console.out, "Samples: {}", self.samples.len())?;
        writeln!(console.out, "Alerts: {}", self.alerts.len())?;
        Ok(())
    }

    fn write(&self, path: &Path, recorder: &Recorder) -> anyhow::Result<()> {
        let floats = |pick: fn(&(f64, f64)) -> f64| {
            Value::List(
                self.samples
                    .iter()
                    .map(|sample| Value::Float(pick(sample)))
                    .collect(),
            )
        };
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let records = recorder.records();
        let duration = match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.0 - first.0,
            _ => 0.0,
        };
        let mut map = Map::new();
        map.insert("peak_memory", Value::Float(self.peak()));
        map.insert("average_memory", Value::Float(self.average()));
        map.insert("duration", Value::Float(duration));
        map.insert("memory_usage", floats(|sample| sample.1));
        map.insert("timestamps", floats(|sample| sample.0));
        map.insert("alerts", Value::List(self.alerts.clone()));
        let events = records.iter().map(|record| Value::Map(record.to_record()));
        map.insert("events", Value::List(events.collect()));
        map.insert("history_window_limit", count(MAX_EVENTS));
        map.insert("history_retained_samples", count(self.samples.len()));
        map.insert("history_retained_events", count(records.len()));
        map.insert("history_retained_alerts", count(self.alerts.len()));
        let text = Writer::new(Layout::Indented).map_to_string(&map);
        std::fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "megabytes are floats here")]
fn megabytes(event: &Arc<TrackedEvent>) -> f64 {
    let counters = &event.counters;
    let bytes = counters.allocator_allocated_bytes;
    let bytes = bytes.or(counters.device_used_bytes).unwrap_or(0);
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::crossings;

    #[test]
    fn staying_above_is_one_alert() {
        let samples = [(0.0, 1.0), (1.0, 9.0), (2.0, 9.0), (3.0, 1.0), (4.0, 9.0)];
        assert_eq!(crossings(&samples, 5.0).len(), 2);
    }
}
