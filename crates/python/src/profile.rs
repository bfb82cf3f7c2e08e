//! Analyses of profiled calls for Python: patterns of wasted memory, insights (observations such as
//! slow functions), the score and the report's summary.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_compat::optimization::{self, ProfileThresholds, ProfiledCall};

use crate::convert::{dict_of, dicts_of, text_of};

/// The fields of a profiled call from Python: function, seconds, start time, end time; then, in
/// bytes, the allocated memory before and after the call, the reserved memory after the call, the
/// peak, what the call allocated, and by how much the memory grew.
type CallFields<'py> = (
    Bound<'py, PyAny>,
    f64,
    f64,
    f64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
);

/// Profiled calls that Python passes as a sequence of tuples, see `CallFields`.
pub(crate) struct Calls(Vec<ProfiledCall>);

impl<'py> FromPyObject<'_, 'py> for Calls {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let calls = object.try_iter()?.map(|call| {
            let call = call?;
            let (
                function,
                seconds,
                started_at,
                ended_at,
                before,
                after,
                reserved,
                peak,
                allocated,
                growth,
            ) = call.extract::<CallFields<'_>>()?;
            Ok(ProfiledCall {
                function: text_of(&function)?,
                seconds,
                started_at,
                ended_at,
                allocated_before: before,
                allocated_after: after,
                reserved_after: reserved,
                peak,
                allocated,
                growth,
            })
        });
        Ok(Self(calls.collect::<PyResult<_>>()?))
    }
}

fn limits(thresholds: [f64; 6]) -> ProfileThresholds {
    let [leak, fragmentation, inefficient, slow, high_memory, calls] = thresholds;
    ProfileThresholds {
        memory_leak_ratio: leak,
        fragmentation_ratio: fragmentation,
        inefficient_allocation_ratio: inefficient,
        slow_function_percentile: slow,
        high_memory_percentile: high_memory,
        min_calls_for_analysis: calls,
    }
}

/// Finds patterns of wasted memory, such as leaks, in profiled calls. Returns, for each pattern,
/// the fields of `MemoryPattern` by name.
#[pyfunction]
pub(crate) fn profile_patterns(
    py: Python<'_>,
    calls: Calls,
    thresholds: [f64; 6],
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    dicts_of(py, optimization::patterns(&calls.0, &limits(thresholds)))
}

/// Finds insights about profiled calls, such as slow functions and growing memory. Returns, for
/// each insight, the fields of `PerformanceInsight` by name.
#[pyfunction]
pub(crate) fn profile_insights(
    py: Python<'_>,
    calls: Calls,
    thresholds: [f64; 6],
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    dicts_of(py, optimization::insights(&calls.0, &limits(thresholds)))
}

/// The summary of a report on profiled calls: the numbers of functions and calls, the allocated
/// bytes and the total time.
#[pyfunction]
pub(crate) fn profile_summary(py: Python<'_>, calls: Calls) -> PyResult<Bound<'_, PyDict>> {
    dict_of(py, &optimization::summary(&calls.0))
}

/// The score of a profile from 0 to 100: 100 minus deductions for the severities of its patterns
/// and the impacts of its insights.
#[pyfunction]
pub(crate) fn optimization_score(
    py: Python<'_>,
    severities: Vec<String>,
    impacts: Vec<String>,
) -> PyResult<Bound<'_, PyDict>> {
    let severities: Vec<&str> = severities.iter().map(String::as_str).collect();
    let impacts: Vec<&str> = impacts.iter().map(String::as_str).collect();
    dict_of(py, &optimization::score(&severities, &impacts))
}
