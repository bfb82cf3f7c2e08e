//! Converts issues to Python objects. An issue may have very many links to evidence, so each link
//! becomes a Python object directly, without an intermediate map.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyType};
use stormlog_analysis::issue::{EvidenceLink, Issue};
use stormlog_format::{Map, Text, Value};

use crate::convert::{Objects, optional_to_python, text_to_python, texts_to_python};

static EVIDENCE_LINK: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The fields of an issue by name; its evidence is a list of `IssueEvidenceLink`.
pub(crate) fn fields<'py>(py: Python<'py>, issue: &Issue) -> PyResult<Bound<'py, PyDict>> {
    let objects = Objects::default();
    let mut links = Links::default();
    let evidence = PyList::empty(py);
    for link in &issue.evidence {
        evidence.append(links.object(py, link)?)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("kind", text_to_python(py, &issue.kind)?)?;
    dict.set_item("dimensions", objects.map_to_python(py, &issue.dimensions)?)?;
    dict.set_item("state", issue.state)?;
    dict.set_item("severity", text_to_python(py, &issue.severity)?)?;
    dict.set_item("title", text_to_python(py, &issue.title)?)?;
    dict.set_item("first_seen_ns", issue.first_seen_ns)?;
    dict.set_item("last_seen_ns", issue.last_seen_ns)?;
    let sessions = texts_to_python(py, &issue.affected_sessions)?;
    dict.set_item("affected_sessions", sessions)?;
    dict.set_item("evidence", evidence)?;
    dict.set_item("details", objects.map_to_python(py, &issue.details)?)?;
    Ok(dict)
}

/// Converts an issue's links to its evidence, such as events and files, to Python objects.
#[derive(Default)]
struct Links<'a, 'py> {
    /// The metadata of the last link to evidence, which the next link usually repeats.
    metadata: Option<(&'a Map, Bound<'py, PyDict>)>,
}

impl<'a, 'py> Links<'a, 'py> {
    fn object(&mut self, py: Python<'py>, link: &'a EvidenceLink) -> PyResult<Bound<'py, PyAny>> {
        let class = EVIDENCE_LINK.import(py, "stormlog.issues", "IssueEvidenceLink")?;
        let object = class.call_method1(intern!(py, "__new__"), (class,))?;
        // The Python class `IssueEvidenceLink` is frozen, so fields are set in the object's
        // `__dict__`.
        let fields = object.getattr(intern!(py, "__dict__"))?;
        let fields = fields.cast::<PyDict>()?;
        let text = |text: &Option<Text>| optional_to_python(py, text.as_ref());
        // Fields are set in the order of the class, because the object's `__dict__` shows their
        // order.
        fields.set_item(intern!(py, "session_id"), text(&link.session_id)?)?;
        fields.set_item(intern!(py, "timestamp_ns"), link.timestamp_ns)?;
        fields.set_item(intern!(py, "rank"), link.rank)?;
        fields.set_item(intern!(py, "source_path"), text(&link.source_path)?)?;
        fields.set_item(intern!(py, "source_kind"), text(&link.source_kind)?)?;
        fields.set_item(intern!(py, "event_type"), text(&link.event_type)?)?;
        fields.set_item(intern!(py, "bundle_path"), text(&link.bundle_path)?)?;
        fields.set_item(intern!(py, "metadata"), self.metadata(py, &link.metadata)?)?;
        Ok(object)
    }

    /// The metadata of a link to evidence, as a new dictionary for each link.
    fn metadata(&mut self, py: Python<'py>, map: &'a Map) -> PyResult<Bound<'py, PyDict>> {
        let is_nested = |value: &Value| matches!(value, Value::List(_) | Value::Map(_));
        if let Some((known, dict)) = &self.metadata
            && *known == map
            && !map.iter().any(|(_, value)| is_nested(value))
        {
            return dict.copy();
        }
        let dict = Objects::default().map_to_python(py, map)?;
        self.metadata = Some((map, dict.clone()));
        Ok(dict)
    }
}
