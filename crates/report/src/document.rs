//! Documents for programs: types that serde writes as JSON and that docs/schemas describes.

use serde::Serialize;
use serde_json::Value;

/// A document as JSON; its keys are in alphabetical order.
///
/// # Panics
///
/// When a map of the document has keys that are no text, which JSON cannot have.
pub fn to_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("documents have text as keys")
}

/// A document as indented JSON, with a line feed at its end.
pub fn pretty(document: &impl Serialize) -> String {
    format!("{:#}\n", to_value(document))
}
