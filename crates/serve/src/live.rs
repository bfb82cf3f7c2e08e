//! Keeps the loaded files of running recordings in memory while pages show them, so that an update
//! reads only the data that was appended.

use std::sync::{Mutex, PoisonError};

use stormlog_analysis::{LiveSessions, Loaded, artifacts_at};

use crate::runs::Entry;

/// The largest number of running recordings kept in memory, and the largest total size of their
/// files in bytes. The loaded data takes about a third of the size of the files.
const MOST_RUNS: usize = 4;
const MOST_BYTES: u64 = 512 << 20;

/// At most [`MOST_RUNS`] running recordings, each as its id and its loaded data, the most recently
/// read recording first.
#[derive(Default)]
pub(crate) struct LiveRuns(Mutex<Vec<(String, LiveSessions)>>);

impl LiveRuns {
    /// Reads the data that was appended to a running recording since the last call, and returns the
    /// whole recording. Returns `None` if the run has ended, has no manifest, or is too large to be
    /// kept in memory; then the caller loads all files of the run.
    pub(crate) fn read(&self, entry: &Entry) -> Option<Vec<Loaded>> {
        let mut followed = self.take(&entry.id).unwrap_or_default();
        // Nothing is kept in memory for a run that has ended, or for files without a manifest.
        if !entry.is_running || entry.sessions.is_empty() {
            return None;
        }
        let artifacts = entry
            .paths
            .iter()
            .filter_map(|path| artifacts_at(path).ok());
        let artifacts: Vec<_> = artifacts.flatten().collect();
        let loaded = followed.read(&artifacts).ok()?;
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|(id, _)| *id != entry.id);
        runs.insert(0, (entry.id.clone(), followed));
        runs.truncate(MOST_RUNS);
        let mut bytes = 0;
        let mut is_latest = true;
        runs.retain(|(_, run)| {
            bytes += run.size_bytes();
            std::mem::take(&mut is_latest) || bytes <= MOST_BYTES
        });
        Some(loaded)
    }

    /// Drops the loaded data of all recordings, because no page is open any more.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn take(&self, id: &str) -> Option<LiveSessions> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = runs.iter().position(|(known, _)| known == id)?;
        Some(runs.remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_run_is_kept_while_it_goes_on() {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
        let mut entry = Entry {
            id: "a".to_owned(),
            paths: vec![runs.join("two_ranks")],
            sessions: vec!["any".into()],
            is_running: true,
            ..Entry::default()
        };
        let live = LiveRuns::default();
        let events = |loaded: Vec<Loaded>| -> usize {
            let sessions = loaded.iter().flat_map(|one| &one.sessions);
            sessions.map(|session| session.events.len()).sum()
        };
        let first = live.read(&entry).map(events);
        assert!(first > Some(0));
        assert_eq!(live.read(&entry).map(events), first);
        assert_eq!(live.0.lock().unwrap().len(), 1);
        entry.is_running = false;
        assert!(live.read(&entry).is_none());
        assert_eq!(live.0.lock().unwrap().len(), 0);
        entry.is_running = true;
        for id in 0..=MOST_RUNS {
            entry.id = id.to_string();
            assert!(live.read(&entry).is_some());
        }
        assert_eq!(live.0.lock().unwrap().len(), MOST_RUNS);
    }
}
