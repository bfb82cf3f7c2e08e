//! Collectors, the sources of memory counters. Each collector is one file of the folder `collect`
//! and implements [`Collector`]; the remaining files of the folder read values that several
//! collectors need.
//!
//! A collector reads counters on request and keeps no history. A counter that the collector cannot
//! read is `None` and listed in `partial_fields`; it is never zero.

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

use stormlog_format::{Counters, Map, signed};

use self::cgroup::Room;

/// Describes where the readings of a collector come from. The events that are recorded from the
/// readings contain most of these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSource {
    /// Short name of the runtime: `cuda`, `rocm`, `mps`, `cpu`, ...
    pub backend: String,
    /// The name of the collector, which every record contains as `collector`.
    pub collector: String,
    /// The interface through which the counters are read, such as NVML; only some records name an
    /// interface.
    pub sampling_source: Option<String>,
    /// Whether the source can provide the total memory of the device.
    pub supports_device_total: bool,
    /// Whether the source can provide the free memory of the device.
    pub supports_device_free: bool,
}

impl CounterSource {
    /// The source for the host memory of processes, read from the kernel.
    pub fn host() -> Self {
        Self {
            backend: "cpu".into(),
            collector: "stormlog.cpu_tracker".into(),
            sampling_source: None,
            supports_device_total: true,
            supports_device_free: true,
        }
    }

    /// The source for the memory of a device that is read from outside of the processes that use it.
    fn device(backend: &str, collector: &str, sampling_source: &str) -> Self {
        Self {
            backend: backend.into(),
            collector: collector.into(),
            sampling_source: Some(sampling_source.into()),
            supports_device_total: true,
            supports_device_free: true,
        }
    }

    /// Whether this source measures the memory of processes rather than of a device.
    pub fn is_host(&self) -> bool {
        self.backend == "cpu"
    }
}

/// The values of a source's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When the counters were read, nanoseconds since the epoch.
    pub timestamp_ns: i64,
    /// The number of the device, -1 for the host.
    pub device_id: i64,
    /// The values of the counters; `None` means that a value is unknown. The recorder, not the
    /// collector, fills in the counter for the change since the previous sample.
    pub counters: Counters,
    /// The highest memory use between the last reading and this one, in bytes. It is set only if
    /// the source has a peak counter of its own (such as PyTorch's `max_memory_allocated`) that
    /// rose to a value above this reading.
    pub peak_bytes: Option<i64>,
    /// Names of counters that the source should have provided and did not, as records spell them.
    pub partial_fields: Vec<String>,
    /// Why the counters in `partial_fields` could not be read.
    pub errors: Vec<String>,
    /// Further values that are recorded in the sample's metadata.
    pub metadata: Map,
    /// Events that the source noticed since the last reading, such as the start or the end of a
    /// child process.
    pub notices: Vec<Notice>,
}

/// Something that is recorded as an event of its own besides the samples: what a source noticed,
/// such as the start of a child process, a change of a collector's health, or an alert.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The type of the event that records the notice.
    pub event_type: &'static str,
    /// The text of the event, which is written for people.
    pub context: String,
    /// Details that are recorded in the metadata of the event.
    pub metadata: Map,
}

impl Reading {
    /// A reading of host memory in which `level` bytes are in use, without its time.
    fn of_host(level: u64, room: Room) -> Self {
        let level = Some(signed(level));
        Self {
            device_id: -1,
            counters: Counters {
                allocator_allocated_bytes: level,
                allocator_reserved_bytes: level,
                device_used_bytes: level,
                device_free_bytes: room.free.map(signed),
                device_total_bytes: room.total.map(signed),
                ..Counters::default()
            },
            ..Self::default()
        }
    }

    /// Bytes in use: `allocator_allocated_bytes`, or `device_used_bytes` for a source that reads
    /// only the device and therefore counts the memory of all processes.
    pub fn level(&self) -> i64 {
        self.counters.level().unwrap_or(0)
    }
}

/// Why a collector could not take a reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The source failed; a later reading may succeed.
    #[error("{0}")]
    Failed(String),
    /// The source has ended: the process ended, or the interpreter shuts down.
    #[error("{0}")]
    Gone(String),
}

/// Reads the memory counters of one source, such as a GPU or the processes of a program.
pub trait Collector: Send {
    /// Describes where the readings of this collector come from.
    fn source(&self) -> &CounterSource;

    /// The unique id that the driver gives to the device, if it gives one.
    fn device_uuid(&self) -> Option<String> {
        None
    }

    /// How the memory of the device relates to the host's memory, where the two are not separate:
    /// `integrated` or `coherent`.
    fn device_memory(&self) -> Option<&'static str> {
        None
    }

    /// Reads the counters now.
    fn read(&mut self) -> Result<Reading, CollectError>;

    /// Returns the readings that the source has stored since the last call, oldest first. A source
    /// that has stored none reads the counters now; most sources never store readings.
    fn readings(&mut self) -> Result<Vec<Reading>, CollectError> {
        self.read().map(|reading| vec![reading])
    }
}
