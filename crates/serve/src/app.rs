//! The state that all pages of `stormlog serve` share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stormlog_analysis::Loaded;
use stormlog_export::Recordings;

use crate::digest::{Digest, Digests};
use crate::error::ServeError;
use crate::found_issues::FoundIssues;
use crate::live::LiveRuns;
use crate::machine::Machine;
use crate::runs::{Entry, Runs};
use crate::stopping::Stopping;
use crate::view::View;

/// The limits of the cache of drawings: the number of bytes of all drawings together, and the
/// number of drawings.
const MOST_KEPT_BYTES: usize = 64 << 20;
const MOST_KEPT: usize = 16;

/// The state of the server, which the handlers of all requests share.
pub(crate) struct App {
    pub(crate) runs: Runs,
    pub(crate) digests: Arc<Digests>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) stopping: Stopping,
    pub(crate) live: Arc<LiveRuns>,
    /// What is remembered from one request for metrics to the next: the ids of devices, which only
    /// the first event of a session contains.
    pub(crate) numbers: Mutex<Recordings>,
    pub(crate) issues: FoundIssues,
    kept: Mutex<VecDeque<Kept>>,
    /// A lock that is held while a run is loaded for a page, because loading two runs at once would
    /// need twice the memory.
    loading: Mutex<()>,
}

/// A cached response, which is valid as long as the files of its run have not changed. `state` is a
/// hash that identifies the state of the files when the response was made.
struct Kept {
    key: String,
    state: u64,
    text: Arc<str>,
}

impl App {
    /// Starts the threads that read runs for the list and that search the folders for the first
    /// time, so that the first page does not have to wait for the search.
    pub(crate) fn start(
        folders: Vec<PathBuf>,
        machine: Arc<dyn Machine>,
        stopping: Stopping,
    ) -> Result<Arc<Self>, ServeError> {
        let live = Arc::<LiveRuns>::default();
        let digests = Digests::start(Arc::clone(&machine), Arc::clone(&live));
        let app = Arc::new(Self {
            runs: Runs::new(folders, Arc::clone(&machine)),
            digests: digests.map_err(ServeError::Threads)?,
            machine,
            stopping,
            live,
            numbers: Mutex::default(),
            issues: FoundIssues::default(),
            kept: Mutex::default(),
            loading: Mutex::default(),
        });
        let first = Arc::clone(&app);
        std::thread::Builder::new()
            .name("stormlog-look".to_owned())
            .spawn(move || first.runs.look_first())
            .map_err(ServeError::Threads)?;
        Ok(app)
    }

    /// Returns the cached response for a state of a run's files, or makes a new response. When
    /// several requests need the same response at the same time, the first request makes the
    /// response and the other requests wait.
    pub(crate) fn kept_or(
        &self,
        key: &str,
        state: u64,
        make: impl FnOnce() -> Result<String, String>,
    ) -> Result<Arc<str>, String> {
        let find = || {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let mut kept = kept.iter();
            let one = kept.find(|one| one.key == key && one.state == state);
            one.map(|one| Arc::clone(&one.text))
        };
        if let Some(text) = find() {
            return Ok(text);
        }
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = find() {
            return Ok(text);
        }
        let text: Arc<str> = make()?.into();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| one.key != key);
        kept.push_front(Kept {
            key: key.to_owned(),
            state,
            text: Arc::clone(&text),
        });
        let bytes = |kept: &VecDeque<Kept>| kept.iter().map(|one| one.text.len()).sum::<usize>();
        while kept.len() > MOST_KEPT || (kept.len() > 1 && bytes(&kept) > MOST_KEPT_BYTES) {
            kept.pop_back();
        }
        Ok(text)
    }

    /// Loads a run for a page, and stores its digest (verdict, peak and other facts) for the list
    /// of runs.
    pub(crate) fn load(&self, entry: &Entry) -> Result<View, String> {
        let (view, ()) = self.load_with(entry, |_| Ok(()))?;
        Ok(view)
    }

    /// Like [`load`](Self::load), but also returns what `look` computes from the recordings of the
    /// run before they are dropped from memory.
    pub(crate) fn load_with<T>(
        &self,
        entry: &Entry,
        look: impl FnOnce(&[Loaded]) -> Result<T, String>,
    ) -> Result<(View, T), String> {
        let begun = Instant::now();
        let (view, looked) = self.live.with(entry, &*self.machine, |run| {
            let looked = look(run.loaded())?;
            Ok((View::of(run.diagnosed()), looked))
        })?;
        self.digests.put(entry, Digest::of(&view), begun.elapsed());
        Ok((view, looked))
    }

    /// Finds a run by its id in URLs; `stamp` in the result is the current state of the run's
    /// files.
    pub(crate) fn entry(&self, id: &str) -> Option<Entry> {
        let mut entry = Entry::clone(&*self.runs.find(id)?);
        entry.stamp = entry.state();
        Some(entry)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.digests.stop();
    }
}
