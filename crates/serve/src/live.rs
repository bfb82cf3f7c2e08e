//! Keeps the loaded files of running recordings in memory while pages show them, so that an update
//! reads only the data that was appended.

use std::sync::{Mutex, PoisonError};

use stormlog_analysis::{Choice, LoadOptions, OpenRun};

use crate::machine::Machine;
use crate::runs::Entry;

/// The largest number of running recordings kept in memory, and the largest total size of their
/// files in bytes. The loaded data takes about a third of the size of the files.
const MOST_RUNS: usize = 4;
const MOST_BYTES: u64 = 512 << 20;

/// At most [`MOST_RUNS`] running recordings, each as its id and its loaded data, the most recently
/// read recording first.
#[derive(Default)]
pub(crate) struct LiveRuns(Mutex<Vec<(String, OpenRun)>>);

impl LiveRuns {
    /// Calls a function with the loaded recordings of a run. Of a run that is still recorded, only
    /// the data that was appended since the last call is read.
    pub(crate) fn with<T>(
        &self,
        entry: &Entry,
        machine: &dyn Machine,
        look: impl FnOnce(&OpenRun) -> Result<T, String>,
    ) -> Result<T, String> {
        // A sink may also contain sessions of other runs, which are not shown on the page of this
        // run. If files without a manifest contain several runs, the newest run is shown.
        let choice = Choice {
            sessions: entry.sessions.clone(),
            ..Choice::default()
        };
        let known = self.take(&entry.id);
        // Nothing is kept in memory for a run that has ended, or for files without a manifest.
        let follows = entry.is_running && !entry.sessions.is_empty();
        let mut run = known.filter(|_| follows).unwrap_or_default();
        run.choose(entry.paths.clone(), choice.clone());
        let mut is_current = false;
        let mut failure = None;
        machine.surroundings(&mut |here| {
            is_current = follows && run.refresh(&|_| {}, here).is_ok();
            if is_current {
                return;
            }
            match OpenRun::open(&entry.paths, choice.clone(), &LoadOptions::skipping(), here) {
                Ok(opened) => run = opened,
                Err((path, error)) => failure = Some(format!("{}: {error}", path.display())),
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let looked = look(&run);
        if is_current && run.followed_bytes() > 0 {
            self.keep(&entry.id, run);
        }
        looked
    }

    fn keep(&self, id: &str, run: OpenRun) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|(known, _)| known != id);
        runs.insert(0, (id.to_owned(), run));
        runs.truncate(MOST_RUNS);
        let mut bytes = 0;
        let mut is_latest = true;
        runs.retain(|(_, run)| {
            bytes += run.followed_bytes();
            std::mem::take(&mut is_latest) || bytes <= MOST_BYTES
        });
    }

    /// Drops the loaded data of all recordings, because no page is open any more.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn take(&self, id: &str) -> Option<OpenRun> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = runs.iter().position(|(known, _)| known == id)?;
        Some(runs.remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use stormlog_analysis::query::{Process, Surroundings};

    use super::*;

    /// A machine on which every process runs.
    struct Busy;

    impl Machine for Busy {
        fn now_ns(&self) -> i64 {
            0
        }

        fn user(&self) -> String {
            String::new()
        }

        fn surroundings(&self, ask: &mut dyn FnMut(&Surroundings<'_>)) {
            ask(&Surroundings {
                now_ns: 0,
                host: "here",
                reader: None,
                process: &|_| Process::Alive {
                    started_ns: None,
                    identity: None,
                },
            });
        }
    }

    #[test]
    fn a_run_is_kept_while_it_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
            "sessions": [{"session_id": "a", "status": "running", "started_at_ns": 1,
            "ended_at_ns": null, "host": "here", "pid": 7, "job_id": null, "rank": 0,
            "local_rank": 0, "world_size": 1, "source": "stormlog.tracker"}], "segments": []}"#;
        std::fs::write(folder.path().join("manifest.json"), manifest).unwrap();
        let event = r#"{"schema_version": 3, "session_id": "a", "timestamp_ns": 1,
            "event_type": "sample", "collector": "stormlog.cuda_tracker",
            "sampling_interval_ms": 100, "pid": 7, "host": "here", "job_id": null, "rank": 0,
            "local_rank": 0, "world_size": 1, "device_id": 0, "allocator_allocated_bytes": 1,
            "allocator_reserved_bytes": 2, "allocator_active_bytes": null,
            "allocator_inactive_bytes": null, "allocator_change_bytes": 0,
            "device_used_bytes": 3, "device_free_bytes": 4, "device_total_bytes": 7,
            "context": null, "metadata": {}}"#;
        let event = event.replace('\n', "") + "\n";
        std::fs::write(folder.path().join("segment-000001.jsonl"), event).unwrap();
        let mut entry = Entry {
            id: "a".to_owned(),
            paths: vec![folder.path().into()],
            sessions: vec!["a".into()],
            is_running: true,
            ..Entry::default()
        };
        let live = LiveRuns::default();
        let events = |entry: &Entry| {
            let count = |run: &OpenRun| {
                let sessions = run.loaded().iter().flat_map(|one| &one.sessions);
                Ok(sessions.map(|session| session.events.len()).sum::<usize>())
            };
            live.with(entry, &Busy, count)
        };
        let kept = || live.0.lock().unwrap().len();
        assert_eq!((events(&entry), kept()), (Ok(1), 1));
        assert_eq!((events(&entry), kept()), (Ok(1), 1));
        entry.is_running = false;
        assert_eq!((events(&entry), kept()), (Ok(1), 0));
        entry.is_running = true;
        for id in 0..=MOST_RUNS {
            entry.id = id.to_string();
            assert_eq!(events(&entry), Ok(1));
        }
        assert_eq!(kept(), MOST_RUNS);
        // A session of another run is not shown.
        entry.sessions = vec!["b".into()];
        assert_eq!(events(&entry), Ok(0));
    }
}
