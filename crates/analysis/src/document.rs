//! Serializes values whose Rust type differs from their form in JSON documents.

use std::path::Path;

use serde::{Serialize, Serializer};

use crate::pack::shown;

/// Serializes pairs of name and value as one JSON object.
pub fn by_name<K, V, S>(pairs: &[(K, V)], serializer: S) -> Result<S::Ok, S::Error>
where
    K: Serialize,
    V: Serialize,
    S: Serializer,
{
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Serializes a path as the user knows it: an unpacked file is shown as a part of its pack.
pub fn shown_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(path).to_string_lossy())
}
