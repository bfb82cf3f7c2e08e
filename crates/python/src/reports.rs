//! Makes complete reports for Python: analyses and comparisons of runs, each as a JSON document and
//! as text.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use stormlog_analysis::analyze::{AnalyzeOptions, analyze};
use stormlog_analysis::compare::{self, FailOn, Gates, Side, SideError};
use stormlog_analysis::{LoadOptions, OnError, gather};
use stormlog_report::document::to_value;
use stormlog_report::{Terminal, analyze as analyzed, compare as compared};

use crate::errors::{invalid_artifact, invalid_value};
use crate::json_objects::object;
use crate::load::load_error;

/// A report for Python: as a dictionary with the content of its JSON form, and as text.
type Rendered<'py> = (Bound<'py, PyAny>, String);

/// Analyzes the run that is recorded in the artifacts at the given paths, and returns the report.
#[pyfunction]
pub(crate) fn analyze_runs(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    session_id: Option<String>,
    rank: Option<i64>,
    oom_horizon_hours: f64,
    skip_damaged: bool,
) -> PyResult<Rendered<'_>> {
    let choice = choice(session_id, rank, oom_horizon_hours);
    let gathered = py.detach(|| gather(&paths, &loading(skip_damaged)));
    let gathered = gathered.map_err(|(_, error)| load_error(py, &error))?;
    let outcome = py.detach(|| analyze(&gathered.loaded, &choice));
    let report = outcome.map_err(|error| invalid_value(py, error))?;
    let document = to_value(&analyzed::Document::of(&report)).to_string();
    let text = analyzed::to_text(&report, analyzed::Detail::Short, Terminal::PLAIN);
    Ok((object(py, document.as_bytes())?, text))
}

/// Compares the run `new` with the run `base`, and checks the limits (gates) for the growth of
/// memory.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "each argument is a flag of the command"
)]
pub(crate) fn compare_runs<'py>(
    py: Python<'py>,
    base: PathBuf,
    new: PathBuf,
    max_peak_growth: Option<&str>,
    max_slope: Option<&str>,
    max_leak_per_step: Option<&str>,
    max_gap_growth: Option<&str>,
    fail_on: Vec<String>,
    session_id: Option<String>,
    base_session_id: Option<String>,
    rank: Option<i64>,
    oom_horizon_hours: f64,
    skip_damaged: bool,
) -> PyResult<Rendered<'py>> {
    let gates = Gates {
        max_peak_growth: limit(py, max_peak_growth)?,
        max_slope: limit(py, max_slope)?,
        max_leak_per_step: limit(py, max_leak_per_step)?,
        max_gap_growth: limit(py, max_gap_growth)?,
        fail_on: fail_on
            .iter()
            .map(|name| fail_on_of(py, name))
            .collect::<PyResult<_>>()?,
    };
    let base_choice = choice(base_session_id, rank, oom_horizon_hours);
    let base = side(py, &base, &base_choice, skip_damaged)?;
    let new_choice = choice(session_id, rank, oom_horizon_hours);
    let new = side(py, &new, &new_choice, skip_damaged)?;
    let comparison = compare::compare(base, new, &gates);
    let document = to_value(&compared::Document::of(&comparison)).to_string();
    let text = compared::to_text(&comparison, Terminal::PLAIN);
    Ok((object(py, document.as_bytes())?, text))
}

/// Writes the metrics of a run to a baseline file, with which later runs can be compared.
#[pyfunction]
pub(crate) fn save_baseline(
    py: Python<'_>,
    run: PathBuf,
    file: PathBuf,
    session_id: Option<String>,
    rank: Option<i64>,
    oom_horizon_hours: f64,
    skip_damaged: bool,
) -> PyResult<()> {
    let choice = choice(session_id, rank, oom_horizon_hours);
    let side = side(py, &run, &choice, skip_damaged)?;
    if side.profile.ranks.is_empty() {
        let message = format!("'{}' has no samples for a baseline", run.display());
        return Err(invalid_artifact(py, message));
    }
    let text = compare::baseline_text(&side);
    Ok(py.detach(|| stormlog::write_whole(&file, text.as_bytes()))?)
}

fn choice(session_id: Option<String>, rank: Option<i64>, hours: f64) -> AnalyzeOptions {
    AnalyzeOptions {
        session_id,
        rank,
        oom_horizon_hours: hours,
    }
}

fn loading(skip_damaged: bool) -> LoadOptions<'static> {
    LoadOptions {
        on_error: OnError::skip_if(skip_damaged),
        ..LoadOptions::default()
    }
}

fn side(
    py: Python<'_>,
    path: &Path,
    choice: &AnalyzeOptions,
    skip_damaged: bool,
) -> PyResult<Side> {
    let read = py.detach(|| compare::read_side(path, choice, &loading(skip_damaged)));
    match read {
        Ok((side, _)) => Ok(side),
        Err(SideError::Load { error, .. }) => Err(load_error(py, &error)),
        Err(SideError::Analyze { error, .. }) => Err(invalid_value(py, error)),
        Err(error) => Err(invalid_artifact(py, error)),
    }
}

fn limit<L>(py: Python<'_>, text: Option<&str>) -> PyResult<Option<L>>
where
    L: std::str::FromStr<Err = compare::BadLimit>,
{
    let parsed = text.map(str::parse::<L>).transpose();
    parsed.map_err(|error| invalid_value(py, error))
}

fn fail_on_of(py: Python<'_>, name: &str) -> PyResult<FailOn> {
    FailOn::parse(name).ok_or_else(|| {
        let all = FailOn::ALL.map(FailOn::as_str).join(", ");
        let message = format!("unknown value '{name}' in fail_on: choose one of {all}");
        invalid_value(py, message)
    })
}
