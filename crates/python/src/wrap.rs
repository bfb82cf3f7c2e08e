//! Wraps functions of frameworks. The wrappers are not Python functions, so they do not appear in
//! tracebacks of the program.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

/// Wraps a function of PyTorch, so that other functions are called before it and after it.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct Around {
    function: Py<PyAny>,
    before: Option<Py<PyAny>>,
    after: Option<Py<PyAny>>,
}

#[pymethods]
impl Around {
    #[new]
    #[pyo3(signature = (function, *, before=None, after=None))]
    fn new(function: Py<PyAny>, before: Option<Py<PyAny>>, after: Option<Py<PyAny>>) -> Self {
        Self {
            function,
            before,
            after,
        }
    }

    /// Calls the wrapped function and returns its result or its error; errors of the functions
    /// before and after it are ignored.
    #[pyo3(signature = (*arguments, **options))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        if let Some(before) = &self.before {
            unless_failed(py, before.call0(py))?;
        }
        let result = self.function.call(py, arguments, options)?;
        if let Some(after) = &self.after {
            unless_failed(py, after.call0(py))?;
        }
        Ok(result)
    }
}

/// Wraps a method of a class, so that a phase begins with each call and ends with it.
#[pyclass(frozen, dict, module = "stormlog._core")]
pub(crate) struct InPhase {
    function: Py<PyAny>,
    phase: String,
    enter: Py<PyAny>,
}

#[pymethods]
impl InPhase {
    /// The function `enter` is called with the name of the phase, and returns the function that
    /// ends the phase.
    #[new]
    fn new(function: Py<PyAny>, phase: String, enter: Py<PyAny>) -> Self {
        Self {
            function,
            phase,
            enter,
        }
    }

    /// Calls the wrapped method and returns its result or its error; errors of the functions that
    /// begin and end the phase are ignored.
    #[pyo3(signature = (*arguments, **options))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let leave = unless_failed(py, self.enter.call1(py, (&self.phase,)))?;
        let result = self.function.call(py, arguments, options);
        if let Some(leave) = leave {
            unless_failed(py, leave.call0(py))?;
        }
        result
    }

    /// Binds the method to an object, as Python binds a function that is an attribute of a class.
    fn __get__<'py>(
        this: &Bound<'py, Self>,
        object: Option<&Bound<'py, PyAny>>,
        _class: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        match object {
            Some(object) => {
                let method = METHOD.import(this.py(), "types", "MethodType")?;
                method.call1((this, object))
            }
            None => Ok(this.clone().into_any()),
        }
    }
}

/// What a function of the recorder has returned, or `None` if it has failed. The program gets an
/// error only when it is no failure of the recorder, such as an interrupt from the keyboard.
fn unless_failed(py: Python<'_>, result: PyResult<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match result {
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        result => result.map(Some),
    }
}
