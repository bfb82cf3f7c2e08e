//! Which runs there are: found by their manifests, without reading events. The only place that
//! knows the folders; everything else asks for a run by its id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stormlog_analysis::{find_artifacts, manifest_path, read_manifest};
use stormlog_format::{SessionStatus, SessionSummary, Text};

use crate::machine::Machine;
use crate::stamp::Stamp;

/// The folders are looked through at most this often, and at most for a tenth of the time.
const LEAST_INTERVAL: Duration = Duration::from_secs(2);
const SHARE: u32 = 10;
/// A look that takes less than this does not keep a reader waiting.
const QUICK: Duration = Duration::from_millis(50);

/// The folders that are served.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// As the user named it.
    pub(crate) path: PathBuf,
}

/// A run as its manifests describe it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name in addresses: a hash of where the run lies.
    pub(crate) id: String,
    /// What people call it: its folder or file.
    pub(crate) name: String,
    /// The artifacts to load; sinks inside a sink are loaded with it.
    pub(crate) load: Vec<PathBuf>,
    /// All artifacts.
    pub(crate) artifacts: Vec<PathBuf>,
    pub(crate) sessions: Vec<SessionSummary>,
    pub(crate) is_running: bool,
    pub(crate) started_ns: Option<i64>,
    pub(crate) stamp: Stamp,
}

impl Entry {
    /// The ranks that have sessions.
    pub(crate) fn ranks(&self) -> usize {
        let ranks: BTreeSet<i64> = self.sessions.iter().map(|one| one.rank).collect();
        ranks.len()
    }

    /// How long it took, or has taken so far.
    pub(crate) fn duration_ns(&self) -> Option<i64> {
        let start = self.started_ns?;
        let ends = self.sessions.iter().filter_map(|one| one.ended_at_ns);
        let end = if self.is_running {
            self.stamp.written_ns
        } else {
            ends.max().or(self.stamp.written_ns)
        };
        end.map(|end| end.saturating_sub(start).max(0))
    }

    /// When it began, as far as that is known; for sorting.
    pub(crate) fn when_ns(&self) -> i64 {
        self.started_ns.or(self.stamp.written_ns).unwrap_or(0)
    }
}

/// The runs at one moment.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The newest first.
    pub(crate) runs: Vec<Arc<Entry>>,
    /// Folders that could not be read, and why.
    pub(crate) warnings: Vec<String>,
    /// Differs when anything in it differs.
    pub(crate) value: u64,
}

impl Listing {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.runs.iter().find(|run| run.id == id).cloned()
    }

    /// The run that a session belongs to.
    pub(crate) fn of_session(&self, id: &str) -> Option<&Arc<Entry>> {
        let has = |run: &&Arc<Entry>| run.sessions.iter().any(|one| one.session_id == id);
        self.runs.iter().find(has)
    }
}

/// A manifest that was read, and the state of the file then.
type Known = HashMap<PathBuf, (u64, Vec<SessionSummary>)>;

#[derive(Default)]
struct Looked {
    listing: Arc<Listing>,
    at: Option<Instant>,
    took: Duration,
    manifests: Known,
}

/// The runs under the roots.
pub(crate) struct Runs {
    pub(crate) roots: Vec<Root>,
    machine: Arc<dyn Machine>,
    looked: Mutex<Arc<Listing>>,
    /// Held while the folders are looked through, so that one reader does it for all.
    looking: Mutex<Looked>,
}

impl Runs {
    pub(crate) fn new(paths: Vec<PathBuf>, machine: Arc<dyn Machine>) -> Self {
        Self {
            roots: paths.into_iter().map(|path| Root { path }).collect(),
            machine,
            looked: Mutex::default(),
            looking: Mutex::default(),
        }
    }

    /// The runs as they were when last looked at; costs nothing.
    pub(crate) fn known(&self) -> Arc<Listing> {
        let known = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&known)
    }

    /// The runs without a wait that a reader would notice: looked up where that is quick, else as
    /// they were. Only the first reader waits for the first look.
    pub(crate) fn at_once(&self) -> Arc<Listing> {
        let is_quick = match self.looking.try_lock() {
            Ok(state) => state.at.is_none() || state.took < QUICK,
            Err(_) => false,
        };
        let known = self.known();
        match (is_quick, known.runs.is_empty()) {
            (true, _) => self.look(),
            (false, true) => self.look_whole(),
            (false, false) => known,
        }
    }

    /// Looks through the folders, or waits for the thread that does.
    pub(crate) fn look_whole(&self) -> Arc<Listing> {
        drop(self.looking.lock().unwrap_or_else(PoisonError::into_inner));
        self.look()
    }

    /// Looks through the folders unless that was done a moment ago. While another thread does it,
    /// what is known is returned.
    pub(crate) fn look(&self) -> Arc<Listing> {
        let Ok(mut state) = self.looking.try_lock() else {
            return self.known();
        };
        let interval = LEAST_INTERVAL.max(state.took * SHARE);
        if state.at.is_some_and(|at| at.elapsed() < interval) {
            return Arc::clone(&state.listing);
        }
        let begun = Instant::now();
        let known = std::mem::take(&mut state.manifests);
        let (listing, manifests) = self.scan(&known);
        state.listing = Arc::new(listing);
        state.manifests = manifests;
        state.took = begun.elapsed();
        state.at = Some(Instant::now());
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&state.listing);
        Arc::clone(&state.listing)
    }

    fn scan(&self, known: &Known) -> (Listing, Known) {
        let mut manifests = Known::new();
        let mut groups: BTreeMap<(usize, PathBuf), Vec<PathBuf>> = BTreeMap::new();
        let mut warnings = Vec::new();
        for (place, root) in self.roots.iter().enumerate() {
            match find_artifacts(&root.path) {
                Ok(found) => {
                    for path in found.paths {
                        let folder = folder_of_run(&path, &root.path);
                        groups.entry((place, folder)).or_default().push(path);
                    }
                    let refused = found.refused.iter();
                    warnings.extend(
                        refused.map(|one| format!("{}: {}", one.file.display(), one.reason)),
                    );
                }
                // A folder in which nothing was recorded yet.
                Err(_) if root.path.is_dir() => {}
                Err(error) => warnings.push(format!("{}: {error}", root.path.display())),
            }
        }
        let mut runs: Vec<Entry> = Vec::new();
        let mut jobs: HashMap<(usize, Text), Vec<usize>> = HashMap::new();
        for ((root, folder), artifacts) in groups {
            let entry = self.entry(root, &folder, artifacts, known, &mut manifests);
            let Some(job) = job_of(&entry) else {
                runs.push(entry);
                continue;
            };
            let same = jobs.entry((root, job)).or_default();
            // A rank that is there twice was started again, which is another run.
            match same
                .iter()
                .find(|&&place| have_no_rank_twice(&runs[place], &entry))
            {
                Some(&place) => join(&mut runs[place], entry),
                None => {
                    same.push(runs.len());
                    runs.push(entry);
                }
            }
        }
        runs.sort_by(|a, b| (b.when_ns(), &b.name).cmp(&(a.when_ns(), &a.name)));
        let mut hasher = DefaultHasher::new();
        for run in &runs {
            (&run.id, run.stamp.value, run.is_running).hash(&mut hasher);
        }
        let listing = Listing {
            runs: runs.into_iter().map(Arc::new).collect(),
            warnings,
            value: hasher.finish(),
        };
        (listing, manifests)
    }

    fn entry(
        &self,
        root: usize,
        folder: &Path,
        artifacts: Vec<PathBuf>,
        known: &Known,
        manifests: &mut Known,
    ) -> Entry {
        let stamp = Stamp::of(&artifacts);
        let mut sessions = Vec::new();
        for artifact in &artifacts {
            let Some(file) = manifest_path(artifact) else {
                continue;
            };
            let state = Stamp::of([&file]).value;
            let read = match known.get(&file) {
                Some((then, sessions)) if *then == state => sessions.clone(),
                _ => read_manifest(&file).map_or_else(Vec::new, |manifest| manifest.sessions),
            };
            sessions.extend(read.iter().cloned());
            manifests.insert(file, (state, read));
        }
        let now = |one: &SessionSummary| self.machine.status(one, stamp.written_ns);
        let mut open = sessions
            .iter()
            .filter(|one| one.status == SessionStatus::Running);
        let is_running = open.any(|one| now(one) == SessionStatus::Running);
        let base = &self.roots[root].path;
        let name = folder.strip_prefix(base).unwrap_or(folder);
        let name = match name.to_string_lossy() {
            name if name.is_empty() => {
                let whole = base.canonicalize().unwrap_or_else(|_| base.clone());
                whole.file_name().map_or_else(
                    || base.to_string_lossy().into_owned(),
                    |name| name.to_string_lossy().into_owned(),
                )
            }
            name => name.into_owned(),
        };
        // A sink comes right before the sinks inside it.
        let mut load: Vec<PathBuf> = Vec::new();
        for path in &artifacts {
            if load.last().is_none_or(|outer| !path.starts_with(outer)) {
                load.push(path.clone());
            }
        }
        Entry {
            id: id_of(root, folder),
            name,
            load,
            is_running,
            started_ns: sessions.iter().map(|one| one.started_at_ns).min(),
            artifacts,
            sessions,
            stamp,
        }
    }
}

/// A name in addresses that does not carry the path itself.
fn id_of(root: usize, folder: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    (root, folder).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The folder that stands for a run: sinks of ranks, devices and the host lie inside it, bundles
/// in `oom_dumps`. Files of ranks in one folder belong together too.
fn folder_of_run(artifact: &Path, root: &Path) -> PathBuf {
    let mut folder = artifact.to_path_buf();
    if folder == root {
        return folder;
    }
    if artifact.is_file() {
        let name = artifact.file_name().unwrap_or_default().to_string_lossy();
        return match without_rank(&name) {
            Some(shared) => artifact.with_file_name(shared),
            None => folder,
        };
    }
    if let Some(dumps) = folder.parent().filter(|it| it.ends_with("oom_dumps"))
        && let Some(run) = dumps.parent().filter(|run| run.starts_with(root))
    {
        folder = run.to_path_buf();
    }
    while folder != root && is_part_of_run(&folder) {
        let Some(parent) = folder.parent() else {
            break;
        };
        folder = parent.to_path_buf();
    }
    folder
}

/// Whether a folder has a name that a recorder gives to a part of a run.
fn is_part_of_run(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix);
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    name == "host" || ["gpu-", "rank-", "pid-"].into_iter().any(numbered)
}

/// The name of a file without the number of its rank.
fn without_rank(name: &str) -> Option<String> {
    let at = name.find("rank")? + "rank".len();
    let (before, after) = name.split_at(at);
    let after = after.trim_start_matches(['-', '_']);
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < after.len()).then(|| format!("{before}{rest}"))
}

/// The job of a run, where it has a name.
fn job_of(entry: &Entry) -> Option<Text> {
    let mut jobs = entry.sessions.iter().filter_map(|one| one.job_id.as_ref());
    // The name that torchrun gives to a job without one.
    let job = jobs.find(|job| !job.as_bytes().is_empty() && **job != "none");
    job.cloned()
}

fn have_no_rank_twice(one: &Entry, other: &Entry) -> bool {
    let ranks: BTreeSet<i64> = one.sessions.iter().map(|one| one.rank).collect();
    !other.sessions.iter().any(|one| ranks.contains(&one.rank))
}

fn join(one: &mut Entry, other: Entry) {
    one.load.extend(other.load);
    one.artifacts.extend(other.artifacts);
    one.sessions.extend(other.sessions);
    one.is_running |= other.is_running;
    one.started_ns = match (one.started_ns, other.started_ns) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    one.stamp = Stamp::of(&one.artifacts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_run_belong_to_its_folder() {
        let root = Path::new("/runs");
        let of = |path: &str| folder_of_run(Path::new(path), root);
        for part in [
            "host",
            "gpu-1",
            "rank-0003",
            "rank-0003/host",
            "oom_dumps/oom_1",
        ] {
            assert_eq!(
                of(&format!("/runs/a/{part}")),
                Path::new("/runs/a"),
                "{part}"
            );
        }
        assert_eq!(of("/runs/host-tests"), Path::new("/runs/host-tests"));
        assert_eq!(of("/runs/rank-x"), Path::new("/runs/rank-x"));
        assert_eq!(of("/runs/rank-1"), Path::new("/runs"));
        assert_eq!(of("/runs"), Path::new("/runs"));
    }

    #[test]
    fn files_of_ranks_belong_together() {
        assert_eq!(
            without_rank("events_rank0.jsonl").as_deref(),
            Some("events_rank.jsonl")
        );
        assert_eq!(
            without_rank("rank-12.jsonl.gz").as_deref(),
            Some("rank.jsonl.gz")
        );
        assert_eq!(without_rank("ranking.json"), None);
        assert_eq!(without_rank("events.json"), None);
    }
}
