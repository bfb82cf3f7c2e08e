//! A side of a comparison, from a path: a run in any artifact, or a saved baseline.

use std::path::{Path, PathBuf};

use super::baseline::{BaselineError, read_baseline};
use super::profile::{Profile, profile_of};
use crate::analyze::{AnalyzeError, AnalyzeOptions};
use crate::gather::{Gathered, gather};
use crate::load::{LoadError, LoadOptions};

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Where it came from, as the user named it.
    pub source: String,
    /// What it comes to.
    pub profile: Profile,
}

/// Why a side cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SideError {
    /// An artifact cannot be loaded.
    #[error("{error}")]
    Load {
        /// What was named.
        path: PathBuf,
        /// Why.
        error: LoadError,
    },
    /// What was loaded does not hold what was asked for.
    #[error("'{}': {error}", .path.display())]
    Analyze {
        /// What was named.
        path: PathBuf,
        /// Why.
        error: AnalyzeError,
    },
    /// A baseline is damaged.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// A saved baseline holds no single sessions to choose from.
    #[error("'{}' is a baseline, in which no session can be chosen", .0.display())]
    NoSessions(PathBuf),
}

/// Reads a side; also returns the skipped files, for warnings.
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
    // Only what is wrong with them is of use from here on.
    for loaded in &mut gathered.loaded {
        loaded.sessions.clear();
    }
    let source = path.to_string_lossy().into_owned();
    Ok((Side { source, profile }, gathered))
}
