//! Converts records, given as mappings, to the form that `stormlog.telemetry_model` defines, called
//! their projection.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_compat::projection::{self, PROJECTION_VERSION};
use stormlog_format::{Map, Text, Value};

use crate::convert::{Objects, Reading, text_of};
use crate::errors::{invalid_projection, wrong_type};

/// Converts a record to the form that `stormlog.telemetry_model` defines, and returns its fields by
/// name.
#[pyfunction]
pub(crate) fn project<'py>(
    py: Python<'py>,
    record: &Bound<'py, PyAny>,
    observed_timestamp_ns: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let no_mapping = || wrong_type(py, "projected telemetry record must be a mapping");
    let mut objects = Objects::default();
    let view = objects.projected(record)?.ok_or_else(no_mapping)?;
    let observed = objects.shallow(observed_timestamp_ns)?;
    let projected = projection::project(&view, Some(&observed))
        .map_err(|error| invalid_projection(py, &error))?;
    let whole = Reading::Record.deep_map(record)?.ok_or_else(no_mapping)?;
    let metadata = view.object("metadata");
    let severity_text = metadata.and_then(|metadata| metadata.get("severity_text"));

    let mut fields = Map::new();
    fields.insert("schema_version", PROJECTION_VERSION);
    fields.insert("record_id", stormlog_analysis::record_id(&whole));
    fields.insert("timestamp_ns", projected.timestamp_ns);
    fields.insert("observed_timestamp_ns", projected.observed_timestamp_ns);
    fields.insert("session_id", projected.session_id);
    fields.insert("source_kind", projected.source_kind);
    fields.insert("event_type", projected.event_type);
    fields.insert("stage", projected.stage);
    fields.insert("severity", projected.severity);
    let severity_text = python_text(&objects, severity_text, projected.severity_text)?;
    fields.insert("severity_text", severity_text);
    let body = python_text(&objects, view.get("context"), projected.body)?;
    fields.insert("body", body);
    fields.insert("resource", Value::Map(projected.resource));
    fields.insert("attributes", Value::Map(projected.attributes));
    fields.insert("correlation", Value::Map(projected.correlation));
    objects.map_to_python(py, &fields)
}

/// The indices of the mappings that differ from all mappings that precede them in the list.
#[pyfunction]
pub(crate) fn distinct(py: Python<'_>, mappings: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<usize>> {
    let map = |mapping: Bound<'_, PyAny>| match Reading::Record.deep_map(&mapping)? {
        Some(map) => Ok(map),
        None => Err(wrong_type(
            py,
            "resources and correlations must be mappings",
        )),
    };
    let maps = mappings
        .into_iter()
        .map(map)
        .collect::<PyResult<Vec<Map>>>()?;
    Ok(projection::distinct(&maps))
}

/// The text of a value; for an opaque Python object, the text that Python's `str` returns.
fn python_text(
    objects: &Objects<'_>,
    value: Option<&Value>,
    text: Option<Text>,
) -> PyResult<Option<Text>> {
    match value {
        Some(Value::Opaque(handle)) => objects.object(*handle).map(text_of).transpose(),
        _ => Ok(text),
    }
}
