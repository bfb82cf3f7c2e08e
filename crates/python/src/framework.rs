//! Analyses profiles and tracking results of TensorFlow and JAX for Python.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stormlog_compat::framework::{self, Fragmentation, Framework, FunctionProfile};
use stormlog_format::Value;

use crate::convert::{dict_of, dicts_of, scalar, text_from_python};
use crate::errors::invalid_value;

/// The profile of a function from Python: name, number of calls, total seconds, total megabytes,
/// peak megabytes.
type FunctionFields<'py> = (Bound<'py, PyString>, i64, f64, f64, f64);

fn functions(fields: Vec<FunctionFields<'_>>) -> PyResult<Vec<FunctionProfile>> {
    let profile = |(name, calls, total_seconds, total_memory_mb, peak_memory_mb)| {
        Ok(FunctionProfile {
            name: text_from_python(&name)?,
            calls,
            total_seconds,
            total_memory_mb,
            peak_memory_mb,
        })
    };
    fields.into_iter().map(profile).collect()
}

fn framework_of(py: Python<'_>, name: &str) -> PyResult<Framework> {
    let unknown = || invalid_value(py, format!("unknown framework '{name}'"));
    Framework::parse(name).ok_or_else(unknown)
}

/// Finds signs of a leak in memory use over time, given in megabytes.
#[pyfunction]
pub(crate) fn framework_leaks<'py>(
    py: Python<'py>,
    usage: Vec<f64>,
    growth_rate: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let growth_rate = scalar(growth_rate)?.unwrap_or(Value::Null);
    dicts_of(py, framework::leaks(&usage, growth_rate))
}

/// Finds repeated patterns and sudden rises in memory use over time, given in megabytes.
#[pyfunction]
pub(crate) fn framework_patterns(
    py: Python<'_>,
    usage: Vec<f64>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    dicts_of(py, framework::patterns(&usage))
}

/// Computes the fragmentation of memory from snapshots, each given as megabytes in use and
/// reserved.
#[pyfunction]
pub(crate) fn framework_fragmentation<'py>(
    py: Python<'py>,
    snapshots: Vec<(f64, f64)>,
    trend_name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let map = Fragmentation::of(&snapshots).to_map(trend_name);
    dict_of(py, &map)
}

/// Computes how efficiently memory is used, as a score from 0 to 10.
#[pyfunction]
pub(crate) fn framework_efficiency(
    peak_mb: f64,
    growth: f64,
    fragmentation: f64,
    usage: Option<Vec<f64>>,
) -> f64 {
    framework::efficiency(peak_mb, growth, fragmentation, usage.as_deref())
}

/// Computes memory and time per call for each profiled function.
#[pyfunction]
pub(crate) fn framework_performance<'py>(
    py: Python<'py>,
    name: &str,
    profiles: Vec<FunctionFields<'py>>,
) -> PyResult<Bound<'py, PyDict>> {
    let map = framework::performance(framework_of(py, name)?, &functions(profiles)?);
    dict_of(py, &map)
}

/// Suggests how a profiled TensorFlow or JAX program can use less memory.
#[pyfunction]
pub(crate) fn framework_suggestions(
    py: Python<'_>,
    name: &str,
    peak_mb: f64,
    growth: f64,
    fragmentation: f64,
    profiles: Vec<FunctionFields<'_>>,
) -> PyResult<Vec<String>> {
    let functions = functions(profiles)?;
    let framework = framework_of(py, name)?;
    let (peak, share) = (peak_mb, fragmentation);
    let advice = framework::suggestions(framework, peak, growth, share, &functions);
    Ok(advice)
}

/// The overall score of a TensorFlow or JAX profile, the scores for memory efficiency,
/// fragmentation and performance of which it is the mean, and suggestions.
#[pyfunction]
pub(crate) fn framework_score<'py>(
    py: Python<'py>,
    efficiency: f64,
    fragmentation: Option<f64>,
    profiles: Vec<FunctionFields<'py>>,
    suggestions: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let functions = functions(profiles)?;
    let map = framework::score(efficiency, fragmentation, &functions, suggestions);
    dict_of(py, &map)
}
