//! The recordings of an opened run: what was loaded of each artifact, and how a refresh updates it.

use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::{SessionStatus, SinkNames, file_names};

use super::{Choice, RefreshError};
use crate::catalog::{Artifact, FilesState, artifacts_at};
use crate::gather::{Found, Gathered, gather};
use crate::liveness::{Surroundings, effective_status, settle_statuses};
use crate::load::{LiveSessions, LoadOptions, Loaded, load_sessions};
use crate::load_error::LoadError;

/// The artifacts at some paths.
#[derive(Default)]
pub(super) struct Recordings {
    pub(super) paths: Vec<PathBuf>,
    pub(super) gathered: Gathered,
    live: LiveSessions,
    /// The contents of each artifact after the last refresh, with the state of its files before
    /// that refresh. An artifact in the same state is not loaded again.
    kept: HashMap<PathBuf, (FilesState, Loaded)>,
}

impl Recordings {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            ..Self::default()
        }
    }

    /// Loads all artifacts.
    pub(super) fn load(
        &mut self,
        choice: &Choice,
        options: &LoadOptions<'_>,
        here: &Surroundings<'_>,
    ) -> Result<(), (PathBuf, LoadError)> {
        let gathered = gather(&self.paths, options)?;
        self.settle(gathered, choice, here);
        Ok(())
    }

    /// Updates the artifacts: reads what was appended to sinks that are still written, and loads
    /// other artifacts that have changed.
    pub(super) fn refresh(
        &mut self,
        choice: &Choice,
        progress: &(dyn Fn(u64) + Sync),
        here: &Surroundings<'_>,
    ) -> Result<(), RefreshError> {
        let gathered = if choice.only_sinks {
            self.read_sinks(progress)?
        } else {
            self.read_changes(progress, here)?
        };
        self.settle(gathered, choice, here);
        Ok(())
    }

    /// The number of bytes of the files that were followed.
    pub(super) fn followed_bytes(&self) -> u64 {
        self.live.size_bytes()
    }

    fn read_sinks(&mut self, progress: &(dyn Fn(u64) + Sync)) -> Result<Gathered, RefreshError> {
        let found = self.paths.iter().filter_map(|path| artifacts_at(path).ok());
        let files: Vec<PathBuf> = found.flatten().collect();
        let sinks: Vec<(&Path, Artifact)> = files.iter().filter_map(|path| sink_at(path)).collect();
        // A file that cannot be read now is tried again at the next refresh; what was read of it
        // before is still valid.
        let _ = self.live.read_on(&sinks, progress)?;
        let loaded = sinks
            .iter()
            .map(|(path, sink)| self.live.loaded(path, sink));
        let mut gathered = Gathered::default();
        gathered.loaded.extend(loaded);
        Ok(gathered)
    }

    fn read_changes(
        &mut self,
        progress: &(dyn Fn(u64) + Sync),
        here: &Surroundings<'_>,
    ) -> Result<Gathered, RefreshError> {
        let unread = |(path, error)| RefreshError::Unread(path, error);
        let found = Found::at(&self.paths).map_err(unread)?;
        let files = found.files.iter().map(|(file, _)| file.as_path());
        let files: Vec<(&Path, FilesState)> = files.map(|file| (file, state_of(file))).collect();
        let outcomes = self.outcomes(&files, progress, here)?;
        let read = files.iter().zip(&outcomes);
        let kept = read
            .filter_map(|((file, state), outcome)| {
                let loaded = outcome.as_ref().ok()?.clone();
                Some((file.to_path_buf(), (*state, loaded)))
            })
            .collect();
        let gathered = found.gathered(outcomes).map_err(unread)?;
        self.kept = kept;
        Ok(gathered)
    }

    /// The contents of the given files: those kept in memory if the state of the file is the same.
    fn outcomes(
        &mut self,
        files: &[(&Path, FilesState)],
        progress: &(dyn Fn(u64) + Sync),
        here: &Surroundings<'_>,
    ) -> Result<Vec<Result<Loaded, LoadError>>, RefreshError> {
        let sinks = files.iter().filter_map(|(file, _)| sink_at(file));
        let growing: Vec<(&Path, Artifact)> =
            sinks.filter(|(_, sink)| may_grow(sink, here)).collect();
        let growing: HashMap<&Path, &Artifact> = match self.live.read_on(&growing, progress) {
            Ok(None) => growing.iter().map(|(path, sink)| (*path, sink)).collect(),
            Ok(Some((file, error))) => return Err(RefreshError::Unread(file, error)),
            // What is too large to be followed is loaded as a whole.
            Err(_) => HashMap::new(),
        };
        let options = LoadOptions {
            progress,
            ..LoadOptions::skipping()
        };
        let read = |(file, state): &(&Path, FilesState)| {
            let sink = growing.get(file);
            // What was followed is loaded as a whole when it is no longer written, because its last
            // line may be torn.
            if let Some((known, loaded)) = self.kept.get(*file)
                && known == state
                && (sink.is_some() || !is_running(loaded))
            {
                return Ok(loaded.clone());
            }
            if let Some(sink) = sink {
                let mut loaded = self.live.loaded(file, sink);
                settle_statuses(&mut loaded.sessions, here);
                if is_running(&loaded) && !sink.was_rewritten(file) {
                    return Ok(loaded);
                }
            }
            let mut loaded = load_sessions(file, &options)?;
            settle_statuses(&mut loaded.sessions, here);
            Ok(loaded)
        };
        Ok(files.par_iter().map(read).collect())
    }

    /// Takes over what was read: settles the statuses of the sessions, and keeps only those of the
    /// choice.
    fn settle(&mut self, gathered: Gathered, choice: &Choice, here: &Surroundings<'_>) {
        self.gathered = gathered;
        for loaded in &mut self.gathered.loaded {
            settle_statuses(&mut loaded.sessions, here);
            loaded.sessions.retain(|session| {
                let summary = &session.summary;
                let is_of_rank = choice.rank.is_none_or(|rank| summary.rank == rank);
                let ids = &choice.sessions;
                is_of_rank && (ids.is_empty() || ids.contains(&summary.session_id))
            });
        }
    }
}

fn is_running(loaded: &Loaded) -> bool {
    let mut sessions = loaded.sessions.iter();
    sessions.any(|session| session.summary.status == SessionStatus::Running)
}

/// The sink at the path of an artifact; `None` for another artifact.
fn sink_at(path: &Path) -> Option<(&Path, Artifact)> {
    let artifact = Artifact::at(path).ok()?;
    matches!(artifact, Artifact::Sink { .. }).then_some((path, artifact))
}

/// Whether a session of a sink may still be recorded, according to the manifest and the processes.
fn may_grow(sink: &Artifact, here: &Surroundings<'_>) -> bool {
    let Artifact::Sink {
        manifest: Some(manifest),
        ..
    } = sink
    else {
        return false;
    };
    let now = || Some(here.now_ns);
    let mut sessions = manifest.sessions.iter();
    sessions.any(|one| effective_status(one, now, Some(here)) == SessionStatus::Running)
}

/// The state of the files that an artifact is loaded from.
fn state_of(path: &Path) -> FilesState {
    if path.is_dir() {
        return FilesState::of(&[path.to_path_buf(), path.join(file_names::BUNDLE_SINK)]);
    }
    // The manifest beside a `.jsonl` file has the summaries of its sessions.
    let folder = path.parent().unwrap_or(path);
    let manifests = SinkNames::ALL.map(|names| folder.join(names.manifest()));
    FilesState::of(manifests.iter().chain([&path.to_path_buf()]))
}
