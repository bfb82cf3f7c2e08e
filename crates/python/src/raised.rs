//! Detects exceptions that mean that memory ran out, at the moment they are raised.

use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use stormlog_format::classify::{ExhaustedMemory, exhausted_memory};

/// A callable that the interpreter calls for every exception that is raised; to be fast, it checks
/// the type, and the text only for a `RuntimeError`.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct MemoryErrors {
    callback: Py<PyAny>,
}

#[pymethods]
impl MemoryErrors {
    /// Makes a callable that calls `then` with each exception that means that memory ran out, and
    /// with whether it is the memory of a device.
    #[new]
    fn new(then: Py<PyAny>) -> Self {
        Self { callback: then }
    }

    /// Called by the interpreter for each raised exception. An exception in the function `then` is
    /// ignored.
    fn __call__(&self, _code: &Bound<'_, PyAny>, _offset: i64, error: &Bound<'_, PyAny>) {
        let memory = if error.is_instance_of::<PyMemoryError>() {
            Some(ExhaustedMemory::Host)
        } else if error.is_instance_of::<PyRuntimeError>() {
            exhausted_memory_of(error)
        } else {
            None
        };
        if let Some(memory) = memory {
            let is_device = memory == ExhaustedMemory::Device;
            let _ = self.callback.call1(error.py(), (error, is_device));
        }
    }
}

/// Which memory ran out, by the first argument of an exception; `str` of the exception is not used,
/// because it may run code of the program.
fn exhausted_memory_of(error: &Bound<'_, PyAny>) -> Option<ExhaustedMemory> {
    let first = error.getattr("args").ok()?.get_item(0).ok()?;
    exhausted_memory(&first.cast::<PyString>().ok()?.to_string_lossy())
}
