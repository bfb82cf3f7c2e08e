//! Counters that come from Python: PyTorch in this process, or a collector of the user's own.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use stormlog_capture::collect::nvml::{self, Gpu};
use stormlog_capture::collect::{CollectError, Collector, Reading, Source};
use stormlog_capture::record::clock::now_ns;
use stormlog_format::{Counters, Map};

use crate::recorder::whole_map;

/// The collector that a Python object describes: one that names PyTorch's own functions is
/// read without going through it, any other is asked.
pub(crate) fn collector_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn Collector>> {
    let capabilities = object.call_method0("capabilities")?;
    let word = |key: &str| -> PyResult<String> { capabilities.get_item(key)?.extract() };
    let flag = |key: &str| -> PyResult<bool> { capabilities.get_item(key)?.extract() };
    let source = Source {
        backend: word("backend")?,
        collector: word("telemetry_collector")?,
        sampling_source: Some(word("sampling_source")?),
        supports_device_total: flag("supports_device_total")?,
        supports_device_free: flag("supports_device_free")?,
    };
    let native = match object.getattr("torch_functions") {
        Ok(function) => function.call0()?.extract::<Option<TorchFunctions>>()?,
        Err(_) => None,
    };
    Ok(match native {
        Some(functions) => Box::new(TorchCollector::new(source, functions)),
        None => Box::new(PythonCollector {
            source,
            object: object.clone().unbind(),
            peak: Peak::default(),
        }),
    })
}

/// What of PyTorch is called for a reading.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TorchFunctions {
    /// The allocator's counters as a nested dictionary.
    memory_stats: Py<PyAny>,
    /// Whether CUDA has been used in this process; asking must not start it.
    is_initialized: Py<PyAny>,
    /// Free and total bytes as the driver sees them, for when NVML does not answer.
    mem_get_info: Py<PyAny>,
    index: i64,
    uuid: Option<String>,
}

/// Reads PyTorch's allocator, and the device through NVML so that memory which the allocator
/// does not own is seen too. Only the allocator needs the interpreter.
struct TorchCollector {
    source: Source,
    functions: TorchFunctions,
    gpu: Option<Gpu>,
    is_initialized: bool,
    peak: Peak,
}

/// An allocator's own peak. It belongs to the user, who may reset it; a rise since the last
/// reading is a peak that happened in between.
#[derive(Default)]
struct Peak(Option<i64>);

impl Peak {
    /// Takes the peak as it is now and puts into the reading what a sample could not see.
    fn follow(&mut self, peak: i64, reading: &mut Reading) {
        let before = self.0.replace(peak);
        if before.is_some_and(|before| peak > before) {
            reading.peak_bytes =
                Some(peak).filter(|peak| Some(*peak) > reading.counters.allocator_allocated_bytes);
        }
        reading.metadata.insert("allocator_peak_bytes", peak);
    }
}

impl TorchCollector {
    fn new(source: Source, functions: TorchFunctions) -> Self {
        let gpu = functions.uuid.as_deref().and_then(nvml::gpu_with_uuid);
        Self {
            source,
            functions,
            gpu,
            is_initialized: false,
            peak: Peak::default(),
        }
    }

    fn read_allocator(&mut self, py: Python<'_>) -> PyResult<Reading> {
        let mut reading = Reading {
            device_id: self.functions.index,
            timestamp_ns: now_ns(),
            ..Reading::default()
        };
        if !self.is_initialized {
            self.is_initialized = self.functions.is_initialized.call0(py)?.extract(py)?;
        }
        if self.is_initialized {
            let stats = self.functions.memory_stats.bind(py);
            let stats = stats.call1((self.functions.index,))?;
            self.fill(py, &stats, &mut reading)?;
        } else {
            // An allocator that was never used holds nothing.
            let none = Some(0);
            reading.counters.allocator_allocated_bytes = none;
            reading.counters.allocator_reserved_bytes = none;
            reading.counters.allocator_active_bytes = none;
            reading.counters.allocator_inactive_bytes = none;
        }
        if self.gpu.is_none() && self.is_initialized {
            let info = self
                .functions
                .mem_get_info
                .call1(py, (self.functions.index,));
            match info.and_then(|info| info.extract::<(i64, i64)>(py)) {
                Ok((free, total)) => set_device(&mut reading.counters, total - free, free, total),
                Err(error) => reading.errors.push(error.to_string()),
            }
        }
        Ok(reading)
    }

    fn fill<'py>(
        &mut self,
        py: Python<'py>,
        stats: &Bound<'py, PyAny>,
        reading: &mut Reading,
    ) -> PyResult<()> {
        let group = |name: &Bound<'py, PyString>| -> PyResult<Bound<'py, PyAny>> {
            stats.get_item(name)?.get_item(intern!(py, "all"))
        };
        let number = |group: &Bound<'py, PyAny>, key: &Bound<'py, PyString>| {
            group.get_item(key)?.extract::<i64>()
        };
        let current = intern!(py, "current");
        let allocated = group(intern!(py, "allocated_bytes"))?;
        let counters = &mut reading.counters;
        counters.allocator_allocated_bytes = Some(number(&allocated, current)?);
        let reserved = group(intern!(py, "reserved_bytes"))?;
        counters.allocator_reserved_bytes = Some(number(&reserved, current)?);
        let active = group(intern!(py, "active_bytes"));
        counters.allocator_active_bytes = active.and_then(|all| number(&all, current)).ok();
        let inactive = group(intern!(py, "inactive_split_bytes"));
        counters.allocator_inactive_bytes = inactive.and_then(|all| number(&all, current)).ok();
        let peak = number(&allocated, intern!(py, "peak"))?;
        self.peak.follow(peak, reading);
        for name in ["num_alloc_retries", "num_ooms"] {
            if let Ok(count) = stats
                .get_item(name)
                .and_then(|value| value.extract::<i64>())
                && count > 0
            {
                reading.metadata.insert(name, count);
            }
        }
        Ok(())
    }
}

impl Collector for TorchCollector {
    fn source(&self) -> &Source {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let read = Python::try_attach(|py| {
            let read = self.read_allocator(py);
            read.map_err(|error| CollectError::Failed(message(py, &error)))
        });
        let mut reading = read.unwrap_or_else(interpreter_is_gone)?;
        if let Some(gpu) = &self.gpu {
            read_device(gpu, &mut reading);
        }
        name_what_is_missing(&mut reading);
        Ok(reading)
    }
}

/// Asks a Python object for a sample and its diagnostics.
struct PythonCollector {
    source: Source,
    object: Py<PyAny>,
    peak: Peak,
}

#[derive(FromPyObject)]
struct Sample {
    allocated_bytes: i64,
    reserved_bytes: i64,
    used_bytes: i64,
    free_bytes: Option<i64>,
    total_bytes: Option<i64>,
    active_bytes: Option<i64>,
    inactive_bytes: Option<i64>,
    device_id: i64,
}

impl PythonCollector {
    fn ask(&mut self, py: Python<'_>) -> PyResult<Result<Reading, CollectError>> {
        let timestamp_ns = now_ns();
        let result = self.object.bind(py);
        let result = result.call_method0(intern!(py, "sample_with_diagnostics"))?;
        let sample: Option<Sample> = result.getattr(intern!(py, "sample"))?.extract()?;
        let Some(sample) = sample else {
            let error: Option<String> = result.getattr(intern!(py, "core_error"))?.extract()?;
            let error = error.unwrap_or_else(|| "the collector gave no sample".into());
            return Ok(Err(CollectError::Failed(error)));
        };
        let errors = result.getattr(intern!(py, "errors"))?;
        let errors = errors.call_method0(intern!(py, "values"))?.try_iter()?;
        let errors = errors.map(|error| Ok(error?.str()?.to_string()));
        let mut reading = Reading {
            timestamp_ns,
            device_id: sample.device_id,
            counters: Counters {
                allocator_allocated_bytes: Some(sample.allocated_bytes),
                allocator_reserved_bytes: Some(sample.reserved_bytes),
                allocator_active_bytes: sample.active_bytes,
                allocator_inactive_bytes: sample.inactive_bytes,
                allocator_change_bytes: None,
                device_used_bytes: Some(sample.used_bytes),
                device_free_bytes: sample.free_bytes,
                device_total_bytes: sample.total_bytes,
            },
            peak_bytes: None,
            partial_fields: result.getattr(intern!(py, "partial_fields"))?.extract()?,
            errors: errors.collect::<PyResult<_>>()?,
            metadata: Map::new(),
        };
        // What a collector of the user's own need not know of.
        if let Some(facts) = result.getattr_opt(intern!(py, "metadata"))? {
            reading.metadata = whole_map(&facts)?;
        }
        if let Some(peak) = result.getattr_opt(intern!(py, "allocator_peak_bytes"))?
            && let Some(peak) = peak.extract()?
        {
            self.peak.follow(peak, &mut reading);
        }
        Ok(Ok(reading))
    }
}

impl Collector for PythonCollector {
    fn source(&self) -> &Source {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let read = Python::try_attach(|py| {
            let asked = self.ask(py);
            asked.unwrap_or_else(|error| Err(CollectError::Failed(message(py, &error))))
        });
        read.unwrap_or_else(interpreter_is_gone)
    }
}

fn interpreter_is_gone() -> Result<Reading, CollectError> {
    Err(CollectError::Gone(
        "the interpreter is shutting down".into(),
    ))
}

fn message(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).str();
    text.map_or_else(|_| error.to_string(), |text| text.to_string())
}

/// The device as the driver sees it; the interpreter is free meanwhile.
fn read_device(gpu: &Gpu, reading: &mut Reading) {
    match nvml::device_memory(gpu.index) {
        Ok(memory) => {
            let bytes = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let (used, free, total) = (memory.used, memory.free, memory.total);
            set_device(
                &mut reading.counters,
                bytes(used),
                bytes(free),
                bytes(total),
            );
        }
        Err(error) => reading.errors.push(error),
    }
    let own = std::process::id();
    if let Ok(Some(bytes)) = nvml::process_memory(gpu.index, |pid| pid == own) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        reading.metadata.insert("process_device_used_bytes", bytes);
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
    // Before CUDA is used and without NVML there is nobody to ask; that is no failure.
    let nobody_asked = counters.device_used_bytes.is_none() && reading.errors.is_empty();
    for (name, value) in fields {
        if value.is_none() && !(nobody_asked && name.starts_with("device")) {
            reading.partial_fields.push(name.to_owned());
        }
    }
}
