//! Collectors whose counters come from Python: PyTorch in this process, or a user's own collector.

use pyo3::intern;
use pyo3::prelude::*;
use stormlog_capture::clock::now_ns;
use stormlog_capture::collect::{CollectError, Collector, CounterSource, Peak, Reading};
use stormlog_format::Counters;

use crate::convert::whole_map;
use crate::errors::{interpreter_is_gone, message};
use crate::torch_source::{self, StepHook, TorchFunctions};

/// Makes the collector that a Python object describes. If the object's method `torch_functions`
/// returns functions of PyTorch, the collector calls these functions directly, and the result
/// includes the hook that reads the counters at the ends of steps. Otherwise the collector calls
/// the object itself for each sample.
pub(crate) fn collector_of(
    object: &Bound<'_, PyAny>,
) -> PyResult<(Box<dyn Collector>, Option<StepHook>)> {
    let capabilities = object.call_method0("capabilities")?;
    let word = |key: &str| -> PyResult<String> { capabilities.get_item(key)?.extract() };
    let flag = |key: &str| -> PyResult<bool> { capabilities.get_item(key)?.extract() };
    let source = CounterSource {
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
    if let Some(functions) = native {
        let (collector, hook) = torch_source::collector(source, functions);
        return Ok((Box::new(collector), Some(hook)));
    }
    let collector = PythonCollector {
        source,
        object: object.clone().unbind(),
        peak: Peak::default(),
    };
    Ok((Box::new(collector), None))
}

/// A collector that calls a Python object for each sample of the counters. The object also returns
/// the errors that occurred and the names of the fields that it could not read.
struct PythonCollector {
    source: CounterSource,
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
            partial_fields: result.getattr(intern!(py, "partial_fields"))?.extract()?,
            errors: errors.collect::<PyResult<_>>()?,
            ..Reading::default()
        };
        // A user's own collector need not provide the attribute `metadata`.
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
    fn source(&self) -> &CounterSource {
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
