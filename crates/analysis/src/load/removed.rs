//! What the writer of a sink did not keep, as its manifest counts it.

use std::path::Path;

use stormlog_format::{Pruned, Thinned};

use super::artifact::Artifact;
use crate::catalog::plain_name;

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
    /// What was removed from an artifact.
    pub(crate) fn of(artifact: &Artifact) -> Self {
        let Artifact::Sink {
            manifest: Some(manifest),
            segments,
            ..
        } = artifact
        else {
            return Self::default();
        };
        let names: Vec<String> = segments.iter().map(|path| plain_name(path)).collect();
        Self {
            thinned: manifest.thinned,
            pruned: manifest.pruned_segments(names.iter().map(String::as_str)),
            dropped_events: manifest.dropped_event_count,
        }
    }

    /// What is missing from the sink at a path; nothing when it is no sink.
    pub fn at(path: &Path) -> Self {
        Artifact::at(path).map_or(Self::default(), |artifact| Self::of(&artifact))
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let thinned = self.thinned.unwrap_or_default();
        let pruned = self.pruned.unwrap_or_default();
        Self {
            thinned: thinned.plus(other.thinned.unwrap_or_default()).reported(),
            pruned: pruned.plus(other.pruned.unwrap_or_default()).reported(),
            dropped_events: self.dropped_events.saturating_add(other.dropped_events),
        }
    }
}
