//! Converts documents to values.

use serde::Serialize;

use super::read::parse;
use crate::value::Value;

/// Converts a document to a value; the keys are in the order of the fields. `None` when the document
/// is no JSON: a key is not text, or the nesting is deeper than the reader allows.
pub fn value_of(document: &impl Serialize) -> Option<Value> {
    parse(&serde_json::to_vec(document).ok()?).ok()
}
