//! Reads single fields of a record and returns an error message for each invalid field.

use super::{RecordError, identity_of};
use crate::event::{Counters, Event, Version};
use crate::text::Text;
use crate::value::{Map, Value};

/// Reads a field that must be an integer; booleans and floats are not accepted.
pub(crate) fn integer(field: &str, value: &Value) -> Result<i64, RecordError> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Big(_) => Err(RecordError::IntegerTooLarge(field.into())),
        _ => Err(RecordError::NotAnInteger(field.into())),
    }
}

/// Reads a field that must be an integer of at least `minimum`.
pub(crate) fn at_least(field: &str, value: &Value, minimum: i64) -> Result<i64, RecordError> {
    let value = integer(field, value)?;
    if value < minimum {
        return Err(RecordError::TooSmall {
            field: field.into(),
            minimum,
        });
    }
    Ok(value)
}

/// Reads a field that must be a string that is not blank; null counts as blank.
pub(crate) fn name(field: &str, value: &Value) -> Result<Text, RecordError> {
    match value {
        Value::Text(text) if !text.is_blank() => Ok(text.clone()),
        Value::Text(_) | Value::Null => Err(RecordError::BlankString(field.into())),
        _ => Err(RecordError::NotAString(field.into())),
    }
}

/// Reads a field that must be a string that is not blank; `None` when the field is missing or null.
pub(crate) fn optional_name(
    field: &str,
    value: Option<&Value>,
) -> Result<Option<Text>, RecordError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => name(field, value).map(Some),
    }
}

/// Reads a field that may be any string; `None` when the field is null.
pub(crate) fn optional_text(field: &str, value: &Value) -> Result<Option<Text>, RecordError> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text.clone())),
        _ => Err(RecordError::NotAString(field.into())),
    }
}

/// Converts a record that has already been validated to an event.
pub(crate) fn event(record: &Map, version: Version) -> Result<Event, RecordError> {
    let field = |key: &'static str| {
        record
            .get(key)
            .ok_or_else(|| RecordError::MissingFields(vec![key]))
    };
    let counter = |key: &'static str| match field(key)? {
        Value::Null => Ok(None),
        value => integer(key, value).map(Some),
    };
    let identity = identity_of(record)?;
    Ok(Event {
        version,
        session_id: name("session_id", field("session_id")?)?,
        timestamp_ns: integer("timestamp_ns", field("timestamp_ns")?)?,
        event_type: name("event_type", field("event_type")?)?,
        collector: name("collector", field("collector")?)?,
        sampling_interval_ms: integer("sampling_interval_ms", field("sampling_interval_ms")?)?,
        pid: integer("pid", field("pid")?)?,
        host: name("host", field("host")?)?,
        job_id: identity.job_id,
        rank: identity.rank,
        local_rank: identity.local_rank,
        world_size: identity.world_size,
        device_id: integer("device_id", field("device_id")?)?,
        counters: Counters {
            allocator_allocated_bytes: counter("allocator_allocated_bytes")?,
            allocator_reserved_bytes: counter("allocator_reserved_bytes")?,
            allocator_active_bytes: counter("allocator_active_bytes")?,
            allocator_inactive_bytes: counter("allocator_inactive_bytes")?,
            allocator_change_bytes: counter("allocator_change_bytes")?,
            device_used_bytes: counter("device_used_bytes")?,
            device_free_bytes: counter("device_free_bytes")?,
            device_total_bytes: counter("device_total_bytes")?,
        },
        context: optional_text("context", field("context")?)?,
        metadata: field("metadata")?
            .as_map()
            .cloned()
            .ok_or(RecordError::MetadataNotAnObject)?,
    })
}
