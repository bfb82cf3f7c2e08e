//! Runs that go on: what was read of their files stays in memory while pages show them, so that an
//! update reads what was appended since.

use std::sync::{Mutex, PoisonError};

use stormlog_analysis::{LiveSessions, Loaded};

use crate::runs::Entry;

/// Runs that are kept, and the bytes of their files together; in memory they take about a third.
const MOST_RUNS: usize = 4;
const MOST_BYTES: u64 = 512 << 20;

/// The runs that were read last, the latest first.
#[derive(Default)]
pub(crate) struct LiveRuns(Mutex<Vec<(String, LiveSessions)>>);

impl LiveRuns {
    /// The recordings of a run that goes on; nothing where the run has to be loaded as a whole.
    pub(crate) fn read(&self, entry: &Entry) -> Option<Vec<Loaded>> {
        let mut followed = self.take(&entry.id).unwrap_or_default();
        // Of a run that has ended nothing is kept, nor of files without a manifest.
        if !entry.is_running || entry.sessions.is_empty() {
            return None;
        }
        let loaded = followed.read(&entry.paths).ok()?;
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

    /// Drops what is kept.
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
