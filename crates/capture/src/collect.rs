//! Sources of numbers: each file reads one of them, all through one trait.
//!
//! A collector reads counters when it is asked to and keeps no history. What it cannot read
//! is `None` and named as partial, never zero.

pub mod amd;
pub mod cgroup;
pub mod health;
pub mod host;
pub mod mappings;
pub mod nvml;
mod peak;
pub mod process_tree;
pub mod rising;
pub mod torch;
pub mod tree;

pub use peak::Peak;

use stormlog_format::{Counters, Map};

/// Where the readings of a collector come from, as every record names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSource {
    /// Short name of the runtime: `cuda`, `rocm`, `mps`, `cpu`, `nvml`, ...
    pub backend: String,
    /// The `collector` of every record.
    pub collector: String,
    /// What is asked for the numbers, when records should say.
    pub sampling_source: Option<String>,
    /// Whether the total of the device can be known.
    pub supports_device_total: bool,
    /// Whether the free memory of the device can be known.
    pub supports_device_free: bool,
}

impl CounterSource {
    /// The memory of processes, from the kernel.
    pub fn host() -> Self {
        Self {
            backend: "cpu".into(),
            collector: "stormlog.cpu_tracker".into(),
            sampling_source: None,
            supports_device_total: true,
            supports_device_free: true,
        }
    }

    /// Whether this is the memory of processes rather than of a device.
    pub fn is_host(&self) -> bool {
        self.backend == "cpu"
    }
}

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When the counters were read, nanoseconds since the epoch.
    pub timestamp_ns: i64,
    /// The device, -1 for the host.
    pub device_id: i64,
    /// The counters; `None` is unknown. The change is the recorder's to fill in.
    pub counters: Counters,
    /// A peak that the source itself saw since the last reading, when it is above that reading.
    pub peak_bytes: Option<i64>,
    /// Counters that should be there and are not, by their names in records.
    pub partial_fields: Vec<String>,
    /// Why they are not.
    pub errors: Vec<String>,
    /// Further facts for the record's metadata.
    pub metadata: Map,
    /// What else the source noticed since the last reading.
    pub notices: Vec<Notice>,
}

/// Something that a source noticed beside its numbers, recorded as an event of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The type of the event.
    pub event_type: &'static str,
    /// What a person should know.
    pub context: String,
    /// The facts.
    pub metadata: Map,
}

impl Reading {
    /// How much memory is in use by what is watched: the allocator's word, else the device's.
    pub fn level(&self) -> i64 {
        self.counters
            .allocator_allocated_bytes
            .or(self.counters.device_used_bytes)
            .unwrap_or(0)
    }
}

/// Why there is no reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The source failed; it may answer again later.
    #[error("{0}")]
    Failed(String),
    /// The source is gone for good: the process ended, the interpreter shuts down.
    #[error("{0}")]
    Gone(String),
}

/// One source of numbers.
pub trait Collector: Send {
    /// What the source is.
    fn source(&self) -> &CounterSource;

    /// The driver's unique id of the device that is read, where it has one.
    fn device_uuid(&self) -> Option<String> {
        None
    }

    /// How the memory of the device relates to that of the host, where it is not simply its own:
    /// `integrated` or `coherent`.
    fn device_memory(&self) -> Option<&'static str> {
        None
    }

    /// Reads the counters now.
    fn read(&mut self) -> Result<Reading, CollectError>;

    /// Readings that others took since the last one, oldest first, and one of now.
    fn readings(&mut self) -> Result<Vec<Reading>, CollectError> {
        self.read().map(|reading| vec![reading])
    }
}

/// Bytes as the signed number that records hold.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
