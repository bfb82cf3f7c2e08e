//! Loads the artifacts at the paths that a user gave, which may be files or folders.

use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

use crate::catalog::find_artifacts;
use crate::columns::{EventRef, Events};
use crate::damage::Damage;
use crate::load::{LoadOptions, Loaded, LoadedSession, events_of, load_sessions};
use crate::load_error::LoadError;
use crate::pack;
use crate::timeline::newest_first;

/// The loaded artifacts, in the order in which the user gave their paths.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The artifacts.
    pub loaded: Vec<Loaded>,
    /// The path of each loaded artifact.
    pub files: Vec<PathBuf>,
    /// Files that are no recordings, found in the given folders.
    pub skipped: Vec<PathBuf>,
    /// For each loaded artifact, whether sessions were removed from it as copies.
    has_removed: Vec<bool>,
}

impl Gathered {
    /// Each artifact from which no session was removed as a copy, with its path.
    pub fn whole_files(&self) -> impl Iterator<Item = (&Path, &Loaded)> {
        let all = self.files.iter().map(PathBuf::as_path).zip(&self.loaded);
        let all = all.zip(&self.has_removed);
        all.filter_map(|(one, has_removed)| (!has_removed).then_some(one))
    }

    /// Joins all loaded artifacts into one, with the newest session first.
    pub fn joined(self) -> Loaded {
        let mut artifacts = self.loaded.into_iter();
        let mut all = artifacts.next().unwrap_or_default();
        for other in artifacts {
            all.sessions.extend(other.sessions);
            all.damage.extend(other.damage);
            all.removed = all.removed.plus(other.removed);
        }
        newest_first(&mut all.sessions, |session| session);
        all
    }
}

/// Loads all artifacts at the given paths.
///
/// A file that the user gave must load, otherwise the result is an error. A file found in a folder
/// is skipped when it is no recording.
pub fn gather(
    paths: &[PathBuf],
    options: &LoadOptions<'_>,
) -> Result<Gathered, (PathBuf, LoadError)> {
    let found = Found::at(paths)?;
    let outcomes = found.files.par_iter();
    let outcomes = outcomes.map(|(file, _)| load_sessions(file, options));
    let outcomes = outcomes.collect();
    found.gathered(outcomes)
}

/// Loads all sessions of an artifact, or of all artifacts in a folder that is none itself, such as
/// the folder of a run, with the newest session first.
pub fn load_all_sessions(path: &Path, options: &LoadOptions<'_>) -> Result<Loaded, LoadError> {
    match load_sessions(path, options) {
        Err(LoadError::NotAnArtifact(_)) => {
            let gathered = gather(&[path.to_path_buf()], options);
            gathered.map(Gathered::joined).map_err(|(_, error)| error)
        }
        loaded => loaded,
    }
}

/// Loads the events of the given session, or of the default session, like [`load_all_sessions`].
pub fn load_all_events(
    path: &Path,
    session_id: Option<&str>,
    options: &LoadOptions<'_>,
) -> Result<(Events, Vec<Damage>), LoadError> {
    events_of(load_all_sessions(path, options)?, session_id)
}

/// The artifacts at some paths, before they are loaded.
pub(crate) struct Found {
    /// The path of each artifact, and whether the user gave this path.
    pub(crate) files: Vec<(PathBuf, bool)>,
    refused: Vec<Damage>,
    skipped: Vec<PathBuf>,
}

impl Found {
    /// Finds the artifacts at the given paths.
    pub(crate) fn at(paths: &[PathBuf]) -> Result<Self, (PathBuf, LoadError)> {
        let (mut files, mut refused, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            let found = find_artifacts(path).map_err(|error| (path.clone(), error))?;
            // If a pack contains a single file, that file is treated like a file that the user
            // gave.
            let named = pack::unpacked(path).map_err(|error| (path.clone(), error.into()))?;
            refused.extend(found.refused);
            skipped.extend(found.foreign);
            files.extend(found.paths.into_iter().map(|file| {
                let is_named = file == *named;
                (file, is_named)
            }));
        }
        Ok(Self {
            files,
            refused,
            skipped,
        })
    }

    /// The artifacts with their contents; `outcomes` has an element for each of the files.
    pub(crate) fn gathered(
        self,
        outcomes: Vec<Result<Loaded, LoadError>>,
    ) -> Result<Gathered, (PathBuf, LoadError)> {
        let mut gathered = Gathered {
            skipped: self.skipped,
            ..Gathered::default()
        };
        for ((file, named), outcome) in self.files.into_iter().zip(outcomes) {
            match outcome {
                Ok(loaded) => {
                    gathered.loaded.push(loaded);
                    gathered.files.push(file);
                }
                Err(error) if !named && error.is_no_telemetry() => gathered.skipped.push(file),
                Err(error) => return Err((file, error)),
            }
        }
        if let Some(first) = gathered.loaded.first_mut() {
            first.damage.extend(self.refused);
        }
        gathered.has_removed = drop_copies(&mut gathered.loaded);
        Ok(gathered)
    }
}

/// Removes a session from an artifact when another artifact contains all events of that session.
/// Copies of sessions are common: an OOM bundle has the last events of a session whose sink may be
/// in the same folder, and a file may be next to its compressed copy. Returns for each artifact
/// whether sessions were removed.
fn drop_copies(loaded: &mut [Loaded]) -> Vec<bool> {
    let key = |session: &LoadedSession| {
        let summary = &session.summary;
        (summary.session_id.clone(), summary.rank, summary.pid)
    };
    let extent = |session: &LoadedSession| {
        let time = |index: usize| session.events.get(index).map(EventRef::timestamp_ns);
        let count = session.events.len();
        (count, time(0), time(count.saturating_sub(1)))
    };
    let mut most = HashMap::new();
    for session in loaded.iter().flat_map(|one| &one.sessions) {
        let count = most.entry(key(session)).or_insert(0);
        *count = session.events.len().max(*count);
    }
    let mut seen = HashSet::new();
    let mut remove = |one: &mut Loaded| {
        let before = one.sessions.len();
        one.sessions.retain(|session| {
            let is_longest = most.get(&key(session)) == Some(&session.events.len());
            is_longest && seen.insert((key(session), extent(session)))
        });
        one.sessions.len() < before
    };
    loaded.iter_mut().map(&mut remove).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_copy_beside_its_original_counts_once() {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.jsonl", "b.jsonl"] {
            let segment = runs.join("two_ranks/segment-000001.jsonl");
            std::fs::copy(segment, folder.path().join(name)).expect("copied");
        }
        let paths = [folder.path().to_path_buf()];
        let gathered = gather(&paths, &LoadOptions::default()).expect("it loads");
        assert_eq!(gathered.files.len(), 2);
        let sessions: Vec<usize> = gathered
            .loaded
            .iter()
            .map(|one| one.sessions.len())
            .collect();
        assert_eq!(sessions, [1, 0]);
        let whole: Vec<&Path> = gathered.whole_files().map(|(path, _)| path).collect();
        assert_eq!(whole, [folder.path().join("a.jsonl")]);
    }
}
