//! Reads the counters of PyTorch's caching allocator while the interpreter lock is held.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use stormlog_capture::clock::now_ns;
use stormlog_capture::collect::CollectError;
use stormlog_capture::collect::torch::{Allocator, AllocatorReading};
use stormlog_format::{Counters, Map, SampleNumber};

use crate::errors::{interpreter_is_gone, message};

/// The least time between two readings of the counters of pinned host memory. They are read less
/// often than the counters of the device, because few programs use pinned memory.
const PINNED_PERIOD: Duration = Duration::from_secs(1);

/// The functions of PyTorch that return the state of a CUDA device's allocator, and the device that
/// they are called for. Python passes them as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TorchFunctions {
    /// Returns the allocator's counters as a nested dictionary.
    memory_stats: Py<PyAny>,
    /// Returns whether CUDA has been used in this process, without initializing CUDA.
    is_initialized: Py<PyAny>,
    /// Returns free and total bytes as the driver reports them, for devices that NVML does not
    /// know.
    mem_get_info: Py<PyAny>,
    /// Returns the counters of pinned host memory, where the version of PyTorch has them.
    host_memory_stats: Option<Py<PyAny>>,
    index: i64,
    pub(super) uuid: Option<String>,
    /// Whether the device has no memory of its own but uses that of the host.
    pub(super) is_integrated: bool,
}

/// Reads the counters of PyTorch's allocator for one CUDA device, by calling PyTorch's functions.
pub(crate) struct PythonAllocator {
    functions: TorchFunctions,
    is_initialized: AtomicBool,
    asks_for_device: bool,
    pinned: Mutex<Pinned>,
}

#[derive(Default)]
struct Pinned {
    read_at: Option<Instant>,
    bytes: Option<i64>,
}

impl Allocator for PythonAllocator {
    fn index(&self) -> i64 {
        self.functions.index
    }

    fn read(&self) -> Result<Option<AllocatorReading>, CollectError> {
        let read = Python::try_attach(|py| {
            let read = self.counters(py);
            read.map_err(|error| CollectError::Failed(message(py, &error)))
        });
        read.unwrap_or_else(interpreter_is_gone)
    }
}

impl PythonAllocator {
    pub(super) fn new(functions: TorchFunctions, asks_for_device: bool) -> Self {
        Self {
            functions,
            is_initialized: AtomicBool::new(false),
            asks_for_device,
            pinned: Mutex::default(),
        }
    }

    /// Reads the allocator's counters now; `None` when the program has not used CUDA yet.
    pub(super) fn counters(&self, py: Python<'_>) -> PyResult<Option<AllocatorReading>> {
        if !self.is_initialized.load(Ordering::Relaxed) {
            let is_initialized: bool = self.functions.is_initialized.call0(py)?.extract(py)?;
            if !is_initialized {
                return Ok(None);
            }
            self.is_initialized.store(true, Ordering::Relaxed);
        }
        let stats = self.functions.memory_stats.bind(py);
        let stats = stats.call1((self.functions.index,))?;
        let mut reading = filled(py, &stats)?;
        if let Some(pinned) = self.pinned(py) {
            reading.facts.insert(SampleNumber::Pinned.key(), pinned);
        }
        if self.asks_for_device {
            let info = self.functions.mem_get_info.call1(py, (self.index(),));
            let info = info.and_then(|info| info.extract::<(i64, i64)>(py));
            reading.device = info.ok().map(|(free, total)| (total - free, free, total));
        }
        Ok(Some(reading))
    }

    /// Bytes of pinned host memory that the program holds; `None` while the program holds none.
    fn pinned(&self, py: Python<'_>) -> Option<i64> {
        let function = self.functions.host_memory_stats.as_ref()?;
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = pinned
            .read_at
            .is_none_or(|read| read.elapsed() >= PINNED_PERIOD);
        if is_due {
            pinned.read_at = Some(Instant::now());
            let stats = function.bind(py).call0();
            let bytes = stats.and_then(|stats| {
                let bytes = stats.get_item(intern!(py, "allocated_bytes"))?;
                bytes.get_item(intern!(py, "current"))?.extract::<i64>()
            });
            pinned.bytes = bytes.ok();
        }
        pinned.bytes.filter(|bytes| *bytes > 0)
    }
}

fn filled<'py>(py: Python<'py>, stats: &Bound<'py, PyAny>) -> PyResult<AllocatorReading> {
    let group = |name: &Bound<'py, PyString>| -> PyResult<Bound<'py, PyAny>> {
        stats.get_item(name)?.get_item(intern!(py, "all"))
    };
    let number = |group: &Bound<'py, PyAny>, key: &Bound<'py, PyString>| {
        group.get_item(key)?.extract::<i64>()
    };
    let current = intern!(py, "current");
    let allocated = group(intern!(py, "allocated_bytes"))?;
    let reserved = group(intern!(py, "reserved_bytes"))?;
    let active = group(intern!(py, "active_bytes"));
    let inactive = group(intern!(py, "inactive_split_bytes"));
    let mut facts = Map::new();
    for name in ["num_alloc_retries", "num_ooms"] {
        if let Ok(count) = stats
            .get_item(name)
            .and_then(|value| value.extract::<i64>())
            && count > 0
        {
            facts.insert(name, count);
        }
    }
    Ok(AllocatorReading {
        read_ns: now_ns(),
        counters: Counters {
            allocator_allocated_bytes: Some(number(&allocated, current)?),
            allocator_reserved_bytes: Some(number(&reserved, current)?),
            allocator_active_bytes: active.and_then(|all| number(&all, current)).ok(),
            allocator_inactive_bytes: inactive.and_then(|all| number(&all, current)).ok(),
            ..Counters::default()
        },
        peak: Some(number(&allocated, intern!(py, "peak"))?),
        device: None,
        facts,
    })
}
