//! Finds the runs in the served folders from manifests and rollups, without reading events. Only
//! this module handles paths of runs; all other modules refer to a run by its id.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stormlog_analysis::catalog::FilesState;
use stormlog_analysis::listing::{self, ListedRun, RunsSeen};
use stormlog_analysis::timeline::Program;
use stormlog_analysis::{Pace, name_without_rank};
use stormlog_format::{SessionStatus, Text, part_folders};

use crate::machine::Machine;

/// The pause between two searches of the folders.
const PACE: Pace = Pace::new(Duration::from_secs(2), 10);
/// If the last search of the folders took less time than this limit, a request waits for a new
/// search; otherwise it gets the result of the last one.
const QUICK: Duration = Duration::from_millis(50);
/// How long a request for the list waits for the first search of the folders; after that the list
/// shows the runs found so far.
pub(crate) const FIRST_LIST: Duration = Duration::from_millis(100);
/// How long pages about one run and requests by programs wait for the first search of the folders.
/// They wait longer than the list, because their responses are not updated later.
pub(crate) const FIRST_WHOLE: Duration = Duration::from_secs(2);
/// During the first search, the list of runs is updated with the runs found so far: first after 50
/// milliseconds, and then each time the duration of the search has doubled.
const FIRST_SHOWN: Duration = Duration::from_millis(50);

/// The peak of a run in bytes, known exactly or only as an upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peak {
    Exact(i64),
    AtMost(i64),
}

/// A run in the list of runs, as the manifests of its recordings describe it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// The id of the run in URLs: a hash that does not reveal the path.
    pub(crate) id: String,
    /// The name of the run for people: the name of its folder or file.
    pub(crate) name: String,
    /// The artifacts to load. A sink inside another sink is not listed, because it is loaded with
    /// the outer sink.
    pub(crate) paths: Vec<PathBuf>,
    /// All folders and files of the run to which a recorder may still write. If one of them
    /// changes, the run has changed.
    pub(crate) watched: Vec<PathBuf>,
    /// The ids of the sessions in the artifacts that belong to this run; empty if no manifest lists
    /// sessions.
    pub(crate) sessions: Vec<Text>,
    pub(crate) is_running: bool,
    pub(crate) started_ns: Option<i64>,
    pub(crate) ended_ns: Option<i64>,
    pub(crate) ranks: usize,
    pub(crate) program: Program,
    pub(crate) job: Option<Text>,
    pub(crate) hosts: Vec<Text>,
    /// The highest memory use according to the rollups. For a device, this value includes all
    /// processes that use the device, so the peak of the run itself is at most this high.
    pub(crate) peak: Option<Peak>,
    pub(crate) oom_bundles: Vec<PathBuf>,
    pub(crate) stamp: FilesState,
}

impl Entry {
    /// The duration of the run until its end, or until the last write if it has not ended.
    pub(crate) fn duration_ns(&self) -> Option<i64> {
        let end = self.ended_ns.or(self.stamp.written_ns)?;
        Some(end.saturating_sub(self.started_ns?).max(0))
    }

    /// The start of the run, or its last write if the start is unknown; used for sorting.
    pub(crate) fn when_ns(&self) -> i64 {
        self.started_ns.or(self.stamp.written_ns).unwrap_or(0)
    }

    /// The current state of the run's files. The files are checked again if the run is still being
    /// recorded or if no manifest lists its sessions. For all other runs the state from the last
    /// search is returned: every change of an ended run also changes its manifests, which the
    /// search reads.
    pub(crate) fn state(&self) -> FilesState {
        if self.is_running || self.sessions.is_empty() {
            FilesState::of(&self.watched)
        } else {
            self.stamp
        }
    }

    fn of_run(run: ListedRun, roots: &[PathBuf]) -> Self {
        let is_running = run.status == SessionStatus::Running;
        let mut hasher = DefaultHasher::new();
        // The id in URLs is made from the key of the run and not from its directory, because the
        // directory changes when another rank or device begins to record.
        run.key.hash(&mut hasher);
        let id = format!("{:016x}", hasher.finish());
        for session in &run.sessions {
            (
                session.event_count,
                session.size_bytes,
                session.status.as_str(),
            )
                .hash(&mut hasher);
        }
        // The list of sinks contains each outer sink right before the sinks inside it. The inner
        // sinks are skipped, because they are loaded with the outer sink.
        let mut paths: Vec<PathBuf> = Vec::new();
        for sink in run.sinks() {
            if paths.last().is_none_or(|outer| !sink.starts_with(outer)) {
                paths.push(sink.to_path_buf());
            }
        }
        let peaks = run.peaks.as_ref();
        let mut entry = Self {
            id,
            watched: run.sinks().into_iter().map(Path::to_path_buf).collect(),
            name: name_of(folder_of(&run.directory, roots), roots),
            sessions: run
                .sessions
                .iter()
                .map(|one| one.summary.session_id.clone())
                .collect(),
            is_running,
            started_ns: Some(run.started_at_ns),
            ended_ns: run.ended_at_ns,
            ranks: run.ranks.len(),
            peak: peaks.and_then(|peaks| {
                let of_device = peaks.device_used_bytes.map(Peak::AtMost);
                of_device.or(peaks.host_used_bytes.map(Peak::Exact))
            }),
            program: run.program,
            job: run.job_id,
            hosts: run.hosts.into_iter().collect(),
            oom_bundles: run.oom_bundles,
            stamp: FilesState {
                value: hasher.finish(),
                written_ns: run.last_event_ns,
            },
            paths,
        };
        entry.stamp = entry.state();
        entry
    }

    /// Creates the entry of a run from artifacts without a manifest that lists sessions; the
    /// content of such artifacts is only known after loading.
    fn of_files(key: &Path, paths: Vec<PathBuf>, roots: &[PathBuf]) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let mut entry = Self {
            id: format!("{:016x}", hasher.finish()),
            name: name_of(key, roots),
            watched: paths.clone(),
            paths,
            ..Self::default()
        };
        entry.stamp = entry.state();
        entry
    }
}

/// All runs that one search of the folders found.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The runs, the newest first.
    pub(crate) runs: Vec<Arc<Entry>>,
    /// The folders and files that could not be read, and why.
    pub(crate) warnings: Vec<String>,
    /// A hash of the listing that changes when anything in the listing changes.
    pub(crate) value: u64,
    /// Whether the search was finished; otherwise the list contains the runs found so far.
    pub(crate) is_complete: bool,
}

impl Listing {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.runs.iter().find(|run| run.id == id).cloned()
    }

    /// The run that contains the session with this id, if a manifest lists it.
    pub(crate) fn of_session(&self, id: &Text) -> Option<&Arc<Entry>> {
        self.runs.iter().find(|run| run.sessions.contains(id))
    }

    fn of(seen: RunsSeen, roots: &[PathBuf], is_complete: bool) -> Self {
        let mut runs: Vec<Entry> = seen
            .runs
            .into_iter()
            .map(|run| Entry::of_run(run, roots))
            .collect();
        let mut files: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for path in seen.unlisted.into_iter().chain(seen.oom_bundles) {
            files
                .entry(path_without_rank(&path))
                .or_default()
                .push(path);
        }
        let files = files.into_iter();
        runs.extend(files.map(|(key, paths)| Entry::of_files(&key, paths, roots)));
        distinguish(&mut runs);
        runs.sort_by(|a, b| (b.when_ns(), &b.name).cmp(&(a.when_ns(), &a.name)));
        let mut hasher = DefaultHasher::new();
        is_complete.hash(&mut hasher);
        for run in &runs {
            (&run.id, run.stamp.value, run.is_running).hash(&mut hasher);
        }
        let refused = seen.refused.iter();
        Self {
            warnings: refused
                .map(|(path, why)| format!("{}: {why}", path.display()))
                .collect(),
            value: hasher.finish(),
            is_complete,
            runs: runs.into_iter().map(Arc::new).collect(),
        }
    }
}

/// The folder of the run that is recorded in a directory: the directory itself, or its parent if
/// the directory is only a part of the run, such as `rank-0` or `host`.
fn folder_of<'a>(directory: &'a Path, roots: &[PathBuf]) -> &'a Path {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let is_root = roots.iter().any(|root| root == directory);
    match directory.parent() {
        Some(parent) if part_folders::is_part(&name) && !is_root => parent,
        _ => directory,
    }
}

/// The path of a file without the number of its rank, so that the files of all ranks in one folder
/// get the same path.
fn path_without_rank(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let shared = name_without_rank(&name).filter(|_| path.is_file());
    shared.map_or_else(|| path.to_path_buf(), |shared| path.with_file_name(shared))
}

/// The part of a path below the served folder that contains it, as a name for people.
fn name_of(path: &Path, roots: &[PathBuf]) -> String {
    let below = roots.iter().filter_map(|root| path.strip_prefix(root).ok());
    let shortest = below.min_by_key(|rest| rest.as_os_str().len());
    match shortest.map(Path::to_string_lossy) {
        Some(rest) if !rest.is_empty() => rest.into_owned(),
        _ => {
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
            let name = whole.file_name().unwrap_or(path.as_os_str());
            name.to_string_lossy().into_owned()
        }
    }
}

/// Appends the start time to the names of runs that would otherwise have the same name.
fn distinguish(runs: &mut [Entry]) {
    let mut names: HashMap<String, usize> = HashMap::new();
    for run in &*runs {
        *names.entry(run.name.clone()).or_default() += 1;
    }
    for run in runs.iter_mut().filter(|run| names[&run.name] > 1) {
        if let Some(start) = run.started_ns {
            run.name = format!("{} ({})", run.name, stormlog_report::time::moment(start));
        }
    }
}

/// The last search of the served folders: what it has read from each folder, when the search ended
/// and how long it took.
struct LastSearch {
    catalog: listing::Listing,
    at: Option<Instant>,
    took: Duration,
}

/// Searches the served folders for runs, and keeps the result of the last search.
pub(crate) struct Runs {
    pub(crate) roots: Vec<PathBuf>,
    machine: Arc<dyn Machine>,
    known: Mutex<Arc<Listing>>,
    /// Wakes the waiting requests whenever a search has found more runs.
    news: Condvar,
    /// A lock that is held while the folders are searched, so that only one request searches at a
    /// time.
    search: Mutex<LastSearch>,
}

impl Runs {
    pub(crate) fn new(roots: Vec<PathBuf>, machine: Arc<dyn Machine>) -> Self {
        Self {
            machine,
            known: Mutex::default(),
            news: Condvar::new(),
            search: Mutex::new(LastSearch {
                catalog: listing::Listing::new(roots.clone()),
                at: None,
                took: Duration::ZERO,
            }),
            roots,
        }
    }

    /// The runs that the last search found; reads no files.
    pub(crate) fn known(&self) -> Arc<Listing> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&known)
    }

    /// Returns the known runs without a noticeable wait: the folders are searched again only if the
    /// last search was quick, otherwise its result is returned. If the folders are still being
    /// searched for the first time, the function waits for at most `first` and returns the runs
    /// found so far.
    pub(crate) fn at_once(&self, first: Duration) -> Arc<Listing> {
        let known = self.known_or_after(first, |listing| listing.is_complete);
        let is_quick = match self.search.try_lock() {
            Ok(search) => search.took < QUICK,
            Err(_) => false,
        };
        if known.is_complete && is_quick {
            self.look()
        } else {
            known
        }
    }

    /// Finds a run by its id. While the first search of the folders is in progress, the function
    /// waits up to two seconds for the search to find the run or to end.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        let is_known = |listing: &Listing| listing.is_complete || listing.find(id).is_some();
        let known = self.known_or_after(FIRST_WHOLE, is_known);
        known.find(id).or_else(|| self.look().find(id))
    }

    /// Waits for at most `wait` until the list of known runs fulfils a condition, and returns the
    /// list.
    fn known_or_after(&self, wait: Duration, is_enough: impl Fn(&Listing) -> bool) -> Arc<Listing> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .news
            .wait_timeout_while(known, wait, |known| !is_enough(known));
        Arc::clone(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Searches the folders for runs unless the last search is recent. If another thread is
    /// searching, returns the runs that are already known.
    pub(crate) fn look(&self) -> Arc<Listing> {
        let Ok(mut search) = self.search.try_lock() else {
            return self.known();
        };
        let pause = PACE.after(search.took);
        if search.at.is_some_and(|at| at.elapsed() < pause) {
            return self.known();
        }
        self.refresh(&mut search)
    }

    /// Searches the folders for the first time and then once more. The second search is faster,
    /// because the system has most files in its cache; the duration of this search determines how
    /// often the folders are searched.
    pub(crate) fn look_first(&self) {
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut search);
        self.refresh(&mut search);
    }

    fn refresh(&self, search: &mut LastSearch) -> Arc<Listing> {
        let begun = Instant::now();
        let mut shown_after = search.at.is_none().then_some(FIRST_SHOWN);
        let mut seen = RunsSeen::default();
        self.machine.surroundings(&mut |here| {
            seen = search.catalog.refresh_with(here, &mut |so_far| {
                if shown_after.is_none_or(|after| begun.elapsed() < after) {
                    return;
                }
                let so_far = RunsSeen {
                    runs: so_far.runs(),
                    ..RunsSeen::default()
                };
                self.publish(Listing::of(so_far, &self.roots, false));
                shown_after = Some(begun.elapsed() * 2);
            });
        });
        let listing = self.publish(Listing::of(seen, &self.roots, true));
        search.took = begun.elapsed();
        search.at = Some(Instant::now());
        listing
    }

    fn publish(&self, listing: Listing) -> Arc<Listing> {
        let listing = Arc::new(listing);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::clone(&listing);
        drop(known);
        self.news.notify_all();
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_ranks_belong_together() {
        let folder = tempfile::tempdir().unwrap();
        let shared = |name: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            let shared = path_without_rank(&file);
            shared.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(shared("rank-12.jsonl.gz"), "rank.jsonl.gz");
        // These numbers are no ranks, so the files are runs of their own.
        for name in ["crank3.jsonl", "events.local_rank1.jsonl", "events.json"] {
            assert_eq!(shared(name), name);
        }
    }

    #[test]
    fn names_are_short_and_differ() {
        let roots = [PathBuf::from("/runs")];
        assert_eq!(name_of(Path::new("/runs/a/b"), &roots), "a/b");
        assert_eq!(name_of(Path::new("/elsewhere/c"), &roots), "c");
        assert_eq!(
            folder_of(Path::new("/runs/a/host"), &roots),
            Path::new("/runs/a")
        );
        assert_eq!(
            folder_of(Path::new("/runs/a/host-rank-0000"), &roots),
            Path::new("/runs/a")
        );
        assert_eq!(
            folder_of(Path::new("/runs/hosts"), &roots),
            Path::new("/runs/hosts")
        );
        assert_eq!(folder_of(Path::new("/runs"), &roots), Path::new("/runs"));
        let entry = |start| Entry {
            name: "a".to_owned(),
            started_ns: Some(start),
            ..Entry::default()
        };
        let mut runs = [entry(0), entry(1_000_000_000)];
        distinguish(&mut runs);
        assert_ne!(runs[0].name, runs[1].name);
    }
}
