//! The issues of every served folder, which are searched for again when the list of runs changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stormlog_analysis::Pace;
use stormlog_analysis::issue::{Issue, IssueFilter};
use stormlog_analysis::query::Store;

use crate::runs::Runs;

/// The pause between two searches for issues; a search reads every recording.
const PACE: Pace = Pace::new(Duration::from_secs(5), 10);

/// The issues that the last search found in each served folder, without their states (open,
/// resolved, ignored), which are read from the folder's `issues.json` for every page.
#[derive(Default)]
pub(crate) struct FoundIssues {
    found: Mutex<Found>,
    /// A lock that is held while recordings are read, so that only one request reads them at a
    /// time.
    reading: Mutex<()>,
}

#[derive(Clone, Default)]
pub(crate) struct Found {
    pub(crate) folders: Vec<Arc<Vec<Issue>>>,
    /// The hash of the list of runs at the time of the search; a new hash means that the recordings
    /// have changed since then.
    listing: u64,
    pub(crate) at: Option<Instant>,
    took: Duration,
}

impl FoundIssues {
    pub(crate) fn get(&self) -> Found {
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Searches for issues again if the list of runs has changed and the last search is not recent.
    pub(crate) fn fill(&self, runs: &Runs) {
        let listing = runs.look().value;
        let is_fresh = || {
            let found = self.get();
            let pause = PACE.after(found.took);
            found
                .at
                .is_some_and(|at| found.listing == listing || at.elapsed() < pause)
        };
        if is_fresh() {
            return;
        }
        let _one_at_a_time = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if is_fresh() {
            return;
        }
        let begun = Instant::now();
        let folders = runs.roots.iter().map(|root| {
            let store = Store::open(std::slice::from_ref(root));
            let issues = store.issues_with_findings(&IssueFilter::default(), &HashMap::new());
            Arc::new(issues)
        });
        let found = Found {
            folders: folders.collect(),
            listing,
            took: begun.elapsed(),
            at: Some(Instant::now()),
        };
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}
