//! Makes a digest of each run for the list of runs: the facts that its manifests do not contain
//! (verdict, peak, limit, a small curve). A background thread reads the runs one after another,
//! beginning with the runs that a page shows, and only while a page is open.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stormlog_analysis::Pace;
use stormlog_analysis::pack::is_pack;
use stormlog_analysis::timeline::End;

use crate::live::LiveRuns;
use crate::machine::Machine;
use crate::runs::Entry;
use crate::view::{Verdict, View};

/// The number of points in the small memory curve that the list shows for each run.
const POINTS: usize = 48;
/// The pause between two reads of a run that is being recorded.
const PACE: Pace = Pace::new(Duration::from_secs(5), 10);
/// The largest number of runs that wait to be read. A run that was dropped from the full queue is
/// queued again when the list shows it.
const MOST_WAITING: usize = 4096;
/// How long the thread continues to read runs after the last request for a page. A page without
/// scripts has no event stream, so only its request shows that it is open.
const ATTENTION: Duration = Duration::from_secs(5);

/// Facts about a run for the list of runs that are only known after its recordings were loaded,
/// such as the verdict and the peak.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    pub(crate) verdict: Option<Verdict>,
    pub(crate) end: End,
    pub(crate) is_running: bool,
    pub(crate) peak: Option<i64>,
    pub(crate) limit: Option<i64>,
    /// The curve of the run ([`Story::curve`]): what the leading finding is about, otherwise the
    /// memory of the process, of the rank that uses the most at that time; `None` where no value is
    /// known.
    pub(crate) curve: Vec<Option<i64>>,
    /// The lower end of the axis of the curve.
    pub(crate) curve_low: i64,
    pub(crate) span_ns: Option<(i64, i64)>,
    pub(crate) ranks: usize,
    /// Why the run could not be read; all other facts are then unknown.
    pub(crate) error: Option<String>,
}

impl Digest {
    pub(crate) fn of(view: &View) -> Self {
        let story = &view.story;
        let span = view.run.span_ns();
        let drawn = span.map(|span| story.curve(span, POINTS));
        let low = drawn.as_ref().map_or(0, |curve| curve.low);
        let curve = drawn.map_or_else(Vec::new, |curve| curve.columns);
        let high = |column: Option<(i64, i64)>| Some(column?.1).filter(|high| *high >= low);
        let curve = curve.into_iter().map(high).collect();
        let coverage = view.run.by_rank();
        Self {
            verdict: Some(view.verdict()),
            end: view.run.end(),
            is_running: view.is_running,
            peak: story.peak(&coverage),
            limit: coverage
                .iter()
                .filter_map(|rank| rank.device_total_bytes)
                .max(),
            curve,
            curve_low: low,
            span_ns: span,
            ranks: coverage.len(),
            error: None,
        }
    }
}

struct Kept {
    digest: Arc<Digest>,
    stamp: u64,
    at: Instant,
    took: Duration,
}

#[derive(Default)]
struct State {
    kept: HashMap<String, Kept>,
    waiting: VecDeque<Arc<Entry>>,
    /// When a list of runs last requested digests of the runs that it shows.
    asked: Option<Instant>,
}

/// The digests of all runs that were read so far, and the queue of runs that a thread reads next.
pub(crate) struct Digests {
    state: Mutex<State>,
    wake: Condvar,
    stop: AtomicBool,
    /// Counts the digests that were made, so that a page notices when there are new ones.
    made: AtomicU64,
    /// The number of event streams (server-sent events) that are open; each visible page has one.
    pub(crate) streams: AtomicUsize,
    live: Arc<LiveRuns>,
}

impl Digests {
    /// Starts the thread that makes digests. The thread ends when [`Digests::stop`] is called.
    pub(crate) fn start(
        machine: Arc<dyn Machine>,
        live: Arc<LiveRuns>,
    ) -> std::io::Result<Arc<Self>> {
        let digests = Arc::new(Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            made: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            live,
        });
        let for_thread = Arc::clone(&digests);
        std::thread::Builder::new()
            .name("stormlog-digest".to_owned())
            .spawn(move || for_thread.work(&*machine))?;
        Ok(digests)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake.notify_all();
    }

    /// How many digests were made since the server started; a page that sees a new number loads the
    /// list again.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// The last digest of a run, even if the files of the run have changed since.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Digest>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept.get(id).map(|kept| Arc::clone(&kept.digest))
    }

    /// Requests digests for runs that a page shows, if they are missing or old; these runs are read
    /// before those that were requested earlier.
    pub(crate) fn want(&self, entries: &[&Arc<Entry>]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // No digests are made of packs: reading a pack unpacks it to disk, which is only done when
        // a reader opens the run.
        let is_read = |entry: &&&Arc<Entry>| !entry.paths.iter().any(|path| is_pack(path));
        for &entry in entries.iter().rev().filter(is_read) {
            let is_due = match state.kept.get(&entry.id) {
                None => true,
                Some(kept) if kept.stamp == entry.stamp.value => {
                    // When a recorded process is killed, the status of the run changes but its
                    // files do not, so the status is compared too.
                    kept.digest.is_running != entry.is_running
                }
                Some(kept) => kept.at.elapsed() > PACE.after(kept.took),
            };
            if is_due {
                state.waiting.retain(|other| other.id != entry.id);
                state.waiting.push_front(Arc::clone(entry));
            }
        }
        state.waiting.truncate(MOST_WAITING);
        state.asked = Some(Instant::now());
        drop(state);
        self.wake.notify_one();
    }

    /// Removes the digests of all runs except the given ones, which are all runs that still exist.
    pub(crate) fn keep(&self, entries: &[Arc<Entry>]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.kept.len() <= entries.len() {
            return;
        }
        let known: std::collections::HashSet<&str> =
            entries.iter().map(|one| one.id.as_str()).collect();
        state.kept.retain(|id, _| known.contains(id.as_str()));
    }

    /// Stores the digest of a run that was just loaded. `took` is how long the loading took; the
    /// longer it took, the less often the run is read again.
    pub(crate) fn put(&self, entry: &Entry, digest: Digest, took: Duration) {
        let kept = Kept {
            digest: Arc::new(digest),
            stamp: entry.stamp.value,
            at: Instant::now(),
            took,
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept.insert(entry.id.clone(), kept);
        drop(state);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    fn next(&self) -> Option<Arc<Entry>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(entry) = self.wanted(&mut state) {
                return Some(entry);
            }
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the next run to read from the queue; returns `None` while no page is open.
    fn wanted(&self, state: &mut State) -> Option<Arc<Entry>> {
        let is_open = self.streams.load(Ordering::SeqCst) > 0;
        let was_asked = state.asked.is_some_and(|at| at.elapsed() < ATTENTION);
        let is_seen = is_open || was_asked;
        is_seen.then(|| state.waiting.pop_front())?
    }

    fn work(&self, machine: &dyn Machine) {
        while let Some(entry) = self.next() {
            let begun = Instant::now();
            let digest = match View::load(&entry, machine, &self.live) {
                Ok(view) => Digest::of(&view),
                Err(error) => Digest {
                    error: Some(error),
                    is_running: entry.is_running,
                    ..Digest::default()
                },
            };
            self.put(&entry, digest, begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_while_no_page_is_open() {
        let digests = Digests {
            state: Mutex::default(),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            made: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            live: Arc::default(),
        };
        let run = Arc::new(Entry::default());
        let waiting = || {
            let waiting = [&run, &run, &run].map(Arc::clone);
            State {
                waiting: waiting.into(),
                ..State::default()
            }
        };
        assert!(digests.wanted(&mut waiting()).is_none());
        let mut asked = waiting();
        asked.asked = Some(Instant::now());
        assert!(digests.wanted(&mut asked).is_some());
        asked.asked = Instant::now().checked_sub(2 * ATTENTION);
        assert!(digests.wanted(&mut asked).is_none());
        digests.streams.store(1, Ordering::SeqCst);
        assert!(digests.wanted(&mut waiting()).is_some());
    }
}
