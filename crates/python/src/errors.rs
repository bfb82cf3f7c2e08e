//! Converts Rust errors to the Python exceptions that users of stormlog 0.3.9 catch.

use std::fmt::Display;

use pyo3::prelude::*;
use stormlog_capture::collect::CollectError;
use stormlog_compat::projection::ProjectionError;
use stormlog_format::{RecordError, SessionError};

/// The exception that Python code gets for an invalid event record.
pub(crate) fn invalid_record(py: Python<'_>, error: &RecordError) -> PyErr {
    let class = match error {
        RecordError::IntegerTooLarge(_) => "OutOfRangeError",
        _ => "InvalidRecordError",
    };
    raise(py, class, error.to_string())
}

/// The exception for an invalid session summary.
pub(crate) fn invalid_session(py: Python<'_>, error: &SessionError) -> PyErr {
    let class = match error {
        SessionError::WrongType(_) => "InvalidTypeError",
        SessionError::IntegerTooLarge(_) => "OutOfRangeError",
        _ => "InvalidValueError",
    };
    raise(py, class, error.to_string())
}

/// The exception for a record that cannot be converted to the form of `stormlog.telemetry_model`.
pub(crate) fn invalid_projection(py: Python<'_>, error: &ProjectionError) -> PyErr {
    let class = match error {
        ProjectionError::IntegerTooLarge(_) => "OutOfRangeError",
        _ => "InvalidRecordError",
    };
    raise(py, class, error.to_string())
}

/// The exception for a value that is not valid, such as an unknown name.
pub(crate) fn invalid_value(py: Python<'_>, message: impl Display) -> PyErr {
    raise(py, "InvalidValueError", message.to_string())
}

/// The exception for a file or folder without the content that is needed.
pub(crate) fn invalid_artifact(py: Python<'_>, message: impl Display) -> PyErr {
    raise(py, "InvalidArtifactError", message.to_string())
}

/// The exception for a value of the wrong type.
pub(crate) fn wrong_type(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "InvalidTypeError", message)
}

/// Makes an exception with a message; `class` is the name of a class in the module
/// `stormlog.errors`.
pub(crate) fn raise(py: Python<'_>, class: &str, message: impl Into<String>) -> PyErr {
    raise_with(py, class, (message.into(),))
}

/// Makes an exception with the given constructor arguments; `class` is the name of a class in the
/// module `stormlog.errors`.
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

/// The error of a collector whose Python functions cannot be called any more.
pub(crate) fn interpreter_is_gone<T>() -> Result<T, CollectError> {
    Err(CollectError::Gone(
        "the interpreter is shutting down".into(),
    ))
}

/// The text of a Python exception.
pub(crate) fn message(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).str();
    text.map_or_else(|_| error.to_string(), |text| text.to_string())
}
