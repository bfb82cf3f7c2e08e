//! PyTorch's allocator of one CUDA device.
//!
//! Its counters need the interpreter, so a thread that reads them makes the program wait. They
//! are read where the interpreter is at hand anyway, on the training thread at the end of a
//! step, and by the sampling thread only when no step has come for a while. The device itself
//! is read through NVML, which needs no interpreter.

mod allocator;
mod snapshot;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use stormlog_capture::collect::nvml::{self, Gpu};
use stormlog_capture::collect::{CollectError, Collector, CounterSource, Reading};
use stormlog_capture::record::rising::{Rise, Rising};
use stormlog_format::{Counters, Map, Value};

use self::allocator::{Allocator, AllocatorReading};
use self::watch::Watch;

pub(crate) use self::allocator::TorchFunctions;
pub(crate) use self::snapshot::{live_blocks, pool_sizes};
use crate::sources::{Peak, interpreter_is_gone, message};

/// A reading at the end of a step costs about 25 µs, so that ten a second cost nothing that can
/// be measured. The other steps are only counted.
const STEP_PERIOD: Duration = Duration::from_millis(100);

/// How old the counters may be before the sampling thread reads them itself: five times a second
/// at least they are read.
const STALE_AFTER: Duration = Duration::from_millis(150);

/// The least time between two readings by the sampling thread. Each makes a loop that is bound
/// by Python lose up to 0.4 ms, whichever way the thread waits.
const INTERPRETER_PERIOD: Duration = Duration::from_millis(120);

/// Readings at ends of steps that wait for the sampling thread.
const MOST_WAITING: usize = 32;

/// Optimizers that get a number of their own; further ones share the last number.
const MOST_OPTIMIZERS: usize = 8;

/// What the training thread and the sampling thread share.
#[derive(Default)]
struct Shared {
    steps: AtomicU64,
    readings: Mutex<Readings>,
    watch: Watch,
}

#[derive(Default)]
struct Readings {
    optimizers: Vec<Optimizer>,
    waiting: Vec<StepReading>,
    last_read: Option<Instant>,
}

/// An optimizer by its address, which no other has while it lives.
struct Optimizer {
    address: usize,
    last_read: Option<Instant>,
    level: Rising,
}

/// The allocator at the end of a step.
struct StepReading {
    allocator: AllocatorReading,
    step: u64,
    optimizer: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Readings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a step: its number, that of its optimizer, and whether a reading is due.
    fn step(&self, address: usize) -> (u64, usize, bool) {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let mut readings = self.lock();
        let known = readings
            .optimizers
            .iter()
            .position(|one| one.address == address);
        let index = known.unwrap_or_else(|| {
            if readings.optimizers.len() < MOST_OPTIMIZERS {
                readings.optimizers.push(Optimizer {
                    address,
                    last_read: None,
                    level: watch::level_at_steps(),
                });
            }
            readings.optimizers.len() - 1
        });
        let optimizer = &mut readings.optimizers[index];
        let is_due = optimizer
            .last_read
            .is_none_or(|read| now.duration_since(read) >= STEP_PERIOD);
        if is_due {
            optimizer.last_read = Some(now);
        }
        (step, index, is_due)
    }

    /// Keeps a reading at the end of a step; the rise of the level that it completes.
    fn keep(&self, reading: StepReading) -> Option<Rise> {
        let now = Instant::now();
        let mut readings = self.lock();
        readings.last_read = Some(now);
        let level = reading.allocator.counters.allocator_allocated_bytes;
        let optimizer = readings.optimizers.get_mut(reading.optimizer);
        let rise = optimizer
            .zip(level)
            .and_then(|(one, level)| one.level.add(level, now));
        if readings.waiting.len() >= MOST_WAITING {
            readings.waiting.remove(0);
        }
        readings.waiting.push(reading);
        rise
    }
}

/// Called by PyTorch at the end of every optimizer's step, on the training thread.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct StepHook {
    shared: Arc<Shared>,
    allocator: Arc<Allocator>,
}

#[pymethods]
impl StepHook {
    /// Takes whatever PyTorch passes; a failure stays here.
    #[pyo3(signature = (optimizer, *_rest))]
    fn __call__(&self, py: Python<'_>, optimizer: &Bound<'_, PyAny>, _rest: &Bound<'_, PyTuple>) {
        let (step, index, is_due) = self.shared.step(optimizer.as_ptr() as usize);
        let mut rise = None;
        if is_due && let Ok(Some(allocator)) = self.allocator.read(py) {
            rise = self.shared.keep(StepReading {
                allocator,
                step,
                optimizer: index,
            });
        }
        self.shared.watch.at_step(py, step, index, rise);
    }

    /// Has a function called at the ends of steps once the level there rises: with the number of
    /// the step and the rise so far in bytes, and at every further end of a step of that optimizer
    /// for as long as it returns true. What it raises ends that for good.
    fn set_watcher(&self, watcher: Option<Py<PyAny>>) {
        self.shared.watch.set(watcher);
    }

    /// Calls the watcher at the next end of a step, whether the level rises or not.
    fn attend(&self) {
        self.shared.watch.attend();
    }

    /// Why the watcher is no longer called.
    #[getter]
    fn watcher_error(&self) -> Option<String> {
        self.shared.watch.error()
    }

    /// Bytes per second by which the level rises in a program without steps; none where it does
    /// not. Given once for each rise.
    fn take_rise(&self) -> Option<f64> {
        self.shared.watch.take_rise()
    }

    /// How many steps there have been.
    #[getter]
    fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }
}

/// Reads PyTorch's allocator, and the device through NVML so that memory which the allocator
/// does not own is seen too.
pub(crate) struct TorchCollector {
    source: CounterSource,
    allocator: Arc<Allocator>,
    shared: Arc<Shared>,
    gpu: Option<Gpu>,
    device_uuid: Option<String>,
    /// The last counters, whoever read them.
    last: Option<AllocatorReading>,
    read_at: Option<Instant>,
    peak: Peak,
    /// The level of a program without steps.
    level: Rising,
}

/// The id with the driver's prefix, which PyTorch leaves out. The driver lists every GPU; a device of
/// PyTorch that is not among them is a MIG instance of one.
fn device_uuid(of_torch: Option<&str>, gpu: Option<&Gpu>) -> Option<String> {
    if let Some(gpu) = gpu {
        return Some(gpu.uuid.clone());
    }
    let uuid = of_torch.filter(|_| nvml::gpus().is_ok_and(|gpus| !gpus.is_empty()))?;
    Some(format!("MIG-{}", uuid.strip_prefix("MIG-").unwrap_or(uuid)))
}

impl TorchCollector {
    pub(crate) fn new(source: CounterSource, functions: TorchFunctions) -> Self {
        let gpu = functions.uuid.as_deref().and_then(nvml::gpu_with_uuid);
        let device_uuid = device_uuid(functions.uuid.as_deref(), gpu.as_ref());
        let asks_torch_for_device = gpu.is_none();
        Self {
            source,
            allocator: Arc::new(Allocator::new(functions, asks_torch_for_device)),
            shared: Arc::default(),
            gpu,
            device_uuid,
            last: None,
            read_at: None,
            peak: Peak::default(),
            level: watch::level_anywhere(),
        }
    }

    /// What PyTorch should call at the end of every step.
    pub(crate) fn step_hook(&self) -> StepHook {
        StepHook {
            shared: self.shared.clone(),
            allocator: self.allocator.clone(),
        }
    }

    /// Whether the sampling thread may take the interpreter now.
    fn may_read_allocator(&self) -> bool {
        let age = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        let last_step = self.shared.lock().last_read;
        age(last_step) >= STALE_AFTER && age(self.read_at) >= INTERPRETER_PERIOD
    }

    fn read_allocator(&mut self) -> Result<(), CollectError> {
        let read = Python::try_attach(|py| {
            let read = self.allocator.read(py);
            read.map_err(|error| CollectError::Failed(message(py, &error)))
        });
        let read = read.unwrap_or_else(interpreter_is_gone)?;
        self.read_at = Some(Instant::now());
        self.last = Some(read.unwrap_or_else(AllocatorReading::unused));
        Ok(())
    }

    /// A reading of the allocator with the device beside it.
    fn reading(&mut self, device: &Device, facts: Map) -> Reading {
        let allocator = self.last.clone().unwrap_or_else(AllocatorReading::unused);
        let mut reading = Reading {
            timestamp_ns: allocator.read_ns,
            device_id: self.allocator.index(),
            counters: allocator.counters,
            errors: device.errors.clone(),
            metadata: device.facts.clone(),
            ..Reading::default()
        };
        if let Some((used, free, total)) = device.memory.or(allocator.device) {
            set_device(&mut reading.counters, used, free, total);
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

    /// Follows the level of a program that has no steps.
    fn watch_level(&mut self) {
        let last = self.last.as_ref();
        let level = last.and_then(|last| last.counters.allocator_allocated_bytes);
        if let Some(level) = level.filter(|_| self.shared.steps.load(Ordering::Relaxed) == 0)
            && let Some(rise) = self.level.add(level, Instant::now())
        {
            self.shared.watch.risen(rise);
        }
    }

    fn step_facts(&self) -> Map {
        let mut facts = Map::new();
        let steps = self.shared.steps.load(Ordering::Relaxed);
        if steps > 0 {
            facts.insert("step_count", signed(steps));
        }
        facts
    }
}

impl Collector for TorchCollector {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn device_uuid(&self) -> Option<String> {
        self.device_uuid.clone()
    }

    /// The counters of now, for events of the program's own.
    fn read(&mut self) -> Result<Reading, CollectError> {
        self.read_allocator()?;
        let device = Device::read(self.gpu.as_ref());
        let facts = self.step_facts();
        Ok(self.reading(&device, facts))
    }

    fn readings(&mut self) -> Result<Vec<Reading>, CollectError> {
        let waiting = std::mem::take(&mut self.shared.lock().waiting);
        let reads_now = waiting.is_empty() && self.may_read_allocator();
        if reads_now || (self.last.is_none() && waiting.is_empty()) {
            self.read_allocator()?;
        }
        let device = Device::read(self.gpu.as_ref());
        if !waiting.is_empty() {
            let mut readings = Vec::with_capacity(waiting.len());
            for step in waiting {
                self.last = Some(step.allocator);
                let mut facts = self.step_facts();
                facts.insert("step", signed(step.step));
                facts.insert("optimizer", signed(step.optimizer as u64));
                readings.push(self.reading(&device, facts));
            }
            return Ok(readings);
        }
        if reads_now {
            self.watch_level();
        }
        let facts = self.step_facts();
        let mut reading = self.reading(&device, facts);
        if !reads_now {
            reading
                .metadata
                .insert("allocator_read_ns", reading.timestamp_ns);
            reading.timestamp_ns = device.read_ns;
        }
        Ok(vec![reading])
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The device as the driver sees it.
struct Device {
    read_ns: i64,
    /// Used, free and total.
    memory: Option<(i64, i64, i64)>,
    facts: Map,
    errors: Vec<String>,
}

impl Device {
    fn read(gpu: Option<&Gpu>) -> Self {
        let mut device = Self {
            read_ns: stormlog_capture::record::clock::now_ns(),
            memory: None,
            facts: Map::new(),
            errors: Vec::new(),
        };
        let Some(gpu) = gpu else {
            return device;
        };
        match nvml::device_memory(gpu.index) {
            Ok(memory) => {
                device.memory = Some((
                    signed(memory.used),
                    signed(memory.free),
                    signed(memory.total),
                ));
            }
            Err(error) => device.errors.push(error),
        }
        // A driver that knows processes by the numbers of another namespace knows none of ours.
        let own = std::process::id();
        if let Ok(shares) = nvml::shares(gpu.index)
            && shares.iter().any(|share| share.pid == own)
        {
            let mut others = Map::new();
            for share in shares {
                let bytes = signed(share.bytes);
                if share.pid == own {
                    device.facts.insert("process_device_used_bytes", bytes);
                } else {
                    others.insert(share.pid.to_string(), bytes);
                }
            }
            if !others.is_empty() {
                device.facts.insert("other_processes", Value::Map(others));
            }
        }
        device
    }
}

fn set_device(counters: &mut Counters, used: i64, free: i64, total: i64) {
    counters.device_used_bytes = Some(used);
    counters.device_free_bytes = Some(free);
    counters.device_total_bytes = Some(total);
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
    // Before CUDA is used and without NVML there is nothing to ask; that is no failure.
    let nothing_asked = counters.device_used_bytes.is_none() && reading.errors.is_empty();
    for (name, value) in fields {
        if value.is_none() && !(nothing_asked && name.starts_with("device")) {
            reading.partial_fields.push(name.to_owned());
        }
    }
}
