//! Converts events in any form that callers pass: columns, event objects or plain mappings.

use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};
use stormlog_analysis::Events;
use stormlog_compat::loose::{LooseEvent, LooseRank};
use stormlog_format::{Counters, Event, Map, Text, Value, Version};

use crate::convert::{Reading, scalar};
use crate::errors::wrong_type;
use crate::rows::EventRows;

/// Stores event objects or mappings in columns. The rules for records are not checked, only the
/// types of the fields.
#[pyfunction]
pub(crate) fn rows_from_events(events: Vec<Bound<'_, PyAny>>) -> PyResult<EventRows> {
    let events: Vec<Event> = events.iter().map(event).collect::<PyResult<_>>()?;
    Ok(EventRows(Events::from_events(&events)))
}

/// The events that Python passes to an analysis: valid events in columns, or event objects and
/// mappings in which fields may be missing.
pub(crate) enum AnyEvents {
    Rows(Events),
    Loose(Vec<LooseEvent>),
}

impl<'py> FromPyObject<'_, 'py> for AnyEvents {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(rows) = object.cast::<EventRows>() {
            return Ok(Self::Rows(rows.get().0.clone()));
        }
        let events = object.try_iter()?.map(|event| loose_event(&event?));
        Ok(Self::Loose(events.collect::<PyResult<_>>()?))
    }
}

/// Reads an event in which any field may be missing or have the wrong type.
pub(crate) fn loose_event(object: &Bound<'_, PyAny>) -> PyResult<LooseEvent> {
    let get = |name: &str| value(object, name);
    let text = |name: &str| Ok::<_, PyErr>(get(name)?.and_then(text_of_value));
    let number = |name: &str| Ok::<_, PyErr>(get(name)?.and_then(|value| value.as_int()));
    Ok(LooseEvent {
        session_id: text("session_id")?,
        // In Python a boolean is an integer, so a boolean is accepted as a time.
        timestamp_ns: get("timestamp_ns")?.and_then(|value| match value {
            Value::Bool(flag) => Some(i64::from(flag)),
            other => other.as_int(),
        }),
        event_type: text("event_type")?,
        context: text("context")?,
        rank: LooseRank::of(get("rank")?.as_ref()),
        local_rank: number("local_rank")?,
        world_size: number("world_size")?,
        metadata: metadata(object)?,
    })
}

/// A field of an event as a scalar (`None`, a boolean, a number or a string). Returns `None` when
/// the field is missing, and `Opaque` when the field is not a scalar.
fn value(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Value>> {
    match field(object, name)? {
        None => Ok(None),
        Some(object) => Ok(Some(scalar(&object)?.unwrap_or(Value::Opaque(0)))),
    }
}

/// The field of an event: an entry of a mapping, or an attribute of any other object.
pub(crate) fn field<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let name = PyString::intern(object.py(), name);
        return if mapping.contains(&name)? {
            mapping.get_item(name).map(Some)
        } else {
            Ok(None)
        };
    }
    object.getattr_opt(PyString::intern(object.py(), name))
}

/// The metadata of an event as JSON values; anything but a mapping counts as no metadata.
fn metadata(object: &Bound<'_, PyAny>) -> PyResult<Map> {
    let Some(metadata) = field(object, "metadata")? else {
        return Ok(Map::new());
    };
    Ok(Reading::Dimensions.deep_map(&metadata)?.unwrap_or_default())
}

fn text_of_value(value: Value) -> Option<Text> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn event(object: &Bound<'_, PyAny>) -> PyResult<Event> {
    let wrong =
        |name: &str, expected: &str| wrong_type(object.py(), &format!("{name} must be {expected}"));
    let text = |name: &str| match value(object, name)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(name, "a string")),
    };
    let integer = |name: &str| match value(object, name)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(value)) => Ok(Some(value)),
        Some(Value::Bool(flag)) => Ok(Some(i64::from(flag))),
        Some(_) => Err(wrong(name, "an integer of at most 64 bits")),
    };
    Ok(Event {
        version: Version::V4,
        session_id: text("session_id")?.unwrap_or_default(),
        timestamp_ns: integer("timestamp_ns")?.unwrap_or_default(),
        event_type: text("event_type")?.unwrap_or_default(),
        collector: text("collector")?.unwrap_or_default(),
        sampling_interval_ms: integer("sampling_interval_ms")?.unwrap_or_default(),
        pid: integer("pid")?.unwrap_or(-1),
        host: text("host")?.unwrap_or_default(),
        job_id: text("job_id")?,
        rank: integer("rank")?.unwrap_or_default(),
        local_rank: integer("local_rank")?.unwrap_or_default(),
        world_size: integer("world_size")?.unwrap_or(1),
        device_id: integer("device_id")?.unwrap_or(-1),
        counters: Counters {
            allocator_allocated_bytes: integer("allocator_allocated_bytes")?,
            allocator_reserved_bytes: integer("allocator_reserved_bytes")?,
            allocator_active_bytes: integer("allocator_active_bytes")?,
            allocator_inactive_bytes: integer("allocator_inactive_bytes")?,
            allocator_change_bytes: integer("allocator_change_bytes")?,
            device_used_bytes: integer("device_used_bytes")?,
            device_free_bytes: integer("device_free_bytes")?,
            device_total_bytes: integer("device_total_bytes")?,
        },
        context: text("context")?,
        metadata: metadata(object)?,
    })
}

/// The thread id and the scope id (the id of a phase) that an event records about its phase. Each
/// is read from the event's own field or, if that is missing, from the event's metadata.
pub(crate) fn phase_origin(
    object: &Bound<'_, PyAny>,
) -> PyResult<stormlog_compat::phases::PhaseOrigin> {
    let metadata = field(object, "metadata")?;
    let either = |name: &str, usable: fn(&Value) -> bool| -> PyResult<Option<Value>> {
        let direct = value(object, name)?.filter(usable);
        match (direct, &metadata) {
            (None, Some(metadata)) if metadata.cast::<PyMapping>().is_ok() => {
                Ok(value(metadata, name)?.filter(usable))
            }
            (direct, _) => Ok(direct),
        }
    };
    let is_integer = |value: &Value| matches!(value, Value::Int(_));
    let is_text = |value: &Value| matches!(value, Value::Text(_));
    Ok(stormlog_compat::phases::PhaseOrigin {
        thread_id: either("origin_thread_id", is_integer)?.and_then(|v| v.as_int()),
        scope_id: either("origin_phase_scope_id", is_text)?.and_then(text_of_value),
    })
}
