//! Reads JAX's device memory profiles and draws them as an HTML page.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use stormlog_analysis::device_profile::{self, Allocation, ProfileError};
use stormlog_report::device_profile_page as page_of;

use crate::errors::{invalid_artifact, raise};
use crate::recorder::os_error;

/// An entry of a device memory profile: the functions of a call stack, and two values, the number
/// of its allocations and their bytes.
type Sample = (Vec<String>, Vec<i64>);

/// Reads a file with a device memory profile of JAX, and returns its allocations by call stack.
#[pyfunction]
pub(crate) fn read_device_profile(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Sample>> {
    let read = py.detach(|| device_profile::read(&path));
    let allocations = read.map_err(|error| match error {
        ProfileError::Io(error) => os_error(&error, &path),
        other => invalid_artifact(py, format!("cannot read '{}': {other}", path.display())),
    })?;
    let sample = |allocation: Allocation| {
        let stack = allocation.stack.iter().map(ToString::to_string).collect();
        (stack, allocation.values)
    };
    Ok(allocations.into_iter().map(sample).collect())
}

/// Draws the functions that hold device memory as an HTML page and returns its text.
#[pyfunction]
pub(crate) fn device_profile_page(py: Python<'_>, samples: Vec<Sample>) -> PyResult<String> {
    let allocation = |(stack, values): Sample| Allocation {
        stack: stack.into_iter().map(Arc::from).collect(),
        values,
    };
    let allocations: Vec<Allocation> = samples.into_iter().map(allocation).collect();
    page_of(&allocations).map_err(|error| raise(py, "StormlogError", error.to_string()))
}
