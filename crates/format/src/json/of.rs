//! Converts documents to values.

use serde::Serialize;

use super::read::parse;
use crate::value::Value;

/// Converts a document, any value that serde serialises, to a [`Value`]; keys are in the order of
/// the fields. The result is `None` when the document cannot be JSON: a key is not text, or the
/// nesting is deeper than the reader allows.
pub fn value_of(document: &impl Serialize) -> Option<Value> {
    parse(&serde_json::to_vec(document).ok()?).ok()
}
