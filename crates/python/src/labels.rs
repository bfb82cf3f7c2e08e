//! Classifies events, issues and source files, and computes derived numbers and fingerprints, for
//! Python.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stormlog_analysis::issue::{self, fingerprint};
use stormlog_compat::derived::{DeviceTotal, EventFields, SessionFields};
use stormlog_format::{Map, Text, Value, classify, label};

use crate::convert::{Objects, Reading, dict_of, scalar, text_of, text_to_python};
use crate::errors::{invalid_value, wrong_type};
use crate::sessions::session_integer;

/// Whether a Python source file belongs to a package, to the standard library or to PyTorch.
#[pyfunction]
pub(crate) fn is_library_file(path: &Bound<'_, PyString>) -> bool {
    stormlog_format::is_library_file(&path.to_string_lossy())
}

/// Whether an event is an alert, by its type or by the severity in its metadata.
#[pyfunction]
pub(crate) fn is_alert_event(
    event_type: &Bound<'_, PyAny>,
    metadata: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    Ok(classify::is_alert(&word(event_type)?, &labels(metadata)?))
}

/// The severity of an event, from its metadata or otherwise from its type.
#[pyfunction]
pub(crate) fn event_severity<'py>(
    event_type: &Bound<'py, PyAny>,
    metadata: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyString>> {
    let severity = classify::severity_label(&word(event_type)?, &labels(metadata)?);
    text_to_python(event_type.py(), &severity)
}

/// Whether an event of this type and with this metadata is an out-of-memory error.
#[pyfunction]
pub(crate) fn is_oom_event(
    event_type: &Bound<'_, PyAny>,
    metadata: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    Ok(classify::is_oom(&word(event_type)?, &labels(metadata)?))
}

/// Whether an event shows that its collector was degraded, so that its readings could not be
/// trusted: by the event's type, or by the health status in its metadata.
#[pyfunction]
pub(crate) fn is_collector_degradation_event(
    event_type: &Bound<'_, PyAny>,
    metadata: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let metadata = labels(metadata)?;
    Ok(issue::is_collector_degradation(
        &word(event_type)?,
        &metadata,
    ))
}

/// The accelerator backend in an event's metadata.
#[pyfunction]
pub(crate) fn event_backend<'py>(metadata: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let mut known = labels(metadata)?;
    if known.get("backend").is_some_and(|value| !value.is_null()) {
        known.insert("backend", text_of(&metadata.get_item("backend")?)?);
    }
    text_to_python(metadata.py(), &issue::backend(&known))
}

/// Computes values from the counters of one event: reserved minus allocated bytes, utilization,
/// fragmentation, and whether the collector's name shows that it does not measure all counters.
#[pyfunction]
pub(crate) fn event_fields<'py>(
    py: Python<'py>,
    allocated: Bound<'py, PyAny>,
    reserved: Bound<'py, PyAny>,
    total: Bound<'py, PyAny>,
    collector: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    dict_of(py, &derived(&[allocated, reserved, total, collector])?)
}

/// Allocated, reserved and total bytes of an event, and the name of its collector.
type Counters<'py> = [Bound<'py, PyAny>; 4];

/// Computes the ratios that are derived from the counters of all events of a session, such as the
/// highest utilization.
#[pyfunction]
pub(crate) fn session_fields<'py>(
    py: Python<'py>,
    events: Vec<Counters<'py>>,
    last_type: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let events = events.iter().map(derived).collect::<PyResult<Vec<_>>>()?;
    dict_of(py, &SessionFields::of(&events, Some(&word(last_type)?)))
}

/// Checks that the kind of an issue is known and returns its name.
#[pyfunction]
pub(crate) fn issue_kind(kind: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    fingerprint::issue_kind(&text_of(kind)?).map_err(|error| invalid_value(kind.py(), error))
}

/// The state of an issue, spelled as in files; the argument may have any case and white space
/// around it.
#[pyfunction]
pub(crate) fn issue_state(state: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let py = state.py();
    match scalar(state)? {
        Some(Value::Text(text)) => {
            fingerprint::issue_state(&text).map_err(|error| invalid_value(py, error))
        }
        _ => Err(wrong_type(py, "issue state must be a string")),
    }
}

/// The fingerprint (the id) of an issue, computed from its kind and its normalized dimensions (the
/// properties that distinguish issues of one kind).
#[pyfunction]
pub(crate) fn fingerprint_id<'py>(
    kind: &str,
    dimensions: &Bound<'py, PyAny>,
    schema_version: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyString>> {
    let py = dimensions.py();
    let version = scalar(schema_version)?.unwrap_or(Value::Null);
    let id = fingerprint::fingerprint_id(kind, &dimensions_of(dimensions)?, &version);
    text_to_python(py, &id)
}

/// Normalizes the dimensions of a fingerprint: replaces the parts that change from run to run, such
/// as numbers, by placeholders.
#[pyfunction]
pub(crate) fn normalize_dimensions<'py>(
    dimensions: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = dimensions.py();
    let normalized = fingerprint::normalize_dimensions(&dimensions_of(dimensions)?)
        .map_err(|error| invalid_value(py, error))?;
    dict_of(py, &normalized)
}

/// Normalizes a label: replaces the parts that change from run to run, such as numbers, by
/// placeholders; `None` when the value is `None` or blank.
#[pyfunction]
pub(crate) fn normalize_text<'py>(
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let Some(text) = text_unless_blank(value)? else {
        return Ok(None);
    };
    text_to_python(value.py(), &label::normalize_text(&text)).map(Some)
}

/// The category of an alert, derived from its text.
#[pyfunction]
pub(crate) fn alert_category<'py>(context: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let text = text_unless_blank(context)?.unwrap_or_default();
    text_to_python(context.py(), &fingerprint::alert_category(&text))
}

/// The part of an error text that identifies the error: the text before the first colon.
#[pyfunction]
pub(crate) fn error_stem<'py>(error: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let text = text_unless_blank(error)?.unwrap_or_default();
    text_to_python(error.py(), &fingerprint::error_stem(&text))
}

/// The text of a value; `None` when the value is `None` or blank.
fn text_unless_blank(value: &Bound<'_, PyAny>) -> PyResult<Option<Text>> {
    if value.is_none() {
        return Ok(None);
    }
    let text = text_of(value)?;
    Ok((!text.is_blank()).then_some(text))
}

/// The value if it is a text; an empty text for any other value.
fn word(value: &Bound<'_, PyAny>) -> PyResult<Text> {
    match scalar(value)? {
        Some(Value::Text(text)) => Ok(text),
        _ => Ok(Text::default()),
    }
}

fn labels(metadata: &Bound<'_, PyAny>) -> PyResult<Map> {
    let map = Objects::default().flat(metadata)?;
    map.ok_or_else(|| wrong_type(metadata.py(), "metadata must be a mapping"))
}

fn dimensions_of(dimensions: &Bound<'_, PyAny>) -> PyResult<Map> {
    let map = Reading::Dimensions.deep_map(dimensions)?;
    map.ok_or_else(|| wrong_type(dimensions.py(), "dimensions must be a mapping"))
}

fn derived([allocated, reserved, total, collector]: &Counters<'_>) -> PyResult<EventFields> {
    // A value that Python treats as false counts as zero bytes.
    let bytes = |count: &Bound<'_, PyAny>| {
        if count.is_truthy()? {
            session_integer(count, "value")
        } else {
            Ok(0)
        }
    };
    let (allocated, reserved) = (bytes(allocated)?, bytes(reserved)?);
    let total = match scalar(total)? {
        Some(Value::Null) => None,
        Some(Value::Int(total)) => Some(DeviceTotal::Bytes(total)),
        Some(Value::Bool(total)) => Some(DeviceTotal::Bytes(total.into())),
        Some(Value::Text(_)) => return Err(wrong_type(total.py(), NO_TOTAL)),
        _ => match total.extract() {
            Ok(total) => Some(DeviceTotal::Number(total)),
            Err(_) => return Err(wrong_type(total.py(), NO_TOTAL)),
        },
    };
    let name = match scalar(collector)? {
        Some(Value::Text(name)) => Some(name),
        _ if !collector.is_truthy()? => None,
        _ => return Err(wrong_type(collector.py(), "collector must be a string")),
    };
    Ok(EventFields::of(allocated, reserved, total, name.as_ref()))
}

const NO_TOTAL: &str = "device_total_bytes must be a number";
