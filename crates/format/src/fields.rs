//! Reads single fields of a record and returns an error message for each invalid field.

use crate::record_error::RecordError;
use crate::text::Text;
use crate::value::Value;

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
