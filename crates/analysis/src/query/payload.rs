//! Reads values from untrusted JSON in the same way as stormlog 0.3.9.

use std::path::Path;

use stormlog_format::{Map, Text, Value, session_integer};

use crate::pack;

/// The value of a key, if it is a non-empty text.
pub(crate) fn text(map: &Map, key: &str) -> Option<Text> {
    let text = map.text(key)?;
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

/// A path as query results show it: a file that was unpacked from a pack is shown as part of the
/// pack.
pub fn path_text(path: &Path) -> Text {
    pack::shown(path).to_string_lossy().into_owned().into()
}
