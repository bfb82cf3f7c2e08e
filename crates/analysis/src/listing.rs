//! Lists the runs below the given directories from their manifests and rollups, cheaply enough for
//! one refresh per second.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use stormlog_format::{Manifest, SessionStatus, SessionSummary, SinkNames, Text, file_names};

use crate::catalog::{
    Directory, Place, Scope, Shape, first_events, holding_folder, last_time_in, newest_segments,
    settled, tidy, walk_with,
};
use crate::liveness::{Surroundings, effective_status};
use crate::rollups::read_totals;
use crate::stamp::Stamp;
use crate::timeline::{GroupedBy, Program, Start, group};

/// A directory or file that changed within this time before it was read is read again at the next
/// refresh, because a second change may get the same modification time.
const UNSETTLED_NS: i64 = 2_000_000_000;

/// The highest memory use of a session or run, from the rollups of its sinks (a file with summaries
/// of the events).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunPeaks {
    /// Highest number of bytes allocated by a device's allocator.
    pub allocated_bytes: Option<i64>,
    /// Highest number of bytes reserved by a device's allocator.
    pub reserved_bytes: Option<i64>,
    /// Highest number of bytes in use on a device.
    pub device_used_bytes: Option<i64>,
    /// Highest number of bytes of host memory in use.
    pub host_used_bytes: Option<i64>,
}

impl RunPeaks {
    fn highest(self, other: Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.max(other.allocated_bytes),
            reserved_bytes: self.reserved_bytes.max(other.reserved_bytes),
            device_used_bytes: self.device_used_bytes.max(other.device_used_bytes),
            host_used_bytes: self.host_used_bytes.max(other.host_used_bytes),
        }
    }
}

/// A session (the recording of one process) as the manifest of its sink describes it.
#[derive(Clone, Debug)]
pub struct ListedSession {
    /// The session's entry in the manifest, such as its id, start time and rank.
    pub summary: SessionSummary,
    /// The current status of the session; the manifest's status is outdated when the process was
    /// killed.
    pub status: SessionStatus,
    /// The directory of the sink that holds the session's events.
    pub sink: PathBuf,
    /// Number of the session's events according to the manifest.
    pub event_count: i64,
    /// Size of the session's segments (files of events) in bytes, according to the manifest.
    pub size_bytes: i64,
    /// The device of the session's first event, -1 for host memory; `None` if that event was
    /// deleted.
    pub device_id: Option<i64>,
    /// The session's highest memory use, if the sink has rollups that match its manifest.
    pub peaks: Option<RunPeaks>,
}

/// A run as the manifests and rollups of its sinks describe it, without its events.
#[derive(Clone, Debug)]
pub struct ListedRun {
    /// Distinguishes the run from other listed runs, and does not change between listings: the
    /// recorded id of the run, or else the id of its first session. The attempts of a job are runs
    /// with the same job id, so the key is not always the id of the run
    /// ([`id_of_run`](crate::timeline::id_of_run)).
    pub key: Text,
    /// The deepest directory that contains all sinks of the run.
    pub directory: PathBuf,
    /// The run's status. When its sessions have different statuses, running takes precedence, then
    /// incomplete, then interrupted, then completed.
    pub status: SessionStatus,
    /// Start time of the run's first session, in nanoseconds since 1970.
    pub started_at_ns: i64,
    /// End time of the run's last session; `None` while the run continues or when the end of a
    /// session is unknown.
    pub ended_at_ns: Option<i64>,
    /// Time of the last event of the sessions of the run that were not closed; `None` if all
    /// sessions were closed.
    pub last_event_ns: Option<i64>,
    /// The id that the scheduler gave the job, if any session recorded one.
    pub job_id: Option<Text>,
    /// The program and its command line, if `stormlog run` recorded them.
    pub program: Program,
    /// Names of the hosts of the run, sorted.
    pub hosts: BTreeSet<Text>,
    /// The ranks of the run's sessions.
    pub ranks: BTreeSet<i64>,
    /// The number of ranks that the job declares, the highest value of all sessions.
    pub world_size: i64,
    /// The run's sessions, the earliest first.
    pub sessions: Vec<ListedSession>,
    /// The highest values over all sessions; `None` unless all sessions of the run have rollups.
    pub peaks: Option<RunPeaks>,
    /// The OOM bundles of the run: directories with files about its out-of-memory errors.
    pub oom_bundles: Vec<PathBuf>,
}

impl ListedRun {
    /// The directories of the run's sinks, to load or to pass to a [`Follower`](crate::catalog::Follower).
    pub fn sinks(&self) -> BTreeSet<&Path> {
        self.sessions
            .iter()
            .map(|session| session.sink.as_path())
            .collect()
    }
}

/// What [`Listing::refresh`] found below the given paths.
#[derive(Clone, Debug, Default)]
pub struct RunsSeen {
    /// The runs, sorted by start time, the newest first.
    pub runs: Vec<ListedRun>,
    /// Artifacts whose sessions no manifest lists: files, bundles, packs, and sinks whose manifest
    /// is missing or lists no sessions. Their sessions are known only after loading them.
    pub unlisted: Vec<PathBuf>,
    /// OOM bundles that belong to no listed run.
    pub oom_bundles: Vec<PathBuf>,
    /// Paths that could not be read, each with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// Lists the runs below the given directories repeatedly.
///
/// Directories, manifests and rollups are read only when they have changed; otherwise a refresh
/// costs a few `stat` calls per directory. Of all events, only the first ones of a session are
/// read, once, for the run's id and command line, and the last event of each session that was not
/// closed, at each refresh. Memory is bounded by the size of the manifests.
///
/// ```no_run
/// # use stormlog_analysis::query::Surroundings;
/// # fn list(here: &Surroundings<'_>) {
/// use stormlog_analysis::listing::Listing;
///
/// let mut listing = Listing::new(vec!["runs".into()]);
/// for run in listing.refresh(here).runs {
///     assert!(!run.sessions.is_empty());
/// }
/// # }
/// ```
pub struct Listing {
    roots: Vec<PathBuf>,
    scope: Scope,
    known: HashMap<PathBuf, Known>,
}

/// What the last refresh has read from a directory.
struct Known {
    /// The state of the directory and its files at that refresh; empty if the next refresh must
    /// read the directory again.
    stamps: Vec<Stamp>,
    /// The directory, without the content of its manifests, to save memory.
    directory: Directory,
    sink: Option<Arc<Sink>>,
    /// The session that the directory's manifest names, if the directory is an OOM bundle.
    bundle_session: Option<Text>,
}

/// What a listing needs from the manifest and rollups of a sink.
struct Sink {
    sessions: Vec<SessionInSink>,
}

struct SessionInSink {
    summary: SessionSummary,
    event_count: i64,
    size_bytes: i64,
    start: Option<Arc<Start>>,
    peaks: Option<RunPeaks>,
    /// The segments that may hold the session's last event, if the session was not closed.
    newest_segments: Vec<PathBuf>,
}

/// The intermediate result of a [`Listing::refresh_with`] that has not read all directories yet.
pub struct SoFar<'a> {
    known: &'a HashMap<PathBuf, Known>,
    here: &'a Surroundings<'a>,
}

impl SoFar<'_> {
    /// The runs found so far, without their OOM bundles; some sinks of a run may be missing.
    pub fn runs(&self) -> Vec<ListedRun> {
        let sinks = self.known.iter().filter_map(|(path, known)| {
            let sink = known.sink.as_ref()?;
            Some((path.clone(), Arc::clone(sink)))
        });
        let mut sinks: Vec<(PathBuf, Arc<Sink>)> = sinks.collect();
        sinks.sort_by(|a, b| a.0.cmp(&b.0));
        runs_of(&sinks, &mut HashMap::new(), self.here)
    }
}

impl Listing {
    /// Creates a listing of the runs below the given paths. Nothing is read before the first
    /// refresh.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            scope: Scope::Everything,
            known: HashMap::new(),
        }
    }

    /// Creates a listing of the runs that were recorded into the given sinks and the sinks directly
    /// in them. Other directories below the sinks, such as those of OOM bundles, are not searched.
    pub fn of_sinks(sinks: Vec<PathBuf>) -> Self {
        Self {
            scope: Scope::Recordings,
            ..Self::new(sinks)
        }
    }

    /// Lists the runs. Only directories that have changed since the last refresh are read.
    pub fn refresh(&mut self, here: &Surroundings<'_>) -> RunsSeen {
        self.refresh_with(here, &mut |_| {})
    }

    /// Like [`refresh`](Self::refresh), but calls `so_far` after each directory with the runs found
    /// so far, because the first refresh of many directories takes a while.
    pub fn refresh_with(
        &mut self,
        here: &Surroundings<'_>,
        so_far: &mut dyn FnMut(&SoFar<'_>),
    ) -> RunsSeen {
        let roots: Vec<PathBuf> = self
            .roots
            .iter()
            .filter_map(|root| holding_folder(root))
            .collect();
        let mut seen = RunsSeen::default();
        let mut visited = HashSet::new();
        let mut sinks: Vec<(PathBuf, Arc<Sink>)> = Vec::new();
        let mut bundles: HashMap<Text, Vec<PathBuf>> = HashMap::new();
        for root in self.roots.clone() {
            let root = tidy(&root);
            if !root.is_dir() {
                if root.exists() {
                    seen.unlisted.push(root);
                } else {
                    seen.refused.push((root, "path does not exist".into()));
                }
                continue;
            }
            let known = &mut self.known;
            let mut read = |path: &Path| {
                let directory = cached_or_read(known, path, &roots, here.now_ns);
                so_far(&SoFar {
                    known: &*known,
                    here,
                });
                directory
            };
            for (directory, place) in walk_with(&root, self.scope, &mut read) {
                let refused = directory.refused.iter();
                let refused = refused.map(|(file, why)| (file.clone(), why.to_string()));
                seen.refused.extend(refused);
                let closed = directory.closed.clone();
                seen.refused
                    .extend(closed.map(|why| (directory.path.clone(), why)));
                // A directory below several of the given paths is listed once.
                if !visited.insert(directory.path.clone()) {
                    continue;
                }
                let Some(known) = self.known.get(&directory.path) else {
                    continue;
                };
                match (directory.shape, &known.sink) {
                    (Shape::Sink, Some(sink)) => {
                        sinks.push((directory.path, Arc::clone(sink)));
                    }
                    (Shape::OomBundle, _) => {
                        let id = known.bundle_session.clone().unwrap_or_default();
                        bundles.entry(id).or_default().push(directory.path);
                    }
                    _ if place == Place::Beside => {}
                    (Shape::Plain, _) => {
                        seen.unlisted.extend(directory.loose_files().cloned());
                        seen.unlisted.extend(directory.packs);
                    }
                    (Shape::Sink | Shape::DiagnoseBundle, _) => {
                        seen.unlisted.push(directory.path);
                    }
                }
            }
        }
        self.known.retain(|path, _| visited.contains(path));
        let listed: HashSet<&Path> = sinks.iter().map(|(path, _)| path.as_path()).collect();
        // A bundle that holds its own sink is removed from `unlisted`, because that sink is already
        // listed as a run.
        seen.unlisted
            .retain(|path| !listed.contains(path.join(file_names::BUNDLE_SINK).as_path()));
        seen.runs = runs_of(&sinks, &mut bundles, here);
        seen.oom_bundles = bundles.into_values().flatten().collect();
        seen.oom_bundles.sort();
        seen.unlisted.sort();
        seen
    }
}

/// The entries of a directory, from the cache if the directory has not changed since it was read.
/// Otherwise reads it and its sink and replaces the cache entry.
fn cached_or_read(
    known: &mut HashMap<PathBuf, Known>,
    path: &Path,
    roots: &[PathBuf],
    now_ns: i64,
) -> Directory {
    let stamps = Stamp::of_directory(path);
    let before = known.get(path);
    if let Some(before) = before.filter(|before| before.stamps == stamps) {
        return before.directory.clone();
    }
    let mut directory = Directory::read(path, roots);
    let sink = read_sink(&directory, before.and_then(|before| before.sink.as_deref()));
    let bundle = directory.manifest(SinkNames::Ordinary);
    let bundle = bundle.and_then(|manifest| manifest.text("session_id").cloned());
    let bundle = bundle.filter(|_| directory.shape == Shape::OomBundle);
    for (_, document) in &mut directory.manifests {
        *document = None;
    }
    let newest = stamps.iter().map(|stamp| stamp.modified_ns).max();
    let is_settled = newest.is_none_or(|newest| now_ns.saturating_sub(newest) > UNSETTLED_NS);
    let entry = Known {
        // A directory that changed a moment ago is stored without stamps, so that the next refresh
        // reads it again.
        stamps: if is_settled { stamps } else { Vec::new() },
        directory: directory.clone(),
        sink: sink.map(Arc::new),
        bundle_session: bundle,
    };
    known.insert(path.to_path_buf(), entry);
    directory
}

/// Reads the manifest and rollups of a sink; `None` if the directory is not a sink or its manifest
/// lists no sessions. For sessions in `before`, an earlier result, the first event is not read
/// again.
fn read_sink(directory: &Directory, before: Option<&Sink>) -> Option<Sink> {
    if directory.shape != Shape::Sink {
        return None;
    }
    let (names, document) = SinkNames::ALL
        .into_iter()
        .find_map(|names| Some((names, directory.manifest(names)?)))?;
    let manifest = settled(&directory.path, names, Manifest::from_map(document));
    if manifest.sessions.is_empty() {
        return None;
    }
    let peaks = peaks_of(&directory.path, &manifest);
    let known_start = |id: &Text| {
        let mut sessions = before?.sessions.iter();
        let session = sessions.find(|one| one.summary.session_id == *id)?;
        session.start.clone()
    };
    let sessions = manifest.sessions.iter().map(|summary| {
        let id = &summary.session_id;
        let own_segments = || {
            let segments = manifest.segments.iter();
            segments.filter(|segment| segment.session_id.as_ref() == Some(id))
        };
        let start = known_start(id).or_else(|| {
            let first = first_events(&directory.path, &manifest, id);
            Start::of(first).map(Arc::new)
        });
        SessionInSink {
            summary: summary.clone(),
            event_count: own_segments().fold(0, |sum, one| sum.saturating_add(one.event_count)),
            size_bytes: own_segments().fold(0, |sum, one| sum.saturating_add(one.size_bytes)),
            start,
            peaks: peaks.get(id).copied(),
            newest_segments: if summary.status == SessionStatus::Running {
                newest_segments(&directory.path, &manifest, id)
            } else {
                Vec::new()
            },
        }
    });
    Some(Sink {
        sessions: sessions.collect(),
    })
}

/// The peaks of each session of a sink; empty if the sink's rollups are missing or out of date.
fn peaks_of(sink: &Path, manifest: &Manifest) -> HashMap<Text, RunPeaks> {
    let rollups = read_totals(sink, manifest);
    let sessions = rollups.into_iter().flat_map(|file| file.sessions);
    let peaks = sessions.map(|session| {
        let counters = &session.counters;
        let used = counters.device_used_bytes;
        let is_host = used.device_id.is_some_and(|device| device < 0);
        let of_device = |value: Option<i64>| value.filter(|_| !is_host);
        let peaks = RunPeaks {
            allocated_bytes: of_device(counters.allocator_allocated_bytes.value),
            reserved_bytes: of_device(counters.allocator_reserved_bytes.value),
            device_used_bytes: of_device(used.value),
            host_used_bytes: used.value.filter(|_| is_host),
        };
        (session.session.session_id, peaks)
    });
    peaks.collect()
}

/// A session with the index of its sink, its status and the time of its last event.
struct Found<'a> {
    sink: usize,
    session: &'a SessionInSink,
    status: SessionStatus,
    last_event_ns: Option<i64>,
}

/// Groups the sessions of sinks into runs, and assigns each run the OOM bundles that name its
/// sessions.
fn runs_of(
    sinks: &[(PathBuf, Arc<Sink>)],
    bundles: &mut HashMap<Text, Vec<PathBuf>>,
    here: &Surroundings<'_>,
) -> Vec<ListedRun> {
    let mut found = Vec::new();
    for (index, (_, sink)) in sinks.iter().enumerate() {
        for session in &sink.sessions {
            let last_event_ns = last_time_in(&session.newest_segments);
            found.push(Found {
                sink: index,
                session,
                status: effective_status(&session.summary, || last_event_ns, Some(here)),
                last_event_ns,
            });
        }
    }
    let grouped: Vec<GroupedBy> = found.iter().map(Found::grouped_by).collect();
    let mut runs: Vec<ListedRun> = group(&grouped)
        .into_iter()
        .filter_map(|members| {
            let mut members: Vec<&Found<'_>> = members.iter().map(|&one| &found[one]).collect();
            members.sort_by_key(|one| {
                let summary = &one.session.summary;
                (summary.started_at_ns, summary.session_id.clone())
            });
            run_of(&members, sinks, bundles)
        })
        .collect();
    runs.sort_by(|a, b| (b.started_at_ns, &b.key).cmp(&(a.started_at_ns, &a.key)));
    runs
}

impl Found<'_> {
    fn grouped_by(&self) -> GroupedBy {
        let summary = &self.session.summary;
        let start = self.session.start.as_ref();
        let of_summary = GroupedBy::of_summary(self.sink, summary);
        GroupedBy {
            run_id: start.and_then(|start| start.run_id.clone()),
            device_id: start.map(|start| start.device_id),
            last_ns: of_summary
                .last_ns
                .max(self.last_event_ns.unwrap_or(i64::MIN)),
            ..of_summary
        }
    }
}

fn run_of(
    members: &[&Found<'_>],
    sinks: &[(PathBuf, Arc<Sink>)],
    bundles: &mut HashMap<Text, Vec<PathBuf>>,
) -> Option<ListedRun> {
    let first = members.first()?;
    let summaries = || members.iter().map(|one| &one.session.summary);
    let starts = || members.iter().filter_map(|one| one.session.start.as_ref());
    let run_id = starts().find_map(|start| start.run_id.clone());
    let statuses = || members.iter().map(|one| one.status);
    let status = statuses().max().unwrap_or(first.status);
    let ends: Option<Vec<i64>> = summaries().map(|summary| summary.ended_at_ns).collect();
    let ends = ends.filter(|_| status != SessionStatus::Running);
    let peaks: Option<Vec<RunPeaks>> = members.iter().map(|one| one.session.peaks).collect();
    let directory = common_directory(members.iter().map(|one| &*sinks[one.sink].0));
    let oom_bundles = summaries().filter_map(|summary| bundles.remove(&summary.session_id));
    let mut oom_bundles: Vec<PathBuf> = oom_bundles.flatten().collect();
    oom_bundles.sort();
    let sessions = members.iter().map(|one| ListedSession {
        summary: one.session.summary.clone(),
        status: one.status,
        sink: sinks[one.sink].0.clone(),
        event_count: one.session.event_count,
        size_bytes: one.session.size_bytes,
        device_id: one.session.start.as_ref().map(|start| start.device_id),
        peaks: one.session.peaks,
    });
    Some(ListedRun {
        key: run_id.unwrap_or_else(|| first.session.summary.session_id.clone()),
        directory,
        status,
        started_at_ns: first.session.summary.started_at_ns,
        ended_at_ns: ends.and_then(|ends| ends.into_iter().max()),
        last_event_ns: members.iter().filter_map(|one| one.last_event_ns).max(),
        job_id: summaries().find_map(|summary| summary.job_id.clone()),
        program: starts()
            .find_map(|start| start.program.clone())
            .unwrap_or_default(),
        hosts: summaries().map(|summary| summary.host.clone()).collect(),
        ranks: summaries().map(|summary| summary.rank).collect(),
        world_size: summaries().map(|one| one.world_size).max().unwrap_or(1),
        sessions: sessions.collect(),
        peaks: peaks.and_then(|peaks| peaks.into_iter().reduce(RunPeaks::highest)),
        oom_bundles,
    })
}

/// The deepest directory that contains all given paths.
fn common_directory<'a>(mut paths: impl Iterator<Item = &'a Path>) -> PathBuf {
    let first = paths.next().unwrap_or(Path::new("."));
    let mut common = first.to_path_buf();
    for path in paths {
        while !path.starts_with(&common) && common.pop() {}
    }
    common
}

#[cfg(test)]
mod tests {
    use stormlog_format::Segment;
    use stormlog_format::json::{Layout, Writer, value_of};

    use super::*;
    use crate::liveness::Process;

    const SECOND: i64 = 1_000_000_000;

    fn here(now_ns: i64) -> Surroundings<'static> {
        Surroundings {
            now_ns,
            host: "h",
            reader: None,
            process: &|pid| match pid {
                7 => Process::Gone,
                _ => Process::Unknown,
            },
        }
    }

    fn session(id: &str, rank: i64, status: SessionStatus, start_s: i64) -> SessionSummary {
        SessionSummary {
            session_id: id.into(),
            status,
            started_at_ns: start_s * SECOND,
            ended_at_ns: (status == SessionStatus::Completed).then_some((start_s + 9) * SECOND),
            host: "h".into(),
            pid: 7,
            job_id: None,
            rank,
            local_rank: rank,
            world_size: 2,
            source: stormlog_format::session_sources::RUN.into(),
            recorder: None,
        }
    }

    fn start_event(id: &str, device_id: i64, metadata: &str) -> String {
        format!(
            r#"{{"schema_version": 3, "session_id": "{id}", "timestamp_ns": 5, "event_type": "start",
            "collector": "x", "sampling_interval_ms": 0, "pid": 7, "host": "h",
            "device_id": {device_id}, "allocator_allocated_bytes": 1,
            "allocator_reserved_bytes": 1, "allocator_active_bytes": null,
            "allocator_inactive_bytes": null, "allocator_change_bytes": 1,
            "device_used_bytes": 1, "device_free_bytes": 1, "device_total_bytes": 2,
            "context": null, "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1,
            "metadata": {metadata}}}"#
        )
        .replace('\n', " ")
            + "\n"
    }

    /// Writes a sink with one session; an existing manifest is replaced.
    fn sink(directory: &Path, names: SinkNames, summary: SessionSummary, metadata: &str) {
        std::fs::create_dir_all(directory).unwrap();
        let id = summary.session_id.to_string();
        let device_id = if names == SinkNames::Host { -1 } else { 0 };
        let lines = start_event(&id, device_id, metadata);
        std::fs::write(directory.join(names.segment(1)), lines).unwrap();
        let manifest = Manifest {
            sessions: vec![summary],
            segments: vec![Segment {
                filename: names.segment(1).into(),
                event_count: 1,
                size_bytes: 10,
                closed: true,
                session_id: Some(id.into()),
                thinned_interval_ns: 0,
            }],
            ..Manifest::from_map(&stormlog_format::Map::new())
        };
        let manifest = Manifest {
            schema_version: 2,
            ..manifest
        };
        let text = Writer::new(Layout::Line).to_string(&value_of(&manifest));
        std::fs::write(directory.join(names.manifest()), text).unwrap();
    }

    #[test]
    fn a_run_is_listed_from_its_manifests() {
        use SessionStatus::{Completed, Running};
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let host =
            r#"{"run": {"id": "r1", "program": "train.py", "command": ["python", "train.py"]}}"#;
        let device = r#"{"run_id": "r1"}"#;
        sink(
            &run.join("host"),
            SinkNames::Host,
            session("a", 0, Completed, 10),
            host,
        );
        sink(
            &run.join("rank-0"),
            SinkNames::Ordinary,
            session("b", 0, Completed, 11),
            device,
        );
        sink(
            &run.join("rank-1"),
            SinkNames::Ordinary,
            session("c", 1, Running, 12),
            device,
        );
        let other = folder.path().join("other");
        sink(
            &other,
            SinkNames::Ordinary,
            session("d", 0, Completed, 90),
            "{}",
        );
        std::fs::write(folder.path().join("old_events.json"), "[]").unwrap();
        let bundle = run.join("oom_dumps/one");
        std::fs::create_dir_all(&bundle).unwrap();
        let manifest =
            r#"{"bundle_name": 1, "reason": 1, "backend": 1, "event_count": 1, "session_id": "c"}"#;
        std::fs::write(bundle.join("manifest.json"), manifest).unwrap();

        let mut listing = Listing::new(vec![folder.path().to_path_buf()]);
        let mut counts = Vec::new();
        let seen = listing.refresh_with(&here(100 * SECOND), &mut |so_far| {
            counts.push(so_far.runs().len());
        });
        // Directories are read in the order of their paths: the root, 'other', 'run' and its
        // subdirectories.
        assert!(counts.is_sorted() && counts.contains(&1), "{counts:?}");
        assert_eq!((counts[0], counts.last()), (0, Some(&2)));
        assert_eq!(seen.unlisted, [folder.path().join("old_events.json")]);
        assert_eq!((seen.refused.len(), seen.oom_bundles.len()), (0, 0));
        let ids: Vec<String> = seen.runs.iter().map(|run| run.key.to_string()).collect();
        assert_eq!(ids, ["d", "r1"]);
        let listed = &seen.runs[1];
        assert_eq!(listed.directory, run);
        assert_eq!(listed.program.command, ["python", "train.py"]);
        assert_eq!(listed.ranks, BTreeSet::from([0, 1]));
        assert_eq!(listed.started_at_ns, 10 * SECOND);
        assert_eq!(listed.oom_bundles, [bundle]);
        // The session's process is gone, so its status is interrupted.
        assert_eq!(listed.status, SessionStatus::Interrupted);
        let devices: Vec<_> = listed.sessions.iter().map(|one| one.device_id).collect();
        assert_eq!(devices, [Some(-1), Some(0), Some(0)]);
    }

    #[test]
    fn a_compressed_first_segment_names_the_run() {
        let (ordinary, completed) = (SinkNames::Ordinary, SessionStatus::Completed);
        let zstd = |lines: &[u8]| zstd::encode_all(lines, 1).unwrap();
        // The second form is cut off in its last block, as after an incomplete copy.
        let cut_off = |lines: &[u8]| {
            let mut state = 1_u64;
            let noise = (0..25_000).flat_map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state ^ state.rotate_left(32)).to_le_bytes()
            });
            let packed = zstd(&[lines, &noise.collect::<Vec<u8>>()].concat());
            packed[..packed.len() - 100].to_vec()
        };
        for is_cut_off in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let summary = session("a", 0, completed, 10);
            sink(folder.path(), ordinary, summary, r#"{"run_id": "r1"}"#);
            let segment = folder.path().join(ordinary.segment(1));
            let lines = std::fs::read(&segment).unwrap();
            std::fs::remove_file(&segment).unwrap();
            let compressed = folder.path().join(ordinary.segment(1) + ".zst");
            let packed = if is_cut_off {
                cut_off(&lines)
            } else {
                zstd(&lines)
            };
            std::fs::write(compressed, packed).unwrap();
            let mut listing = Listing::new(vec![folder.path().to_path_buf()]);
            let seen = listing.refresh(&here(100 * SECOND));
            assert_eq!(seen.runs[0].key, "r1");
            assert_eq!(seen.runs[0].sessions[0].device_id, Some(0));
        }
    }

    #[test]
    fn what_has_not_changed_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let write = |status| {
            let summary = session("a", 0, status, 10);
            sink(&run, SinkNames::Ordinary, summary, "{}");
        };
        write(SessionStatus::Running);
        let mut listing = Listing::new(vec![folder.path().to_path_buf()]);
        // A time long after the files were written, so that unchanged files are not read again.
        let later = here(i64::MAX);
        assert_eq!(listing.refresh(&later).runs.len(), 1);
        let before = Arc::as_ptr(listing.known[&run].sink.as_ref().unwrap());
        assert_eq!(listing.refresh(&later).runs.len(), 1);
        assert_eq!(
            Arc::as_ptr(listing.known[&run].sink.as_ref().unwrap()),
            before
        );
        write(SessionStatus::Completed);
        let seen = listing.refresh(&later);
        assert_eq!(seen.runs[0].status, SessionStatus::Completed);
        std::fs::remove_dir_all(&run).unwrap();
        assert_eq!(listing.refresh(&later).runs.len(), 0);
        assert!(!listing.known.contains_key(&run));
    }
}
