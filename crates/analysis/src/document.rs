//! Serializes values whose Rust type differs from their form in JSON documents.

use std::path::Path;

use serde::Serializer;

use crate::pack::shown;

/// Serializes a path as the user knows it: a file that was unpacked into a temporary folder is
/// written as a path inside its pack (`run.stormlog/gpu-1`).
pub fn shown_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(path).to_string_lossy())
}
