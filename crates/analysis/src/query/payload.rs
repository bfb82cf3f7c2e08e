//! Reads values from untrusted JSON in the same way as stormlog 0.3.9.

use std::path::Path;

use stormlog_format::json::parse;
use stormlog_format::{Map, Text, Value, session_integer};

use crate::pack;

/// Reads a JSON file that must contain an object; the user gave its path, or it was found in one of
/// the given paths.
pub(crate) fn object(file: &Path) -> Option<Map> {
    map_of(&crate::load::read_described(file).ok()?)
}

/// Reads a JSON object from a file of a bundle. `None` when the file cannot be read, leads out of
/// the bundle or contains no object.
pub(crate) fn object_inside(bundle: &Path, file: &Path) -> Option<Map> {
    map_of(&crate::load::read_beside(bundle, file).ok()?)
}

fn map_of(bytes: &[u8]) -> Option<Map> {
    match parse(bytes).ok()? {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// The value of a key, if it is a non-empty text.
pub(crate) fn text(map: &Map, key: &str) -> Option<Text> {
    let text = map.get(key).and_then(Value::as_text)?;
    (!text.as_bytes().is_empty()).then(|| text.clone())
}

/// The value of a key as an integer, from a number or the text of a number; a fraction is
/// truncated.
pub(crate) fn integer(map: &Map, key: &str) -> Option<i64> {
    match map.get(key)? {
        Value::Bool(_) | Value::Null => None,
        value => session_integer("value", value).ok(),
    }
}

/// The object under the key `metadata`, or an empty object.
pub(crate) fn metadata(map: &Map) -> Map {
    map.get("metadata")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default()
}

/// A path as query results show it: a file that was unpacked from a pack is shown as part of the
/// pack.
pub(crate) fn path_text(path: &Path) -> Text {
    pack::shown(path).to_string_lossy().into_owned().into()
}
