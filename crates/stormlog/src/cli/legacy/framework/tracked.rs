//! Records a device for the commands `monitor` and `track`, prints the results, and writes the
//! output file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stormlog_capture::clock::seconds;
use stormlog_capture::record::event::TrackedEvent;
use stormlog_capture::record::{Detail, EventQuery, RecordOptions, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{DistributedIdentity, EventType, Map, SessionStatus, Text, Value};

use super::{Framework, megabytes, names};
use crate::cli::subject::{Source, Subject};
use crate::console::Console;
use crate::recording::{record_options, until_end};
use crate::signals::Signals;
use crate::whole_file::write_whole;

/// The largest number of events that one sample can produce; used to compute the size of the event
/// history.
const EVENTS_PER_SAMPLE: usize = 4;

/// The settings of `track` and `monitor`: the device to record, the interval between samples, and
/// where events are stored.
pub(crate) struct Tracking {
    pub(crate) framework: Framework,
    pub(crate) subject: Subject,
    pub(crate) interval: Duration,
    pub(crate) threshold_mb: Option<f64>,
    pub(crate) identity: DistributedIdentity,
    pub(crate) sink: Option<SinkConfig>,
    /// How many of the latest samples are kept in memory; the output file contains only these.
    pub(crate) max_history: usize,
    /// How many of the latest events an out-of-memory bundle contains; `None` when no bundles are
    /// written.
    pub(crate) bundle_events: Option<usize>,
}

/// A recorder that is configured but not started yet; [`Recording::run`] starts it.
pub(crate) struct Recording {
    pub(crate) recorder: Arc<Recorder>,
    signals: Signals,
    pub(crate) source: Source,
    framework: Framework,
    threshold_mb: Option<f64>,
    max_history: usize,
}

impl Tracking {
    /// Prepares the recording without starting it. From this call on, signals such as Ctrl+C are
    /// handled.
    pub(crate) fn recording(self) -> anyhow::Result<Recording> {
        let collectors = self.subject.collectors();
        let (collectors, source) = collectors.map_err(anyhow::Error::msg)?;
        let session_source = names(self.framework).session_source;
        let pid = std::process::id();
        let options = RecordOptions {
            max_events: self.max_history.saturating_mul(EVENTS_PER_SAMPLE),
            bundle_events: self.bundle_events,
            sink: self.sink,
            detail: Detail::Changes,
            ..record_options(session_source, pid, self.identity, self.interval)
        };
        Ok(Recording {
            recorder: Recorder::new(options, collectors, None),
            // The signal handlers are registered before the command prints that the recording
            // starts, so that a signal after this message ends the recording cleanly.
            signals: Signals::that_end()?,
            framework: self.framework,
            source,
            threshold_mb: self.threshold_mb,
            max_history: self.max_history,
        })
    }
}

impl Recording {
    /// Records until the duration has passed or a signal requests the end. `look` is called
    /// regularly while the recording runs.
    pub(crate) fn run(
        &self,
        duration: Option<Duration>,
        mut look: impl FnMut(&Recorder) -> anyhow::Result<()>,
    ) -> anyhow::Result<Tracked<'_>> {
        self.recorder.start()?;
        until_end(&self.recorder, &self.signals, duration, |_| {
            look(&self.recorder)
        })?;
        self.recorder.stop(SessionStatus::Completed);
        let samples = self.recorder.events(&EventQuery {
            event_type: Some(EventType::Sample.into()),
            last: i64::try_from(self.max_history).ok(),
            ..EventQuery::default()
        });
        let samples: Vec<Sample> = samples.iter().map(Sample::of).collect();
        let limit = self.threshold_mb;
        let alerts = limit.map_or_else(Vec::new, |limit| crossings(&samples, limit));
        Ok(Tracked {
            recording: self,
            samples,
            alerts,
        })
    }
}

/// The time of a sample in seconds since the Unix epoch, and the bytes in use on the device.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: f64,
    bytes: i64,
}

impl Sample {
    fn of(event: &Arc<TrackedEvent>) -> Self {
        Self {
            time: seconds(event.timestamp_ns),
            bytes: event.counters.level().unwrap_or(0),
        }
    }

    fn megabytes(self) -> f64 {
        megabytes(self.bytes)
    }
}

/// Makes one alert each time memory rises above the threshold, and not one for every sample above
/// the threshold.
fn crossings(samples: &[Sample], threshold_mb: f64) -> Vec<Value> {
    let mut was_above = false;
    let mut alerts = Vec::new();
    for sample in samples {
        let memory_mb = sample.megabytes();
        let is_above = memory_mb > threshold_mb;
        if is_above && !was_above {
            let mut alert = Map::new();
            alert.insert("timestamp", Value::Float(sample.time));
            alert.insert("memory_mb", Value::Float(memory_mb));
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

/// The samples and alerts of a finished recording, from which the printed summary and the output
/// file are made.
pub(crate) struct Tracked<'a> {
    recording: &'a Recording,
    samples: Vec<Sample>,
    alerts: Vec<Value>,
}

impl Tracked<'_> {
    fn peak(&self) -> f64 {
        let sizes = self.samples.iter().map(|sample| sample.megabytes());
        sizes.fold(0.0, f64::max)
    }

    fn average(&self) -> f64 {
        let sum: f64 = self.samples.iter().map(|sample| sample.megabytes()).sum();
        sum / self.samples.len().max(1) as f64
    }

    /// Prints a summary under a heading: the peak, the average, and the numbers of samples and
    /// alerts. Then writes the file of `--output`, if one was given.
    pub(crate) fn report(
        &self,
        heading: &str,
        output: Option<&Path>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<()> {
        writeln!(console.out, "\n{heading}:")?;
        writeln!(console.out, "--------------------")?;
        writeln!(console.out, "Peak Memory: {:.2} MB", self.peak())?;
        writeln!(console.out, "Average Memory: {:.2} MB", self.average())?;
        writeln!(console.out, "Samples: {}", self.samples.len())?;
        writeln!(console.out, "Alerts: {}", self.alerts.len())?;
        if let Some(path) = output {
            self.write(path)?;
            let saved = match self.recording.framework {
                Framework::TensorFlow => "Results saved to:",
                Framework::Jax => "Results saved to",
            };
            writeln!(console.out, "{saved} {}", path.display())?;
        }
        Ok(())
    }

    /// Writes the file of `--output`, a JSON object with the keys and units of stormlog 0.3.9.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let recorder = &self.recording.recorder;
        let records = recorder.records();
        let statistics = recorder.device_statistics(None);
        let taken = recorder.tally().int("total_samples");
        let duration = match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.time - first.time,
            _ => 0.0,
        };
        let is_jax = self.recording.framework == Framework::Jax;
        let size = |sample: &Sample| {
            if is_jax {
                Value::Int(sample.bytes)
            } else {
                Value::Float(sample.megabytes())
            }
        };
        let times = self.samples.iter().map(|sample| Value::Float(sample.time));
        let mut map = Map::new();
        map.insert("peak_memory", Value::Float(self.peak()));
        map.insert("average_memory", Value::Float(self.average()));
        map.insert("duration", Value::Float(duration));
        let usage = self.samples.iter().map(size).collect();
        map.insert("memory_usage", Value::List(usage));
        map.insert("timestamps", Value::List(times.collect()));
        if is_jax {
            map.insert("alerts", count(self.alerts.len()));
        } else {
            map.insert("alerts", Value::List(self.alerts.clone()));
        }
        let events = records.iter().map(|record| Value::Map(record.to_record()));
        map.insert("events", Value::List(events.collect()));
        map.insert("history_window_limit", count(self.recording.max_history));
        map.insert("history_retained_samples", count(self.samples.len()));
        let dropped = taken.unwrap_or(0).saturating_sub(count(self.samples.len()));
        map.insert("history_dropped_samples", dropped);
        map.insert("history_retained_events", count(records.len()));
        let dropped = statistics.get("history_dropped_events").cloned();
        map.insert("history_dropped_events", dropped.unwrap_or(Value::Int(0)));
        map.insert("history_retained_alerts", count(self.alerts.len()));
        map.insert("history_dropped_alerts", 0_i64);
        if is_jax {
            self.insert_source(&mut map);
        }
        let text = Writer::new(Layout::Indented).map_to_string(&map);
        write_whole(path, text.as_bytes())
    }

    fn insert_source(&self, map: &mut Map) {
        let of_device = self.recording.source != Source::Process;
        map.insert("device_memory_available", Value::Bool(of_device));
        let source = if of_device { "driver" } else { "process_rss" };
        map.insert("memory_source", source);
        let reason = (!of_device).then_some("there is no GPU, or the CPU was asked for");
        map.insert("device_memory_unavailable_reason", reason.map(Text::from));
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, crossings};

    #[test]
    fn staying_above_is_one_alert() {
        let sample = |(time, megabytes): (f64, i64)| Sample {
            time,
            bytes: megabytes << 20,
        };
        let samples = [(0.0, 1), (1.0, 9), (2.0, 9), (3.0, 1), (4.0, 9)].map(sample);
        assert_eq!(crossings(&samples, 5.0).len(), 2);
    }
}
