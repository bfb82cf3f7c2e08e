//! Events of `.jsonl` files that a caller has read already, so that loading does not parse the
//! files again.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::columns::{Chunk, Events};

/// The events of files that were read from their beginning with
/// [`stream_lines`](crate::stream_lines).
#[derive(Default)]
pub struct ParsedFiles {
    files: HashMap<PathBuf, ParsedFile>,
}

#[derive(Default)]
struct ParsedFile {
    /// How many bytes were read from the beginning of the file on.
    bytes: u64,
    chunks: Vec<Arc<Chunk>>,
}

impl ParsedFiles {
    /// Adds the events between two offsets of a file. The range must begin where the events added
    /// so far end. Otherwise the events are ignored, and the file is parsed again when it is
    /// loaded.
    pub fn add(&mut self, file: &Path, bytes: Range<u64>, events: &[Events]) {
        let known = self.files.entry_ref(file).or_default();
        if known.bytes == bytes.start {
            let chunks = events.iter().flat_map(|events| &events.table.chunks);
            known.chunks.extend(chunks.cloned());
            known.bytes = bytes.end;
        }
    }

    /// The events of a file that has the given size; `None` unless all of it was read.
    pub(super) fn of(&self, file: &Path, size: u64) -> Option<&[Arc<Chunk>]> {
        let known = self.files.get(file)?;
        (known.bytes == size).then_some(known.chunks.as_slice())
    }
}
