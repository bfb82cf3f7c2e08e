//! The manifest on disk: read leniently, replaced atomically.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use stormlog_format::json::{self, Layout, Writer};
use stormlog_format::{Manifest, SinkNames};

/// The name of an ordinary sink's manifest.
pub const MANIFEST_FILENAME: &str = "manifest.json";

/// Whether a written file must survive the machine, or only this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is on the disk when the call returns.
    Disk,
    /// The system has it and will write it in its own time.
    System,
}

/// The manifest of a sink; `None` when there is none that can be read.
pub(crate) fn read(directory: &Path, names: SinkNames) -> Option<Manifest> {
    let text = std::fs::read(directory.join(names.manifest())).ok()?;
    std::str::from_utf8(&text).ok()?;
    Manifest::from_value(&json::parse(&text).ok()?)
}

/// Replaces the manifest of a sink.
pub(crate) fn replace(
    directory: &Path,
    names: SinkNames,
    manifest: &Manifest,
    durability: Durability,
) -> io::Result<()> {
    let mut text = Writer::new(Layout::Indented).map_to_string(&manifest.to_map());
    text.push('\n');
    let (name, temporary) = (names.manifest(), names.temporary_manifest());
    replace_file(directory, name, temporary, &text, durability)
}

/// Writes a file under a temporary name and then gives it its own, so that whoever reads
/// finds the old one or the new one and nothing in between.
pub(crate) fn replace_file(
    directory: &Path,
    name: &str,
    temporary: &str,
    text: &str,
    durability: Durability,
) -> io::Result<()> {
    let temporary = directory.join(temporary);
    let mut file = File::create(&temporary)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| {
        if durability == Durability::Disk {
            file.sync_data()?;
        }
        Ok(())
    });
    if let Err(error) = written {
        // Half a file would only take room on a disk that has none left.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    std::fs::rename(&temporary, directory.join(name))?;
    if durability == Durability::Disk {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
