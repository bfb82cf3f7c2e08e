//! Fills the fields of Python's event dataclasses directly, because the checks of these classes
//! need not run again.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use stormlog_format::Version;

static VERSION_3: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static VERSION_4: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Makes a Python `TelemetryEventV3` or `TelemetryEventV4` from fields that are known to be valid.
pub(crate) fn event_object<'py>(
    py: Python<'py>,
    version: Version,
    fields: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = match version {
        Version::V3 => VERSION_3.import(py, "stormlog.telemetry", "TelemetryEventV3")?,
        Version::V4 => VERSION_4.import(py, "stormlog.telemetry", "TelemetryEventV4")?,
    };
    let event = class.call_method1(intern!(py, "__new__"), (class,))?;
    event.setattr(intern!(py, "__dict__"), fields)?;
    Ok(event)
}
