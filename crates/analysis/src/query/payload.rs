//! Reads values from untrusted JSON in the same way as stormlog 0.3.9.

use std::path::Path;

use stormlog_format::json::parse;
use stormlog_format::{Map, Text, Value, session_integer};

use crate::pack;

/// Reads a document that must be an object. The user named its file, or it was found in one of the
/// given paths.
pub(crate) fn object(file: &Path) -> Option<Map> {
    map_of(&crate::load::read_described(file).ok()?)
}

/// Reads a document inside a bundle that must be an object.
pub(crate) fn object_inside(bundle: &Path, file: &Path) -> Option<Map> {
    map_of(&crate::load::read_beside(bundle, file).ok()?)
}

fn map_of(bytes: &[u8]) -> Option<Map> {
    match parse(bytes).ok()? {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// A non-empty text.
pub(crate) fn text(map: &Map, key: &str) -> Option<Text> {
    let text = map.get(key).and_then(Value::as_text)?;
    (!text.as_bytes().is_empty()).then(|| text.clone())
}

/// A number or the text of one. A fraction is truncated.
pub(crate) fn integer(map: &Map, key: &str) -> Option<i64> {
    match map.get(key)? {
        Value::Bool(_) | Value::Null => None,
        value => session_integer("value", value).ok(),
    }
}

/// The object `metadata`, or an empty one.
pub(crate) fn metadata(map: &Map) -> Map {
    map.get("metadata")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default()
}

/// A path as shown in rows.
pub(crate) fn path_text(path: &Path) -> Text {
    pack::shown(path).to_string_lossy().into_owned().into()
}
