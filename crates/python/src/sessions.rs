//! Session summaries for Python: applies the rules of `stormlog.session` to mappings and to objects
//! with the attributes of a session summary.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};
use stormlog_format::{
    EventType, SelectionKey, SessionError, SessionSpan, SessionStatus, SessionSummary, Text, Value,
};

use crate::convert::{Objects, dict_of, scalar, text_of, text_to_python};
use crate::errors::invalid_session;

/// The keys of the integers in a session summary.
const INTEGER_KEYS: [&str; 6] = [
    "started_at_ns",
    "ended_at_ns",
    "pid",
    "rank",
    "local_rank",
    "world_size",
];

/// Makes a random session id.
#[pyfunction]
pub(crate) fn new_session_id(py: Python<'_>) -> PyResult<Bound<'_, PyString>> {
    text_to_python(py, &stormlog_format::new_session_id())
}

/// The id for a session that was recorded without one, computed from the given parts; equal parts
/// give equal ids. Parts that are `None` do not contribute to the session id.
#[pyfunction]
pub(crate) fn stable_legacy_session_id<'py>(
    py: Python<'py>,
    parts: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyString>> {
    let known = parts.into_iter().filter(|part| !part.is_none());
    let parts = known.map(|part| text_of(&part));
    let parts = parts.collect::<PyResult<Vec<Text>>>()?;
    text_to_python(py, &stormlog_format::stable_legacy_session_id(&parts))
}

/// The status of a session, spelled as in files; the argument may have any case and white space
/// around it.
#[pyfunction]
pub(crate) fn normalize_session_status(status: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    Ok(parse_status(status)?.as_str())
}

/// Converts a value to an integer like Python's `int`; errors name the field `field` of a session
/// summary.
#[pyfunction]
pub(crate) fn session_integer(value: &Bound<'_, PyAny>, field: &str) -> PyResult<i64> {
    let known = INTEGER_KEYS.into_iter().find(|known| *known == field);
    stormlog_format::session_integer(known.unwrap_or("value"), &number(value)?)
        .map_err(|error| invalid_session(value.py(), &error))
}

/// Checks a mapping with a session summary, and returns its fields as a new dictionary.
#[pyfunction]
pub(crate) fn session_from_mapping<'py>(
    py: Python<'py>,
    payload: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut objects = Objects::default();
    let mut map = objects
        .flat(payload)?
        .ok_or_else(|| invalid_session(py, &SessionError::NotAnObject))?;
    for key in INTEGER_KEYS {
        if map.contains(key) {
            map.insert(key, number(&payload.get_item(key)?)?);
        }
    }
    let summary = SessionSummary::from_map(&map).map_err(|error| invalid_session(py, &error))?;
    let fields = dict_of(py, &summary)?;
    let job_id = map.get("job_id").unwrap_or(&Value::Null);
    fields.set_item("job_id", objects.to_python(py, job_id)?)?;
    Ok(fields)
}

/// The index and the time of a session's earliest event, the session's end, and its status.
type Span = (usize, i64, Option<i64>, &'static str);

/// The index of a session's earliest event, the event's time, the session's end and its status;
/// `None` when there are no events.
#[pyfunction]
pub(crate) fn session_span(
    events: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    fallback_status: &Bound<'_, PyAny>,
) -> PyResult<Option<Span>> {
    let times = events.into_iter().map(|(time, event_type)| {
        let stop = matches!(scalar(&event_type)?, Some(Value::Text(text)) if text == EventType::Stop.as_str());
        Ok((session_integer(&time, "timestamp_ns")?, stop))
    });
    let times = times.collect::<PyResult<Vec<_>>>()?;
    let span = SessionSpan::of(times, parse_status(fallback_status)?);
    Ok(span.map(|span| {
        (
            span.first,
            span.started_at_ns,
            span.ended_at_ns,
            span.status.as_str(),
        )
    }))
}

/// The indices of session summaries in the order of selection; the default session comes first.
#[pyfunction]
pub(crate) fn session_order(summaries: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<usize>> {
    let read = |summary: Bound<'_, PyAny>| {
        let status = match scalar(&summary.getattr("status")?)? {
            Some(Value::Text(word)) => SessionStatus::from_word(&word),
            _ => None,
        };
        let ended = summary.getattr("ended_at_ns")?;
        let ended = (!ended.is_none()).then(|| session_integer(&ended, "ended_at_ns"));
        let started = session_integer(&summary.getattr("started_at_ns")?, "started_at_ns")?;
        let id = text_of(&summary.getattr("session_id")?)?;
        Ok((status, started, ended.transpose()?, id))
    };
    let rows = summaries
        .into_iter()
        .map(read)
        .collect::<PyResult<Vec<_>>>()?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|index| {
        let (status, started, ended, id) = &rows[*index];
        SelectionKey::new(*status, *started, *ended, id)
    });
    Ok(order)
}

fn parse_status(status: &Bound<'_, PyAny>) -> PyResult<SessionStatus> {
    let value = scalar(status)?.unwrap_or(Value::Null);
    SessionStatus::of_value(&value).map_err(|error| invalid_session(status.py(), &error))
}

/// Converts a value like Python's `int`. A scalar that cannot be converted stays as it is. Another
/// object that cannot be converted becomes an empty text if `int` raises `ValueError`, otherwise an
/// empty list; the caller rejects both.
fn number(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = object.py();
    let found = match py.get_type::<PyInt>().call1((object,)) {
        Ok(integer) => scalar(&integer)?,
        // `int` accepts the type of the object, such as bytes, but the object contains no number.
        // An empty text is rejected as an invalid value and not as a wrong type.
        Err(error) if error.is_instance_of::<PyValueError>(py) => {
            Some(scalar(object)?.unwrap_or_else(|| Value::text("")))
        }
        Err(_) => scalar(object)?,
    };
    Ok(found.unwrap_or(Value::List(Vec::new())))
}
