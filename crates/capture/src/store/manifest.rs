//! Reads and replaces the manifest of a sink on disk: reading tolerates errors, and replacing is
//! atomic.

use std::io;
use std::path::Path;

use stormlog_format::json::{self, Layout, Writer};
use stormlog_format::{Manifest, SinkNames};

use crate::files::{Durability, read_regular, replace_file};

/// The largest manifest that is read, in bytes; Stormlog does not write longer manifests.
const MOST_BYTES: u64 = 64 << 20;

/// Reads the manifest of a sink; `None` when there is no manifest that can be read.
pub(crate) fn read(directory: &Path, names: SinkNames) -> Option<Manifest> {
    let text = read_regular(&directory.join(names.manifest()), MOST_BYTES).ok()?;
    std::str::from_utf8(&text).ok()?;
    Manifest::from_value(&json::parse(&text).ok()?)
}

/// Writes the manifest of a sink in place of the one in the directory, if there is one.
pub(crate) fn replace(
    directory: &Path,
    names: SinkNames,
    manifest: &Manifest,
    durability: Durability,
) -> io::Result<()> {
    let mut text = Writer::new(Layout::Indented).to_string(&json::value_of(manifest));
    text.push('\n');
    replace_file(directory, names.manifest(), text.as_bytes(), durability)
}
