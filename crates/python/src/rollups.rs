//! Rollups (totals and peaks of recorded events) for Python, for `stormlog.telemetry_rollups`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_format::rollup::{RollupError, RollupFile};
use stormlog_format::{SessionError, Text, Value};

use crate::convert::{Reading, dict_of, dicts_of, text_of};
use crate::errors::{invalid_session, invalid_value};
use crate::rows::EventRows;
use crate::sink::session_summary;

/// The parts of a session that Python passes: summary, rows of events, sources, warnings.
type Session<'py> = (
    Bound<'py, PyAny>,
    PyRef<'py, EventRows>,
    Vec<Bound<'py, PyAny>>,
    Vec<Bound<'py, PyAny>>,
);

/// Computes the rollups of sessions and returns their fields, in the order of the sessions.
#[pyfunction]
pub(crate) fn session_rollups<'py>(
    py: Python<'py>,
    sessions: Vec<Session<'py>>,
    window_duration_ns: i64,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let texts = |texts: &[Bound<'py, PyAny>]| texts.iter().map(text_of).collect::<PyResult<_>>();
    let mut rollups = Vec::with_capacity(sessions.len());
    for (summary, rows, sources, warnings) in &sessions {
        let summary = session_summary(summary)?;
        let (sources, warnings): (Vec<Text>, Vec<Text>) = (texts(sources)?, texts(warnings)?);
        let events = &rows.0;
        rollups.push(py.detach(|| {
            stormlog_analysis::session_rollup(
                summary,
                events,
                sources,
                warnings,
                window_duration_ns,
            )
        }));
    }
    rollups.sort_by(|a, b| a.order().cmp(&b.order()));
    dicts_of(py, &rollups)
}

/// Checks a mapping with the contents of a rollup file, and returns its fields as a new dictionary.
#[pyfunction]
pub(crate) fn rollups_from_mapping<'py>(
    py: Python<'py>,
    payload: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let file = rollup_file(payload)?;
    dict_of(py, &file.to_map())
}

/// The fields of the rollups of a sink; `None` when the sink has no rollups that match its
/// manifest.
#[pyfunction]
pub(crate) fn read_rollups(py: Python<'_>, path: PathBuf) -> PyResult<Option<Bound<'_, PyDict>>> {
    let file = py.detach(|| stormlog_analysis::read_rollups(&path));
    let fields = file.map(|file| dict_of(py, &file.to_map()));
    fields.transpose()
}

/// The path of a sink's rollup file; `path` is the sink's folder or a file in it.
#[pyfunction]
pub(crate) fn rollup_path(path: PathBuf) -> PathBuf {
    stormlog_analysis::rollup_path(&path)
}

/// Writes rollups into a sink and returns the path of the rollup file.
#[pyfunction]
pub(crate) fn write_rollups(
    py: Python<'_>,
    root_dir: PathBuf,
    payload: &Bound<'_, PyAny>,
) -> PyResult<PathBuf> {
    let file = rollup_file(payload)?;
    Ok(py.detach(|| stormlog_capture::store::write_rollups(&root_dir, &file))?)
}

fn rollup_file(payload: &Bound<'_, PyAny>) -> PyResult<RollupFile> {
    let document = Reading::Record.deep_map(payload)?;
    let document = document.map_or(Value::Null, Value::Map);
    RollupFile::from_value(&document).map_err(|error| match error {
        RollupError::Session(error @ SessionError::WrongType(_)) => {
            invalid_session(payload.py(), &error)
        }
        error => invalid_value(payload.py(), error),
    })
}
