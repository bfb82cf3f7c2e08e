//! Renames the files of a host sink to the names of an ordinary sink. Stormlog 0.3.9 can then open
//! a run in which only host memory was recorded.

use std::path::Path;

use stormlog_format::{Manifest, SinkNames, Text};

use super::error::SinkError;
use super::lock;
use super::manifest;
use super::recover::{segment_names, settle};
use crate::files::{Durability, remove_if_exists};

const FROM: SinkNames = SinkNames::Host;
const TO: SinkNames = SinkNames::Ordinary;

/// Renames the files of a closed host sink to the names of an ordinary sink. In a directory without
/// a host sink, nothing is done.
///
/// Segments are renamed first, then the new manifest is written, then `host.json` is removed. If
/// the process is killed while it renames, the directory still loads: as long as `host.json`
/// exists, readers look for each of its segments under the old and the new name. After an
/// interrupted renaming, the next call finishes it. No file is renamed when another process records
/// into the directory, when a sink of this process is still open on it, or when the directory also
/// holds an ordinary sink.
pub fn publish(directory: &Path) -> Result<(), SinkError> {
    let exists = |names: SinkNames| directory.join(names.manifest()).is_file();
    let read = SinkError::io("read", directory);
    let left = segment_names(directory, FROM).map_err(read)?;
    if !exists(FROM) && left.is_empty() {
        return Ok(());
    }
    let claim = lock::claim_free(directory).map_err(SinkError::io("open", directory))?;
    let Some(_claim) = claim else {
        return Err(SinkError::InUse {
            directory: directory.to_path_buf(),
        });
    };
    settle_rewrite(directory)?;
    let left = segment_names(directory, FROM).map_err(SinkError::io("read", directory))?;
    // The new manifest is written only after every segment has its new name. If the new manifest
    // exists while a segment still has its old name, the manifest belongs to another sink.
    let is_foreign = exists(TO) && !left.is_empty();
    for name in &left {
        let Some(new_name) = FROM.renamed_segment(name, TO) else {
            continue;
        };
        let target = directory.join(new_name);
        if is_foreign || target.exists() {
            return Err(SinkError::NamesTaken {
                directory: directory.to_path_buf(),
            });
        }
        let source = directory.join(name);
        std::fs::rename(&source, target).map_err(SinkError::io("rename", &source))?;
    }
    if !exists(TO)
        && let Some(manifest) = manifest::read(directory, FROM)
    {
        let path = directory.join(TO.manifest());
        manifest::replace(directory, TO, &with_new_names(manifest), Durability::Disk)
            .map_err(SinkError::io("write", &path))?;
    }
    if exists(FROM) && exists(TO) {
        let path = directory.join(FROM.manifest());
        std::fs::remove_file(&path).map_err(SinkError::io("remove", &path))?;
    }
    Ok(())
}

/// Finishes the rewrite of segments by thinning, if a process was killed during one.
fn settle_rewrite(directory: &Path) -> Result<(), SinkError> {
    let Some(mut manifest) = manifest::read(directory, FROM) else {
        return Ok(());
    };
    if manifest.rewriting.is_none() {
        return Ok(());
    }
    for name in settle(directory, &mut manifest) {
        let path = directory.join(&*name.to_str_lossy());
        remove_if_exists(&path).map_err(SinkError::io("remove", &path))?;
    }
    let path = directory.join(FROM.manifest());
    manifest::replace(directory, FROM, &manifest, Durability::Disk)
        .map_err(SinkError::io("write", &path))
}

fn with_new_names(mut manifest: Manifest) -> Manifest {
    for segment in &mut manifest.segments {
        let name = segment.filename.as_str();
        if let Some(name) = name.and_then(|name| FROM.renamed_segment(name, TO)) {
            segment.filename = Text::from(&*name);
        }
    }
    manifest
}
