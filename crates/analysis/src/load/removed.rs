//! The events that the recorder removed from a sink, according to the sink's manifest.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::{Pruned, Thinned};

use crate::catalog::Artifact;
use crate::catalog::plain_name;

/// Events that recorders removed from their sinks or could not write. Removed or dropped events are
/// not damage: they were removed to stay within a size limit, or could not be written because the
/// disk failed or was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Removed {
    /// Samples removed by thinning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Thinned")]
    pub thinned: Option<Thinned>,
    /// Whole segments deleted by retention.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Pruned")]
    pub pruned: Option<Pruned>,
    /// Number of events that could not be written to the sink.
    #[serde(skip_serializing_if = "is_nothing")]
    pub dropped_events: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_nothing(count: &i64) -> bool {
    *count <= 0
}

impl Removed {
    /// The events removed from an artifact.
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

    /// The events removed from the sink at a path; empty when the path is not a sink.
    pub fn at(path: &Path) -> Self {
        Artifact::at(path).map_or(Self::default(), |artifact| Self::of(&artifact))
    }

    /// The removed events of two artifacts together.
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
