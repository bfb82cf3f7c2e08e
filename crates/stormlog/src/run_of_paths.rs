//! From paths to the sessions that belong on one picture or screen.

use std::path::{Path, PathBuf};

use stormlog_analysis::{Damage, LoadError, LoadOptions, LoadedSession, OnError, load_sessions};
use stormlog_report::sessions_of_run;

/// The sessions that some paths hold of one run, and what of them could not be read.
#[derive(Clone, Debug, Default)]
pub struct RunOfPaths {
    /// The sessions, in order of rank within each path.
    pub sessions: Vec<LoadedSession>,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// Loads the run of each path: the named or the default session with the other ranks of its
/// job. Several paths are taken to be ranks of one run. Damage is passed over and told.
pub fn load_run(
    paths: &[PathBuf],
    session_id: Option<&str>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<RunOfPaths, (PathBuf, LoadError)> {
    let mut run = RunOfPaths::default();
    for path in paths {
        let loaded = load(path, progress).map_err(|error| (path.clone(), error))?;
        run.damage.extend(loaded.damage);
        let all: Vec<&LoadedSession> = loaded.sessions.iter().collect();
        for session in sessions_of_run(&all, session_id) {
            if !is_among(&run.sessions, session) {
                run.sessions.push(session.clone());
            }
        }
    }
    Ok(run)
}

fn load(
    path: &Path,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<stormlog_analysis::Loaded, LoadError> {
    let options = LoadOptions {
        on_error: OnError::Skip,
        progress,
        ..LoadOptions::default()
    };
    load_sessions(path, &options)
}

/// Whether the very session (same id, same events) was given by another path already; ranks of
/// one job may share an id across files.
fn is_among(sessions: &[LoadedSession], session: &LoadedSession) -> bool {
    let key = |session: &LoadedSession| {
        let first = session.events.get(0);
        let first = first.map(|event| (event.timestamp_ns(), event.origin().rank));
        (first, session.events.len())
    };
    let same = |other: &LoadedSession| {
        other.summary.session_id == session.summary.session_id && key(other) == key(session)
    };
    sessions.iter().any(same)
}
