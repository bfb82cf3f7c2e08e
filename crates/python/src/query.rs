//! The query store for Python: each query takes filters and returns rows as dictionaries.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_analysis::issue::{self, DecidedState, Decision, SidecarError};
use stormlog_analysis::query::{self, EventFilter, Store};
use stormlog_compat::{correlate, hidden_memory_anomalies};

use crate::convert::{Reading, dict_of, dicts_of, text_to_python};
use crate::errors::{invalid_value, raise};
use crate::filters::Wanted;
use crate::issues;
use crate::rows::event_of;

/// The result of a query: one dictionary per row, or an exception.
pub(crate) type Rows<'py> = PyResult<Vec<Bound<'py, PyDict>>>;

/// Answers queries about the recordings and bundles at the given paths.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct QueryStore(pub(crate) Arc<Store>);

#[pymethods]
impl QueryStore {
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>) -> Self {
        Self(Arc::new(py.detach(|| Store::open(&paths))))
    }

    /// Lists everything that was found at the paths: sources of events, OOM bundles, attachments
    /// and run envelopes (files that describe a run).
    fn catalog<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let catalog = self.0.catalog();
        let dict = PyDict::new(py);
        dict.set_item("paths", &catalog.paths)?;
        let sources = catalog.sources.iter().map(query::Source::to_map);
        dict.set_item("sources", dicts_of(py, sources)?)?;
        dict.set_item("oom_bundles", dicts_of(py, &catalog.oom_bundles)?)?;
        dict.set_item("attachments", dicts_of(py, &catalog.attachments)?)?;
        dict.set_item("run_envelopes", dicts_of(py, &catalog.run_envelopes)?)?;
        Ok(dict)
    }

    /// All warnings so far: those from opening the paths, then those from queries.
    fn warnings<'py>(&self, py: Python<'py>) -> Rows<'py> {
        dicts_of(py, self.0.warnings())
    }

    fn runs<'py>(&self, py: Python<'py>, wanted: &Bound<'py, PyAny>) -> Rows<'py> {
        let filter = Wanted::of(wanted)?.runs();
        let rows = py.detach(|| self.0.runs(&filter));
        dicts_of(py, rows.iter().map(query::RunRow::to_map))
    }

    fn run_attachments<'py>(&self, py: Python<'py>, wanted: &Bound<'py, PyAny>) -> Rows<'py> {
        let filter = Wanted::of(wanted)?.run_attachments();
        let rows = py.detach(|| self.0.run_attachments(&filter));
        dicts_of(py, &rows)
    }

    fn sessions<'py>(&self, py: Python<'py>, wanted: &Bound<'py, PyAny>) -> Rows<'py> {
        let filter = Wanted::of(wanted)?.sessions();
        let rows =
            py.detach(|| stormlog::on_this_machine(|here| self.0.sessions(&filter, Some(here))));
        dicts_of(py, &rows)
    }

    fn events(&self, py: Python<'_>, wanted: &Bound<'_, PyAny>) -> PyResult<QueriedEvents> {
        let filter: EventFilter = Wanted::of(wanted)?.events(py)?;
        Ok(QueriedEvents(py.detach(|| self.0.events(&filter))))
    }

    fn oom_bundles<'py>(&self, py: Python<'py>, wanted: &Bound<'py, PyAny>) -> Rows<'py> {
        let filter = Wanted::of(wanted)?.oom_bundles();
        let rows = py.detach(|| self.0.oom_bundles(&filter));
        dicts_of(py, rows.iter().map(query::OomBundle::to_row))
    }

    fn attachments<'py>(&self, py: Python<'py>, wanted: &Bound<'py, PyAny>) -> Rows<'py> {
        let filter = Wanted::of(wanted)?.attachments();
        let rows = py.detach(|| self.0.attachments(&filter));
        dicts_of(py, &rows)
    }

    fn correlate<'py>(
        &self,
        py: Python<'py>,
        wanted: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let filter = Wanted::of(wanted)?.correlation(py)?;
        let result = py.detach(|| correlate::correlate(&self.0, &filter));
        dict_of(py, &result.map_err(|error| invalid_value(py, error))?)
    }

    fn issues<'py>(
        &self,
        py: Python<'py>,
        wanted: &Bound<'py, PyAny>,
        states: Vec<(String, String)>,
        include_findings: bool,
    ) -> Rows<'py> {
        let filter = Wanted::of(wanted)?.issues();
        let states = states
            .into_iter()
            .map(|(id, state)| {
                let state = issue::fingerprint::issue_state(&state.into())
                    .map_err(|error| invalid_value(py, error))?;
                Ok((id.into(), state))
            })
            .collect::<PyResult<_>>()?;
        let found = py.detach(|| {
            if include_findings {
                self.0.issues_with_findings(&filter, &states)
            } else {
                let anomalies = || hidden_memory_anomalies(&self.0);
                self.0.issues_with(anomalies, &filter, &states)
            }
        });
        found
            .iter()
            .map(|issue| issues::fields(py, issue))
            .collect()
    }

    /// The fingerprint (the id) and the state of each issue, after the decisions in a sidecar file
    /// (`issues.json`) were applied.
    fn issue_states(
        &self,
        py: Python<'_>,
        sidecar: PathBuf,
    ) -> PyResult<Vec<(String, &'static str)>> {
        let found = py.detach(|| {
            let states = issue::read_states(&sidecar)?.unwrap_or_default();
            let mut issues = self.all_issues();
            states.apply(&mut issues, stormlog::on_this_machine(|here| here.now_ns));
            Ok(issues)
        });
        let issues = found.map_err(|error| sidecar_error(py, &error))?;
        Ok(issues
            .into_iter()
            .map(|issue| (issue.fingerprint_id.to_string(), issue.state))
            .collect())
    }

    /// Stores a decision about an issue in a sidecar file (`issues.json`), and returns the state of
    /// the issue.
    fn decide_issue(
        &self,
        py: Python<'_>,
        sidecar: PathBuf,
        fingerprint_id: &str,
        state_until_ns: (String, Option<i64>),
        by_reason: (String, Option<String>),
    ) -> PyResult<&'static str> {
        let (state, until_ns) = state_until_ns;
        let (by, reason) = by_reason;
        let state = match &*state {
            "open" => DecidedState::Open,
            "resolved" => DecidedState::Resolved,
            "ignored" => DecidedState::Ignored { until_ns },
            other => {
                let message = format!("unknown state '{other}': choose open, resolved or ignored");
                return Err(invalid_value(py, message));
            }
        };
        let issues = py.detach(|| self.all_issues());
        let named = issues.iter().find(|issue| {
            let former = issue.former_ids.iter();
            issue.fingerprint_id == fingerprint_id
                || former.into_iter().any(|id| *id == fingerprint_id)
        });
        let issue = named.ok_or_else(|| {
            let message = format!("no issue has the fingerprint_id '{fingerprint_id}'");
            invalid_value(py, message)
        })?;
        let at_ns = stormlog::on_this_machine(|here| here.now_ns);
        let decision = Decision {
            state,
            by: by.into(),
            at_ns,
            reason: reason.map(Into::into),
        };
        let changed =
            py.detach(|| issue::change_states(&sidecar, |states| states.decide(issue, &decision)));
        let states = changed.map_err(|error| sidecar_error(py, &error))?;
        Ok(states.state_of(issue, at_ns))
    }

    fn summarize<'py>(&self, py: Python<'py>, metric: &str, group_by: Option<&str>) -> Rows<'py> {
        let unknown =
            |what: &str, word: &str| invalid_value(py, format!("unsupported {what}: {word}"));
        let metric =
            query::Metric::parse(metric).ok_or_else(|| unknown("summary metric", metric))?;
        let group_by = match group_by {
            None => query::GroupBy::default(),
            Some(word) => query::GroupBy::parse(word).ok_or_else(|| unknown("group_by", word))?,
        };
        let rows = py.detach(|| self.0.summarize(metric, group_by));
        dicts_of(py, &rows)
    }
}

impl QueryStore {
    /// All issues about which a decision can be stored: those with and without findings.
    fn all_issues(&self) -> Vec<issue::Issue> {
        let filter = issue::IssueFilter::default();
        let mut issues = self.0.issues_with_findings(&filter, &HashMap::new());
        issues.extend(hidden_memory_anomalies(&self.0));
        issues
    }
}

fn sidecar_error(py: Python<'_>, error: &SidecarError) -> PyErr {
    raise(py, "IssueSidecarError", error.to_string())
}

/// Whether a JSON object declares that it is a run envelope of a version that Stormlog reads.
#[pyfunction]
pub(crate) fn is_run_envelope(payload: &Bound<'_, PyAny>) -> PyResult<bool> {
    let payload = Reading::Record.deep_map(payload)?;
    Ok(payload.is_some_and(|payload| query::RunEnvelope::is_one(&payload)))
}

/// Reads a run envelope (a JSON object that describes a run) and returns its fields; `None` when
/// the envelope is invalid.
#[pyfunction]
pub(crate) fn read_run_envelope<'py>(
    py: Python<'py>,
    payload: &Bound<'py, PyAny>,
    path: PathBuf,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let payload = Reading::Record.deep_map(payload)?;
    let envelope = payload.and_then(|payload| query::RunEnvelope::read(&payload, &path));
    envelope.map(|envelope| dict_of(py, &envelope)).transpose()
}

/// The events that a query found in any number of artifacts, in order of time.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct QueriedEvents(query::EventRows);

#[pymethods]
impl QueriedEvents {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The event, source path, source kind and session status of the row at an index.
    fn row<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<(
        Bound<'py, PyAny>,
        Bound<'py, PyAny>,
        &'static str,
        &'static str,
    )> {
        let row = self
            .0
            .get(index)
            .ok_or_else(|| PyIndexError::new_err("event index out of range"))?;
        let path = text_to_python(py, row.source_path)?.into_any();
        let kind = row.source_kind.as_str();
        Ok((event_of(py, row.event)?, path, kind, row.session_status))
    }
}
