//! Rust errors as the Python exceptions that users catch today.

use pyo3::prelude::*;
use stormlog_format::{RecordError, SessionError};

/// A record that breaks a rule.
pub(crate) fn invalid_record(py: Python<'_>, error: &RecordError) -> PyErr {
    raise(py, "InvalidRecordError", error.to_string())
}

/// A session summary that cannot be read.
pub(crate) fn invalid_session(py: Python<'_>, error: &SessionError) -> PyErr {
    let class = match error {
        SessionError::WrongType(_) => "InvalidTypeError",
        _ => "InvalidValueError",
    };
    raise(py, class, error.to_string())
}

/// An exception of `stormlog.errors` with a message.
pub(crate) fn raise(py: Python<'_>, class: &str, message: String) -> PyErr {
    raise_with(py, class, (message,))
}

/// An exception of `stormlog.errors` with the given arguments.
pub(crate) fn raise_with<'py, A>(py: Python<'py>, class: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let exception = || {
        py.import("stormlog.errors")?
            .getattr(class)?
            .call1(arguments)
    };
    match exception() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
