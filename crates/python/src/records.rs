//! Validates records and determines job id and ranks, for Python: applies the rules of
//! `stormlog.telemetry` to plain mappings.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_capture::launcher;
use stormlog_format::{IdentityInput, Map, RecordDefaults, RecordError};

use crate::convert::whole_map;
use crate::convert::{Objects, dict_of};
use crate::errors::invalid_record;
use crate::events::event_object;

/// Raises an exception if the record breaks a rule of its `schema_version`.
#[pyfunction]
pub(crate) fn validate_record(py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<()> {
    let record = record_of(&mut Objects::default(), record)?;
    stormlog_format::validate(&record).map_err(|error| invalid_record(py, &error))
}

/// Converts a record of any version to a Python event object, with defaults for what is missing.
#[pyfunction]
pub(crate) fn event_from_record<'py>(
    py: Python<'py>,
    record: &Bound<'py, PyAny>,
    permissive_legacy: bool,
    default_collector: &Bound<'py, PyAny>,
    default_sampling_interval_ms: &Bound<'py, PyAny>,
    default_session_id: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Objects::default();
    let record = record_of(&mut objects, record)?;
    let defaults = RecordDefaults {
        permissive_legacy,
        collector: objects.shallow(default_collector)?,
        sampling_interval_ms: objects.shallow(default_sampling_interval_ms)?,
        session_id: default_session_id
            .map(|id| objects.shallow(id))
            .transpose()?,
    };
    let event = stormlog_format::event_from_record(&record, &defaults)
        .map_err(|error| invalid_record(py, &error))?;
    let fields = objects.map_to_python(py, &event.to_record())?;
    event_object(py, event.version, fields)
}

/// Determines job id, rank, local rank and world size from arguments, metadata and environment
/// variables.
#[pyfunction]
#[pyo3(signature = (job_id, rank, local_rank, world_size, metadata, env))]
pub(crate) fn resolve_identity<'py>(
    py: Python<'py>,
    job_id: &Bound<'py, PyAny>,
    rank: &Bound<'py, PyAny>,
    local_rank: &Bound<'py, PyAny>,
    world_size: &Bound<'py, PyAny>,
    metadata: Option<&Bound<'py, PyAny>>,
    env: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut objects = Objects::default();
    let explicit = [
        objects.shallow(job_id)?,
        objects.shallow(rank)?,
        objects.shallow(local_rank)?,
        objects.shallow(world_size)?,
    ];
    let mut flat = |object: Option<&Bound<'py, PyAny>>| match object {
        Some(object) => objects.flat(object),
        None => Ok(None),
    };
    let (metadata, env) = (flat(metadata)?, flat(env)?);
    let input = IdentityInput {
        explicit: explicit.each_ref().map(Some),
        metadata: metadata.as_ref(),
        ..IdentityInput::default()
    };
    let identity =
        launcher::resolve(input, env.as_ref()).map_err(|error| invalid_record(py, &error))?;
    dict_of(py, &identity)
}

/// The identity of a process that `stormlog run` records, from its environment variables; see
/// `launcher::resolve_or_alone`.
#[pyfunction]
pub(crate) fn recorded_identity<'py>(env: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let (identity, _) = launcher::resolve_or_alone(&whole_map(env)?);
    dict_of(env.py(), &identity)
}

fn record_of<'py>(objects: &mut Objects<'py>, record: &Bound<'py, PyAny>) -> PyResult<Map> {
    objects
        .record(record)?
        .ok_or_else(|| invalid_record(record.py(), &RecordError::NotAMapping))
}
