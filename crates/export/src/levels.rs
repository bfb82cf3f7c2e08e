//! The current state of recordings as metrics: numbers with labels. A value that is unknown is left
//! out instead of being sent as zero.

use std::collections::BTreeMap;

use stormlog_format::{Event, Place, Sample, SampleNumber, Text, other_processes};
use stormlog_redact::redacted_str;

use crate::bounded::shortened;

/// How the value of a metric can change: up and down, or only up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value of a gauge goes up and down.
    Gauge,
    /// The value of a counter only grows while the recorded process lives.
    Counter,
}

macro_rules! metrics {
    ($($name:ident: $kind:ident, $text:literal, $unit:literal, $help:literal
        $(, of $number:ident)?;)*) => {
        /// A metric that Stormlog exports, such as the used memory of a device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $(#[doc = $help] $name,)*
        }

        impl Metric {
            /// All metrics, in the order in which they are rendered.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name of the metric without its unit, such as `device_memory_used`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the metric is a gauge or a counter.
            pub fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }

            /// The base unit of the metric: `bytes`, `seconds`, or empty for a count.
            pub fn unit(self) -> &'static str {
                match self { $(Self::$name => $unit,)* }
            }

            /// A description of the metric in one line.
            pub fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }

            /// The metrics that are numbers in the metadata of samples.
            const OF_NUMBERS: &[(Self, SampleNumber)] =
                &[$($((Self::$name, SampleNumber::$number),)?)*];
        }
    };
}

metrics! {
    DeviceUsed: Gauge, "device_memory_used", "bytes", "Memory in use on the device, by all processes.";
    DeviceFree: Gauge, "device_memory_free", "bytes", "Memory that is free on the device.";
    DeviceTotal: Gauge, "device_memory_total", "bytes", "Size of the device's memory.";
    ProcessDevice: Gauge, "process_device_memory_used", "bytes", "Device memory that one process holds.", of Own;
    Allocated: Gauge, "allocator_allocated", "bytes", "Memory in live tensors, as the framework's allocator counts it.";
    Reserved: Gauge, "allocator_reserved", "bytes", "Device memory that the framework's allocator holds.";
    AllocatorPeak: Gauge, "allocator_peak", "bytes", "Peak of the memory in live tensors since the program last reset the allocator's peak counter.", of AllocatorPeak;
    HostUsed: Gauge, "host_memory_used", "bytes", "Host memory of a program and its children that the kernel cannot reclaim.";
    HostFree: Gauge, "host_memory_available", "bytes", "Host memory that the program can still use.";
    HostLimit: Gauge, "host_memory_limit", "bytes", "Host memory that the program may use at most.";
    ProcessAnonymous: Gauge, "process_host_memory_anonymous", "bytes", "Anonymous host memory of one process.";
    ProcessShared: Gauge, "process_host_memory_shared", "bytes", "Shared host memory of one process.";
    Pinned: Gauge, "host_memory_pinned", "bytes", "Page-locked host memory that the framework holds.", of Pinned;
    Steps: Counter, "steps", "", "Training steps (ends of optimizer.step).";
    Recorded: Counter, "recorded_events", "", "Events recorded in the sink of a session: samples, steps, phases, errors.";
    Dropped: Counter, "dropped_events", "", "Events that a session could not store.";
    LastSample: Gauge, "last_sample_timestamp", "seconds", "Time of the last sample, in seconds since the epoch.";
    Findings: Gauge, "findings", "", "Problems that the detectors find in the run so far.";
    Sent: Counter, "deliveries", "", "Alerts and metrics that a receiver accepted.";
    Lost: Counter, "deliveries_dropped", "", "Alerts and metrics that were lost: queue full, refused or no answer.";
}

/// The value of a metric: an integer or a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Bytes and counts.
    Int(i64),
    /// Times in seconds.
    Float(f64),
}

/// The value of a metric at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The value.
    pub number: Number,
    /// When the value was measured, in nanoseconds since the Unix epoch.
    pub at_ns: i64,
}

/// The labels of one series of a metric, as names and values in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(&'static str, String)>);

impl Labels {
    /// Creates an empty list of labels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label. Its value is shortened, and hidden if it looks like a secret.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers pass both numbers and texts"
    )]
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        let value = redacted_str(&value.to_string()).into_owned();
        self.0.push((name, shortened(value)));
        self
    }

    /// Adds a label if its value is known.
    #[must_use]
    pub fn with_known(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The names and values of the labels, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value of the label `name`; `None` if there is no such label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find_map(|(label, value)| (label == name).then_some(value))
    }
}

/// The id of a device, if it is known. Unlike the index of the device, it is the same for all
/// processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceId {
    /// The driver's unique id of the device or of its MIG instance.
    pub uuid: Option<String>,
}

impl DeviceId {
    fn labels(&self, labels: Labels, index: i64) -> Labels {
        let is_mig = self.uuid.as_ref().is_some_and(|id| id.starts_with("MIG-"));
        let (device, mig) = if is_mig {
            (None, self.uuid.as_ref())
        } else {
            (self.uuid.as_ref(), None)
        };
        labels
            .with_known("device", device)
            .with_known("mig", mig)
            .with("gpu", index)
    }
}

/// The latest value of every metric of the running recordings, for each set of labels.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    points: BTreeMap<Metric, BTreeMap<Labels, Point>>,
}

impl Levels {
    /// Sets the value of a series of a metric; each series keeps only its latest value.
    pub fn set(&mut self, metric: Metric, labels: Labels, number: Number, at_ns: i64) {
        let series = self.points.entry(metric).or_default();
        let point = Point { number, at_ns };
        let known = series.entry(labels).or_insert(point);
        if known.at_ns <= at_ns {
            *known = point;
        }
    }

    /// Sets the value of a series to a number of bytes or a count, if it is known. A negative
    /// number is invalid and counts as unknown.
    fn set_known(&mut self, metric: Metric, labels: &Labels, value: Option<i64>, at_ns: i64) {
        if let Some(value) = value.filter(|value| *value >= 0) {
            self.set(metric, labels.clone(), Number::Int(value), at_ns);
        }
    }

    /// All series of a metric, each with its latest value.
    pub fn series(&self, metric: Metric) -> impl Iterator<Item = (&Labels, &Point)> {
        self.points.get(&metric).into_iter().flatten()
    }

    /// Sets the metrics that a sample contains: those of a device, or those of the host if the
    /// device id is negative.
    pub fn add_sample(&mut self, event: &Event, device: &DeviceId) {
        let at = event.timestamp_ns;
        let sample = Sample::of_event(event);
        let counters = sample.counters;
        let program = program_labels(event);
        let used = counters.device_used_bytes;
        let free = counters.device_free_bytes;
        let total = counters.device_total_bytes;
        let time = seconds(at);
        if event.device_id < 0 {
            self.set_known(Metric::HostUsed, &program, used, at);
            self.set_known(Metric::HostFree, &program, free, at);
            self.set_known(Metric::HostLimit, &program, total, at);
            self.set_numbers(&sample, Place::HostMemory, &program, at);
            for memory in &sample.processes {
                let process = process_labels(event, memory.pid);
                let anonymous = Some(memory.anonymous);
                self.set_known(Metric::ProcessAnonymous, &process, anonymous, at);
                self.set_known(Metric::ProcessShared, &process, Some(memory.shared), at);
            }
            self.set(Metric::LastSample, program, time, at);
            return;
        }
        let host = Labels::new().with("host", event.host.to_str_lossy());
        let of_device = device.labels(host, event.device_id);
        self.set_known(Metric::DeviceUsed, &of_device, used, at);
        self.set_known(Metric::DeviceFree, &of_device, free, at);
        self.set_known(Metric::DeviceTotal, &of_device, total, at);
        let labels = device.labels(program, event.device_id);
        for share in other_processes(&event.metadata) {
            let host = event.host.to_str_lossy();
            self.add_share(&host, device, event.device_id, share, at);
        }
        let allocated = counters.allocator_allocated_bytes;
        let reserved = counters.allocator_reserved_bytes;
        self.set_known(Metric::Allocated, &labels, allocated, at);
        self.set_known(Metric::Reserved, &labels, reserved, at);
        self.set_numbers(&sample, Place::Metadata, &labels, at);
        self.set(Metric::LastSample, labels, time, at);
    }

    /// Sets the metrics that are numbers of a sample's metadata, in one object of them.
    fn set_numbers(&mut self, sample: &Sample, place: Place, labels: &Labels, at_ns: i64) {
        let numbers = Metric::OF_NUMBERS.iter();
        for (metric, number) in numbers.filter(|(_, number)| number.place() == place) {
            self.set_known(*metric, labels, sample.numbers[*number], at_ns);
        }
    }

    /// Adds the number of training steps if the sample contains it; otherwise returns `false`.
    pub fn add_steps(&mut self, event: &Event, device: &DeviceId) -> bool {
        let numbers = Sample::of_event(event).numbers;
        let steps = numbers[SampleNumber::StepCount].or(numbers[SampleNumber::Step]);
        let labels = device.labels(program_labels(event), event.device_id);
        self.set_known(Metric::Steps, &labels, steps, event.timestamp_ns);
        steps.is_some()
    }

    /// Adds the device memory of one process on this machine, as the driver reports it.
    pub fn add_share(
        &mut self,
        host: &str,
        device: &DeviceId,
        index: i64,
        share: (u32, i64),
        at_ns: i64,
    ) {
        let (pid, bytes) = share;
        let labels = device.labels(Labels::new().with("host", host).with("pid", pid), index);
        self.set_known(Metric::ProcessDevice, &labels, Some(bytes), at_ns);
    }

    /// Adds how many events of a session were written and how many were dropped.
    pub fn add_counts(&mut self, labels: &Labels, recorded: i64, dropped: i64, at_ns: i64) {
        self.set_known(Metric::Recorded, labels, Some(recorded), at_ns);
        self.set_known(Metric::Dropped, labels, Some(dropped), at_ns);
    }

    /// Adds how many request bodies were sent to one kind of receiver, and how many were
    /// dropped.
    pub fn add_deliveries(&mut self, to: &str, sent: u64, dropped: u64, at_ns: i64) {
        let count = |count: u64| i64::try_from(count).ok();
        let labels = Labels::new().with("to", to);
        self.set_known(Metric::Sent, &labels, count(sent), at_ns);
        self.set_known(Metric::Lost, &labels, count(dropped), at_ns);
    }
}

/// Converts nanoseconds since the Unix epoch to seconds, with a resolution of one microsecond.
pub(crate) fn seconds(at_ns: i64) -> Number {
    Number::Float((at_ns / 1000) as f64 / 1e6)
}

/// The labels that identify the recorded program of an event: host, job, rank and process id.
pub(crate) fn program_labels(event: &Event) -> Labels {
    process_labels(event, event.pid)
}

fn process_labels(event: &Event, pid: i64) -> Labels {
    Labels::new()
        .with("host", event.host.to_str_lossy())
        .with_known("job_id", event.job_id.as_ref().map(Text::to_str_lossy))
        .with("rank", event.rank)
        .with("pid", pid)
}
