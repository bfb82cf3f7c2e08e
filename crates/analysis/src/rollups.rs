//! Computes rollups (totals and extremes per session) of loaded sessions, and reads the rollups
//! that a recorder keeps in the folder of a sink.

use std::path::{Path, PathBuf};

use stormlog_format::json::parse;
use stormlog_format::rollup::{
    Observation, ROLLUP_FILENAME, RollupFile, SessionRollup, SessionRollupBuilder, without_windows,
};
use stormlog_format::{Manifest, SessionSummary, Text};

use crate::bytes::read_beside;
use crate::catalog::{manifest_path, read_manifest};
use crate::columns::{EventRef, Events};
use crate::regular_file::folder_of;

/// The path of the file with the rollups of a sink; `path` is the folder of the sink, or a file in
/// it.
pub fn rollup_path(path: &Path) -> PathBuf {
    let directory = if path.is_file() { path.parent() } else { None };
    directory.unwrap_or(path).join(ROLLUP_FILENAME)
}

/// Reads the rollups of a sink. `None` when the rollups cannot be read, or when the manifest of the
/// sink lists other segments, or another number of events or bytes, than the rollups cover.
pub fn read_rollups(path: &Path) -> Option<RollupFile> {
    let file = parsed(folder_of(&rollup_path(path)), <[u8]>::to_vec)?;
    let manifest = manifest_path(path).and_then(|path| read_manifest(&path));
    manifest
        .is_none_or(|manifest| file.matches(&manifest))
        .then_some(file)
}

/// Reads the rollups of a sink without their time windows, which are most of the file. `None`
/// unless the rollups match the manifest.
pub(crate) fn read_totals(sink: &Path, manifest: &Manifest) -> Option<RollupFile> {
    parsed(sink, without_windows).filter(|rollups| rollups.matches(manifest))
}

/// Reads the rollups of a sink with their time windows. `None` unless the rollups match the
/// manifest.
pub(crate) fn read_windows(sink: &Path, manifest: &Manifest) -> Option<RollupFile> {
    parsed(sink, <[u8]>::to_vec).filter(|rollups| rollups.matches(manifest))
}

/// Parses the part of a sink's rollups that `part` selects from the bytes of the file.
fn parsed(sink: &Path, part: impl Fn(&[u8]) -> Vec<u8>) -> Option<RollupFile> {
    let bytes = read_beside(sink, &sink.join(ROLLUP_FILENAME)).ok()?;
    RollupFile::from_value(&parse(&part(&bytes)).ok()?).ok()
}

/// Computes the rollup of a session from its events: totals and extremes of the whole session, and
/// of each time window of `window_ns` nanoseconds.
pub fn session_rollup(
    summary: SessionSummary,
    events: &Events,
    sources: Vec<Text>,
    warnings: Vec<Text>,
    window_ns: i64,
) -> SessionRollup {
    let mut builder = SessionRollupBuilder::new(summary, window_ns);
    for event in events.iter() {
        builder.observe(&observation(event));
    }
    for source in sources {
        builder.add_source(source);
    }
    for warning in warnings {
        builder.add_warning(warning);
    }
    builder.finish()
}

fn observation(event: EventRef<'_>) -> Observation {
    let (origin, counters) = (event.origin(), event.counters());
    Observation {
        timestamp_ns: event.timestamp_ns(),
        rank: origin.rank,
        local_rank: origin.local_rank,
        world_size: origin.world_size,
        device_id: origin.device_id,
        allocator_allocated_bytes: counters.allocator_allocated_bytes,
        allocator_reserved_bytes: counters.allocator_reserved_bytes,
        device_used_bytes: counters.device_used_bytes,
        ..Observation::default()
    }
    .with_metadata_json(event.event_type(), &event.metadata_json())
}
