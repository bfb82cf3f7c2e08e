//! Reads PyTorch's allocator of one CUDA device.
//!
//! Reading PyTorch's counters needs the Python interpreter, so a thread that reads them makes the
//! program wait. PyTorch's counters are read on the training thread at the end of a step, where the
//! interpreter is held anyway; the sampling thread reads them only when no step has ended for a
//! while. The memory of the CUDA device itself is read through NVML, which needs no interpreter.
//! The calls into PyTorch are made by the implementation of [`Allocator`].

mod attention;
mod device;
mod rising;
mod steps;

use std::sync::Arc;
use std::time::{Duration, Instant};

use stormlog_format::{Counters, Map, SampleNumber, signed};

use self::attention::level_anywhere;
pub use self::attention::{Attended, Attention};
use self::device::{Device, LastShares};
pub use self::steps::{StepReading, Steps};
use super::nvml::{self, Gpu};
use super::peak::Peak;
use super::{CollectError, Collector, CounterSource, Reading};
use crate::clock::now_ns;
use rising::Rising;

/// When PyTorch's counters are older than this, the sampling thread reads them itself, so that they
/// are read at least five times a second.
const STALE_AFTER: Duration = Duration::from_millis(150);

/// The least time between two readings of PyTorch's counters by the sampling thread. Each reading
/// of PyTorch's counters by the sampling thread costs a program that is bound by Python up to 0.4
/// ms, whichever way the thread waits for the interpreter.
const INTERPRETER_PERIOD: Duration = Duration::from_millis(120);

/// Reads the counters of PyTorch's caching allocator.
pub trait Allocator: Send + Sync {
    /// The index of the CUDA device in this process.
    fn index(&self) -> i64;

    /// Reads the allocator's counters now; `None` when the program has not used CUDA yet.
    fn read(&self) -> Result<Option<AllocatorReading>, CollectError>;
}

/// The values of the allocator's counters at one moment.
#[derive(Clone, Debug)]
pub struct AllocatorReading {
    /// When the allocator's counters were read, in nanoseconds since the epoch.
    pub read_ns: i64,
    /// The allocator's counters.
    pub counters: Counters,
    /// The allocator's own peak: its highest level since the program last reset the peak.
    pub peak: Option<i64>,
    /// Used, free and total bytes of the device, where NVML does not know the device.
    pub device: Option<(i64, i64, i64)>,
    /// Further counters of the allocator, for the metadata of the sample.
    pub facts: Map,
}

impl AllocatorReading {
    /// The reading of an allocator that was never used: zero bytes.
    pub fn unused() -> Self {
        let none = Some(0);
        Self {
            read_ns: now_ns(),
            counters: Counters {
                allocator_allocated_bytes: none,
                allocator_reserved_bytes: none,
                allocator_active_bytes: none,
                allocator_inactive_bytes: none,
                ..Counters::default()
            },
            peak: None,
            device: None,
            facts: Map::new(),
        }
    }
}

/// What PyTorch knows of a CUDA device.
#[derive(Clone, Debug, Default)]
pub struct TorchDevice {
    /// The UUID of the device, without the driver's prefix `GPU-`.
    pub uuid: Option<String>,
    /// Whether the device has no memory of its own but uses that of the host.
    pub is_integrated: bool,
}

/// State that the training thread and the sampling thread share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The count of training steps, and the allocator's counters at the ends of some of them.
    pub steps: Steps,
    /// Decides at which training steps the watcher is called, a Python function that inspects the
    /// program's memory when memory use keeps rising.
    pub attention: Attention,
}

/// Reads PyTorch's allocator, and also the device through NVML, so that memory which the allocator
/// does not own is seen too.
pub struct TorchCollector<A> {
    source: CounterSource,
    allocator: Arc<A>,
    shared: Arc<Shared>,
    gpu: Option<Gpu>,
    device_uuid: Option<String>,
    device_memory: Option<&'static str>,
    last_shares: LastShares,
    /// The allocator's last counters, read by the training thread or the sampling thread.
    last: Option<AllocatorReading>,
    read_at: Option<Instant>,
    peak: Peak,
    /// Detects that the memory of a program without training steps keeps rising.
    level: Rising,
}

/// The UUID of a device with the driver's prefix, `GPU-` or `MIG-`, even if PyTorch's UUID has no
/// prefix. NVML lists every GPU, so a device of PyTorch that NVML does not list is a MIG instance,
/// a part of a GPU that is used like a separate device.
fn device_uuid(of_torch: Option<&str>, gpu: Option<&Gpu>) -> Option<String> {
    if let Some(gpu) = gpu {
        return Some(gpu.uuid.clone());
    }
    let uuid = of_torch.filter(|_| nvml::gpus().is_ok_and(|gpus| !gpus.is_empty()))?;
    Some(format!("MIG-{}", uuid.strip_prefix("MIG-").unwrap_or(uuid)))
}

impl<A: Allocator> TorchCollector<A> {
    /// Makes a collector for one CUDA device. The function `allocator` is called with `true` when
    /// NVML does not know the device, so that the allocator must read the memory of the device too.
    pub fn new(
        source: CounterSource,
        device: &TorchDevice,
        allocator: impl FnOnce(bool) -> A,
    ) -> Self {
        let gpu = device.uuid.as_deref().and_then(nvml::gpu_with_uuid);
        let name = gpu.as_ref().map(|gpu| &*gpu.name);
        Self {
            source,
            allocator: Arc::new(allocator(gpu.is_none())),
            shared: Arc::default(),
            device_uuid: device_uuid(device.uuid.as_deref(), gpu.as_ref()),
            device_memory: device::memory_kind(device.is_integrated, name),
            gpu,
            last_shares: LastShares::default(),
            last: None,
            read_at: None,
            peak: Peak::default(),
            level: level_anywhere(),
        }
    }

    /// The state and the allocator that the training thread uses at the end of every step.
    pub fn at_steps(&self) -> (Arc<Shared>, Arc<A>) {
        (self.shared.clone(), self.allocator.clone())
    }

    /// Whether the sampling thread may acquire Python's interpreter lock now to read the allocator.
    fn may_read_allocator(&self) -> bool {
        let age = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        let last_step = self.shared.steps.last_read();
        age(last_step) >= STALE_AFTER && age(self.read_at) >= INTERPRETER_PERIOD
    }

    fn read_allocator(&mut self) -> Result<(), CollectError> {
        let read = self.allocator.read()?;
        self.read_at = Some(Instant::now());
        self.last = Some(read.unwrap_or_else(AllocatorReading::unused));
        Ok(())
    }

    /// Makes a reading from the last counters of the allocator and from the device's counters.
    fn reading(&mut self, device: &Device, facts: Map) -> Reading {
        let allocator = self.last.clone().unwrap_or_else(AllocatorReading::unused);
        let holds_memory = allocator.counters.allocator_reserved_bytes > Some(0);
        let mut reading = Reading {
            timestamp_ns: allocator.read_ns,
            device_id: self.allocator.index(),
            counters: allocator.counters,
            errors: device.errors.clone(),
            metadata: device.facts(holds_memory),
            ..Reading::default()
        };
        if let Some((used, free, total)) = device.memory.or(allocator.device) {
            reading.counters.device_used_bytes = Some(used);
            reading.counters.device_free_bytes = Some(free);
            reading.counters.device_total_bytes = Some(total);
        }
        for (name, value) in allocator.facts.into_iter().chain(facts) {
            reading.metadata.insert(name, value);
        }
        if let Some(peak) = allocator.peak {
            self.peak.follow(peak, &mut reading);
        }
        name_what_is_missing(&mut reading);
        reading
    }

    /// In a program without training steps, checks at every reading whether the allocated memory
    /// keeps rising.
    fn watch_level(&mut self) {
        let last = self.last.as_ref();
        let level = last.and_then(|last| last.counters.allocator_allocated_bytes);
        if let Some(level) = level.filter(|_| self.shared.steps.count() == 0)
            && let Some(rise) = self.level.add(level, Instant::now())
        {
            self.shared.attention.risen(rise);
        }
    }

    fn step_facts(&self) -> Map {
        let mut facts = Map::new();
        let steps = self.shared.steps.count();
        if steps > 0 {
            facts.insert(SampleNumber::StepCount.key(), signed(steps));
        }
        facts
    }
}

impl<A: Allocator> Collector for TorchCollector<A> {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn device_uuid(&self) -> Option<String> {
        self.device_uuid.clone()
    }

    fn device_memory(&self) -> Option<&'static str> {
        self.device_memory
    }

    /// Reads the allocator and the device now, for an event that the program records itself.
    fn read(&mut self) -> Result<Reading, CollectError> {
        self.read_allocator()?;
        let device = Device::read(self.gpu.as_ref(), &mut self.last_shares);
        let facts = self.step_facts();
        Ok(self.reading(&device, facts))
    }

    fn readings(&mut self) -> Result<Vec<Reading>, CollectError> {
        let waiting = self.shared.steps.take();
        let reads_now = waiting.is_empty() && self.may_read_allocator();
        if reads_now || (self.last.is_none() && waiting.is_empty()) {
            self.read_allocator()?;
        }
        let device = Device::read(self.gpu.as_ref(), &mut self.last_shares);
        if !waiting.is_empty() {
            let readings = waiting.into_iter().map(|step| {
                self.last = Some(step.allocator);
                let mut facts = self.step_facts();
                facts.insert(SampleNumber::Step.key(), signed(step.step));
                facts.insert(SampleNumber::Optimizer.key(), signed(step.optimizer));
                self.reading(&device, facts)
            });
            return Ok(readings.collect());
        }
        if reads_now {
            self.watch_level();
        }
        let facts = self.step_facts();
        let mut reading = self.reading(&device, facts);
        if !reads_now {
            reading
                .metadata
                .insert(SampleNumber::AllocatorReadNs.key(), reading.timestamp_ns);
            reading.timestamp_ns = device.read_ns;
        }
        Ok(vec![reading])
    }
}

fn name_what_is_missing(reading: &mut Reading) {
    let counters = &reading.counters;
    let fields = [
        ("device_total_bytes", counters.device_total_bytes),
        ("device_free_bytes", counters.device_free_bytes),
        ("allocator_active_bytes", counters.allocator_active_bytes),
        (
            "allocator_inactive_bytes",
            counters.allocator_inactive_bytes,
        ),
    ];
    // While CUDA is unused and NVML is missing, the device's counters were not asked for. They are
    // unknown, but no reading failed, so they are not listed as missing.
    let nothing_asked = counters.device_used_bytes.is_none() && reading.errors.is_empty();
    for (name, value) in fields {
        if value.is_none() && !(nothing_asked && name.starts_with("device")) {
            reading.partial_fields.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use stormlog_format::Value;

    /// An allocator whose memory level the test sets; it counts how often it is read.
    #[derive(Default)]
    struct Scripted {
        level: AtomicI64,
        reads: AtomicI64,
        fails: bool,
    }

    impl Allocator for Scripted {
        fn index(&self) -> i64 {
            3
        }

        fn read(&self) -> Result<Option<AllocatorReading>, CollectError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            if self.fails {
                return Err(CollectError::Failed("no".into()));
            }
            Ok(Some(reading_of(self.level.load(Ordering::Relaxed))))
        }
    }

    fn reading_of(level: i64) -> AllocatorReading {
        let mut reading = AllocatorReading::unused();
        reading.counters.allocator_allocated_bytes = Some(level);
        reading.counters.allocator_reserved_bytes = Some(level);
        reading.device = Some((level + 1, 9, level + 10));
        reading.peak = Some(level);
        reading
    }

    fn collector(allocator: Scripted) -> TorchCollector<Scripted> {
        let mut source = CounterSource::host();
        source.backend = "cuda".into();
        TorchCollector::new(source, &TorchDevice::default(), |asks_for_device| {
            assert!(asks_for_device, "no driver knows the device");
            allocator
        })
    }

    #[test]
    fn readings_at_ends_of_steps_come_first_and_spare_the_interpreter() {
        let mut collector = collector(Scripted::default());
        let (shared, allocator) = collector.at_steps();
        for step in 1..=2 {
            let (number, optimizer, _) = shared.steps.begin(0xa);
            assert_eq!((number, optimizer), (step, 0));
            shared.steps.keep(StepReading {
                allocator: reading_of(100 * i64::try_from(step).unwrap()),
                step,
                optimizer,
            });
        }
        let readings = collector.readings().unwrap();
        let levels = readings
            .iter()
            .map(|one| one.counters.allocator_allocated_bytes);
        assert_eq!(levels.collect::<Vec<_>>(), [Some(100), Some(200)]);
        assert_eq!(readings[1].metadata.get("step"), Some(&Value::Int(2)));
        assert_eq!(readings[1].metadata.get("step_count"), Some(&Value::Int(2)));
        assert_eq!(readings[1].counters.device_used_bytes, Some(201));
        assert_eq!(readings[1].device_id, 3);
        // PyTorch's counters were read a moment ago, so the next sample repeats them and contains
        // the time at which they were read.
        let repeated = collector.readings().unwrap().remove(0);
        assert_eq!(repeated.counters.allocator_allocated_bytes, Some(200));
        assert!(repeated.metadata.contains("allocator_read_ns"));
        assert_eq!(allocator.reads.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_sampling_thread_reads_when_no_step_came_and_not_too_often() {
        let mut collector = collector(Scripted::default());
        let (_, allocator) = collector.at_steps();
        let first = collector.readings().unwrap().remove(0);
        assert!(!first.metadata.contains("allocator_read_ns"));
        collector.readings().unwrap();
        assert_eq!(allocator.reads.load(Ordering::Relaxed), 1);
        collector.read_at = Instant::now().checked_sub(INTERPRETER_PERIOD);
        collector.readings().unwrap();
        assert_eq!(allocator.reads.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_failed_reading_is_an_error_and_no_zero() {
        let mut collector = collector(Scripted {
            fails: true,
            ..Scripted::default()
        });
        assert_eq!(collector.readings(), Err(CollectError::Failed("no".into())));
    }

    #[test]
    fn counters_that_the_allocator_lacks_are_named() {
        let mut collector = collector(Scripted::default());
        let mut reading = reading_of(5);
        reading.counters.allocator_active_bytes = None;
        collector.last = Some(reading);
        let reading =
            collector.reading(&Device::read(None, &mut LastShares::default()), Map::new());
        assert_eq!(reading.partial_fields, ["allocator_active_bytes"]);
    }

    #[test]
    fn the_level_of_a_program_without_steps_is_watched() {
        let mut collector = collector(Scripted::default());
        let (shared, allocator) = collector.at_steps();
        for level in 0..400 {
            allocator.level.store(level << 20, Ordering::Relaxed);
            collector.read_allocator().unwrap();
            collector.watch_level();
        }
        assert!(shared.attention.take_rise().is_some());
    }
}
