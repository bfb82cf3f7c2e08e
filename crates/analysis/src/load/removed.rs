//! What the writer of a sink did not keep, as its manifest counts it.

use std::path::Path;

use stormlog_format::{Manifest, Pruned, Thinned};

use super::artifact::Artifact;

/// What the writers of sinks did not keep. None of it is damage: it was given up to keep within
/// a budget, or because a disk took nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Samples that thinning took away.
    pub thinned: Option<Thinned>,
    /// Whole segments that retention deleted.
    pub pruned: Option<Pruned>,
    /// Events that could not be written.
    pub dropped_events: i64,
}

impl Removed {
    /// What the manifest of a sink counts.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self {
            thinned: manifest.thinned,
            pruned: manifest.pruned,
            dropped_events: manifest.dropped_event_count,
        }
    }

    /// What is missing from the sink at a path; nothing when it is no sink.
    pub fn at(path: &Path) -> Self {
        match Artifact::at(path) {
            Ok(Artifact::Sink {
                manifest: Some(manifest),
                ..
            }) => Self::of(&manifest),
            _ => Self::default(),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let thinned = self.thinned.unwrap_or_default();
        let pruned = self.pruned.unwrap_or_default();
        let more = other.pruned.unwrap_or_default();
        Self {
            thinned: thinned.plus(other.thinned.unwrap_or_default()).reported(),
            pruned: Pruned {
                segments: pruned.segments.saturating_add(more.segments),
                events: pruned.events.saturating_add(more.events),
            }
            .reported(),
            dropped_events: self.dropped_events.saturating_add(other.dropped_events),
        }
    }
}
