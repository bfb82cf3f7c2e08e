//! Reads one side of a comparison from a path: a run in any artifact, or a saved baseline.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::baseline::{BaselineError, read_baseline};
use super::profile::{Profile, profile_of};
use crate::analyze::{AnalyzeError, AnalyzeOptions};
use crate::gather::{Gathered, gather};
use crate::load::LoadOptions;
use crate::load_error::LoadError;

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// The path of the run or baseline, as the user wrote it.
    pub source: String,
    /// The summary of the run, which is compared.
    #[serde(flatten)]
    pub profile: Profile,
}

/// Why one side of a comparison cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SideError {
    /// A recording at the path cannot be loaded.
    #[error("{error}")]
    Load {
        /// The path that cannot be loaded.
        path: PathBuf,
        /// The reason why the recording cannot be loaded.
        error: LoadError,
    },
    /// The loaded artifacts do not contain the requested session or rank.
    #[error("'{}': {error}", .path.display())]
    Analyze {
        /// The path that the user gave.
        path: PathBuf,
        /// The reason why the artifacts cannot be analyzed.
        error: AnalyzeError,
    },
    /// The path is a saved baseline that cannot be read or is damaged.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// A session was requested, but the path is a saved baseline, which has no separate sessions.
    #[error("'{}' is a baseline, which has no sessions to choose from", .0.display())]
    NoSessions(PathBuf),
}

/// Reads one side of a comparison. Also returns the files that were skipped, so that the caller can
/// print warnings.
pub fn read_side(
    path: &Path,
    choice: &AnalyzeOptions,
    options: &LoadOptions<'_>,
) -> Result<(Side, Gathered), SideError> {
    if let Some(mut side) = read_baseline(path)? {
        if choice.session_id.is_some() {
            return Err(SideError::NoSessions(path.into()));
        }
        if let Some(rank) = choice.rank {
            let kept = side.profile.keep_rank(rank);
            kept.map_err(|error| SideError::Analyze {
                path: path.into(),
                error,
            })?;
        }
        return Ok((side, Gathered::default()));
    }
    let mut gathered = gather(&[path.to_path_buf()], options)
        .map_err(|(path, error)| SideError::Load { path, error })?;
    let profile = profile_of(&gathered.loaded, choice).map_err(|error| SideError::Analyze {
        path: path.into(),
        error,
    })?;
    // The events are dropped to save memory, because the caller needs only the damage from here on.
    for loaded in &mut gathered.loaded {
        loaded.sessions.clear();
    }
    let source = path.to_string_lossy().into_owned();
    Ok((Side { source, profile }, gathered))
}
