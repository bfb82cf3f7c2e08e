//! Shows the ranks of many artifacts in one table, for `stormlog.tui.distributed_diagnostics`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_compat::distributed::{self, Model};

use crate::convert::dicts_of;
use crate::errors::{invalid_artifact, invalid_value};
use crate::load::{SessionFields, session_fields};
use crate::rows::EventRows;

/// The loaded artifacts for Python: sessions with their warnings, the index of the selected
/// session, all warnings, all sources.
type GatheredFields<'py> = (
    Vec<(SessionFields<'py>, Vec<String>)>,
    Option<usize>,
    Vec<String>,
    Vec<String>,
);

/// Loads the sessions of all recordings at the given paths, and selects the session with the id
/// `session_id`, or a default session if it is `None`.
#[pyfunction]
#[pyo3(signature = (paths, session_id))]
pub(crate) fn gather_artifacts<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    session_id: Option<&str>,
) -> PyResult<GatheredFields<'py>> {
    let gathered = py
        .detach(|| distributed::gather(&paths, session_id))
        .map_err(|error| invalid_artifact(py, error))?;
    let sessions = gathered.sessions.into_iter();
    let sessions = sessions.map(|(session, warnings)| Ok((session_fields(py, session)?, warnings)));
    Ok((
        sessions.collect::<PyResult<_>>()?,
        gathered.selected,
        gathered.warnings,
        gathered.sources,
    ))
}

/// Compares the ranks that recorded the events, and returns a dictionary with the fields of
/// `DistributedDiagnosticsModel` by name, among them a table with one row per rank.
#[pyfunction]
#[pyo3(signature = (rows, ranks))]
pub(crate) fn distributed_model<'py>(
    py: Python<'py>,
    rows: &EventRows,
    ranks: Option<BTreeSet<i64>>,
) -> PyResult<Bound<'py, PyDict>> {
    let model = py.detach(|| distributed::model(&rows.0, ranks.as_ref()));
    model_fields(py, &model)
}

/// The available ranks that a filter text such as `0,2-4` or `all` selects.
#[pyfunction]
pub(crate) fn parse_rank_filter(
    py: Python<'_>,
    text: &str,
    available: Vec<i64>,
) -> PyResult<BTreeSet<i64>> {
    distributed::parse_rank_filter(text, &available).map_err(|error| invalid_value(py, error))
}

fn model_fields<'py>(py: Python<'py>, model: &Model) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("rows", dicts_of(py, &model.rows)?)?;
    fields.set_item("indicators", dicts_of(py, &model.indicators)?)?;
    fields.set_item("expected_ranks", &model.expected_ranks)?;
    fields.set_item("present_ranks", &model.present_ranks)?;
    fields.set_item("missing_ranks", &model.missing_ranks)?;
    let timelines = PyDict::new(py);
    for (rank, timeline) in &model.timelines {
        let lists = PyDict::new(py);
        lists.set_item("timestamps_ns", &timeline.timestamps_ns)?;
        lists.set_item("allocated", &timeline.allocated)?;
        lists.set_item("reserved", &timeline.reserved)?;
        lists.set_item("gap", &timeline.gap)?;
        timelines.set_item(rank, lists)?;
    }
    fields.set_item("per_rank_timelines", timelines)?;
    fields.set_item("warnings", &model.warnings)?;
    Ok(fields)
}
