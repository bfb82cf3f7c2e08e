//! Detects exceptions that mean that memory ran out, at the moment they are raised.

use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;

/// Texts in the error messages of frameworks that mean that memory has run out: host memory, or the
/// memory of a device for which the framework offers no out-of-memory callback.
const OOM_TEXTS: [&str; 2] = ["DefaultCPUAllocator", "RESOURCE_EXHAUSTED"];

/// A callable that the interpreter calls for every exception that is raised; to be fast, it checks
/// the type, and the text only for a `RuntimeError`.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct MemoryErrors {
    callback: Py<PyAny>,
}

#[pymethods]
impl MemoryErrors {
    /// Makes a callable that calls `then` with each exception that means that memory ran out.
    #[new]
    fn new(then: Py<PyAny>) -> Self {
        Self { callback: then }
    }

    /// Called by the interpreter for each raised exception. An exception in the function `then` is
    /// ignored.
    fn __call__(&self, _code: &Bound<'_, PyAny>, _offset: i64, error: &Bound<'_, PyAny>) {
        let is_of_memory = error.is_instance_of::<PyMemoryError>()
            || (error.is_instance_of::<PyRuntimeError>() && is_of_memory(error));
        if is_of_memory {
            let _ = self.callback.call1(error.py(), (error,));
        }
    }
}

/// Whether the first argument of an exception contains one of the texts of out-of-memory errors;
/// `str` of the exception is not used, because it may run code of the program.
fn is_of_memory(error: &Bound<'_, PyAny>) -> bool {
    let first = error.getattr("args").and_then(|args| args.get_item(0));
    let text = first.and_then(|first| Ok(first.cast::<pyo3::types::PyString>()?.to_string()));
    text.is_ok_and(|text| OOM_TEXTS.iter().any(|part| text.contains(part)))
}
