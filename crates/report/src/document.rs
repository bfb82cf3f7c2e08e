//! JSON documents for programs: types that serde serializes and that the files in docs/schemas
//! describe.

use serde::Serialize;
use serde_json::Value;

/// Converts a document to JSON with its keys in alphabetical order.
///
/// # Panics
///
/// The function panics when a map in the document has keys that are not text, because JSON allows
/// only text as keys.
pub fn to_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("documents have text as keys")
}

/// Converts a document to indented JSON with a line feed at its end.
///
/// # Panics
///
/// Like [`to_value`].
pub fn pretty(document: &impl Serialize) -> String {
    // `format!("{:#}", value)` would write the same text, but takes longer.
    let text = serde_json::to_string_pretty(&to_value(document));
    text.expect("the keys of JSON objects are strings") + "\n"
}
