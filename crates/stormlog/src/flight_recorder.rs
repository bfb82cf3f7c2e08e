//! The flight recorder writes a bundle when memory runs out, as far as that is visible from outside
//! the training process.
//!
//! Two events are visible from outside: the recording itself fails with an out-of-memory error, or
//! the kernel kills a process of this control group because memory ran out. Out-of-memory errors
//! that only PyTorch sees are recorded by `stormlog run`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use stormlog_capture::collect::cgroup::{self, MemoryGroup, Roots};
use stormlog_capture::oom::{self, Dump, Retention};
use stormlog_capture::record::Recorder;
use stormlog_format::classify::{ExceptionFacts, legacy_oom_reason, oom_reason};
use stormlog_format::{Map, Text, Value};

/// Writes a bundle (a folder with the last events and facts about the machine) each time memory
/// runs out.
pub(crate) struct FlightRecorder {
    root: PathBuf,
    retention: Retention,
    backend: Text,
    command: &'static str,
    roots: Roots,
    group: Option<MemoryGroup>,
    kills: u64,
    written: u64,
    last: Option<PathBuf>,
}

impl FlightRecorder {
    /// Creates a flight recorder for the host memory of a program under `stormlog run`, whose
    /// recording is in the folder `run`.
    pub(crate) fn of_host(run: &Path, retention: Retention) -> Self {
        let root = run.join(BUNDLES);
        Self::new(root, retention, Roots::default(), "cpu", "stormlog run")
    }

    /// Writes a bundle when the exception that ended the process `pid` is an out-of-memory error.
    /// `request` describes the allocation that failed.
    pub(crate) fn of_exception(
        &mut self,
        recorder: &Recorder,
        exception: &ExceptionFacts,
        pid: u32,
        request: Map,
    ) -> anyhow::Result<Option<PathBuf>> {
        let reason = oom_reason(exception);
        self.dump(
            recorder,
            reason,
            exception,
            "uncaught exception",
            pid,
            request,
        )
    }

    /// Creates a flight recorder. `backend`, such as `cuda`, is stored in each bundle. `command` is
    /// stored as the context in bundles about an error that ended the recording itself.
    pub(crate) fn new(
        root: PathBuf,
        retention: Retention,
        roots: Roots,
        backend: &str,
        command: &'static str,
    ) -> Self {
        let group = MemoryGroup::of_process(&roots, None);
        Self {
            root,
            retention,
            backend: backend.into(),
            command,
            kills: group.as_ref().and_then(MemoryGroup::oom_kills).unwrap_or(0),
            roots,
            group,
            written: 0,
            last: None,
        }
    }

    /// Writes a bundle when the kernel has killed a process of this control group for lack of
    /// memory since the last call.
    pub(crate) fn look(&mut self, recorder: &Recorder) -> anyhow::Result<Option<PathBuf>> {
        let kills = self.group.as_ref().and_then(MemoryGroup::oom_kills);
        let before = self.kills;
        self.kills = kills.unwrap_or(before);
        if self.kills <= before {
            return Ok(None);
        }
        let killed = self.kills - before;
        let exception = ExceptionFacts {
            class: "OutOfMemoryKill".into(),
            module: "kernel".into(),
            message: format!(
                "out of memory: the kernel killed {killed} of the control group's processes"
            ),
            is_torch_oom: false,
        };
        let pid = std::process::id();
        let reason = legacy_oom_reason(&exception);
        self.dump(
            recorder,
            reason,
            &exception,
            "control group",
            pid,
            Map::new(),
        )
    }

    /// The folder of the last bundle that was written; `None` if none was written.
    pub(crate) fn last_bundle(&self) -> Option<&Path> {
        self.last.as_deref()
    }

    /// Writes a bundle if the error that ended the recording is an out-of-memory error; returns the
    /// folder of the bundle.
    pub(crate) fn failed(
        &mut self,
        recorder: &Recorder,
        error: &anyhow::Error,
    ) -> anyhow::Result<Option<PathBuf>> {
        let exception = ExceptionFacts {
            class: "Error".into(),
            module: "stormlog".into(),
            message: format!("{error:#}"),
            is_torch_oom: false,
        };
        let pid = std::process::id();
        // The error is our own, so only its text shows that memory ran out.
        let reason = legacy_oom_reason(&exception);
        self.dump(recorder, reason, &exception, self.command, pid, Map::new())
    }

    /// Writes a bundle if there is a `reason`.
    fn dump(
        &mut self,
        recorder: &Recorder,
        reason: Option<String>,
        exception: &ExceptionFacts,
        context: &str,
        pid: u32,
        request: Map,
    ) -> anyhow::Result<Option<PathBuf>> {
        let Some(reason) = reason else {
            return Ok(None);
        };
        let mut custom_metadata = facts(recorder);
        custom_metadata.extend(request.clone());
        let events = recorder.record_oom(&reason, request);
        let now = jiff::Timestamp::now();
        self.written += 1;
        let dump = Dump {
            reason: reason.into(),
            exception: [
                (*exception.class).into(),
                (*exception.module).into(),
                (*exception.message).into(),
            ],
            context: Some(context.into()),
            backend: self.backend.clone(),
            events,
            custom_metadata,
            session: recorder.session(),
            system: self.system(),
            pid,
            cwd: std::env::current_dir().unwrap_or_default(),
        };
        let stamp = stamp(now);
        let created = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let path = oom::write(&self.root, dump, &stamp, &created, self.written)?;
        oom::prune(&self.root, self.retention);
        self.last = Some(path.clone());
        Ok(Some(path))
    }

    fn system(&self) -> Map {
        let room = cgroup::machine_room(&self.roots);
        let bytes = |bytes: Option<u64>| bytes.and_then(|bytes| i64::try_from(bytes).ok());
        let mut map = Map::new();
        map.insert("platform", std::env::consts::OS);
        map.insert("architecture", std::env::consts::ARCH);
        map.insert("memory_total", bytes(room.total));
        map.insert("memory_available", bytes(room.free));
        let limit = self.group.as_ref().and_then(MemoryGroup::limit);
        map.insert("memory_limit", bytes(limit));
        map
    }
}

/// The name of the folder of bundles in the folder of a recording.
const BUNDLES: &str = "oom_dumps";

/// How deep below the folder of a run the folders of bundles are: `rank-0001/gpu-1/oom_dumps`.
const DEEPEST: usize = 2;

/// A time as the names of bundles contain it.
fn stamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The ids of the processes of a run that have written bundles themselves since `start`. Older
/// bundles belong to an earlier run in the same folder, whose processes may have had the same ids.
pub(crate) fn processes_with_bundles(run: &Path, start: jiff::Timestamp) -> HashSet<u32> {
    let start = stamp(start);
    let mut folders = vec![run.to_path_buf()];
    let mut found = HashSet::new();
    for depth in 0..=DEEPEST {
        for folder in std::mem::take(&mut folders) {
            for name in directories(&folder.join(BUNDLES)) {
                let mut parts = name.split('_').skip(2);
                let is_of_run = parts.next().is_some_and(|stamp| stamp >= start.as_str());
                let pid = parts.next().and_then(|pid| pid.parse::<u32>().ok());
                found.extend(pid.filter(|_| is_of_run && name.starts_with("oom_dump_")));
            }
            if depth < DEEPEST {
                folders.extend(directories(&folder).map(|name| folder.join(name)));
            }
        }
    }
    found
}

/// The names of the folders in a folder, without links.
fn directories(folder: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The statistics of the recorder for the bundle, with the key names that the trackers of stormlog
/// 0.3.9 use.
fn facts(recorder: &Recorder) -> Map {
    let options = recorder.options();
    let current = recorder.current();
    let counters = current.as_ref().map(|reading| reading.counters);
    let counters = counters.unwrap_or_default();
    let mut map = Map::new();
    let statistics = recorder.device_statistics(None);
    map.insert("tracker_stats", Value::Map(statistics));
    map.insert("total_memory_bytes", counters.device_total_bytes);
    let interval = options.interval.as_secs_f64();
    map.insert("sampling_interval_s", Value::Float(interval));
    let session = recorder.session();
    map.insert("session_id", session.map(|session| session.session_id));
    map.insert("job_id", options.identity.job_id.clone());
    map.insert("rank", options.identity.rank);
    map.insert("local_rank", options.identity.local_rank);
    map.insert("world_size", options.identity.world_size);
    for (name, value) in [
        ("sample_allocated_bytes", counters.allocator_allocated_bytes),
        ("sample_reserved_bytes", counters.allocator_reserved_bytes),
        ("sample_used_bytes", counters.device_used_bytes),
        ("sample_free_bytes", counters.device_free_bytes),
        ("sample_total_bytes", counters.device_total_bytes),
    ] {
        map.insert(name, value);
    }
    let device = current.map(|reading| reading.device_id);
    map.insert("sample_device_id", device);
    map
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use stormlog_format::DistributedIdentity;

    use super::*;
    use stormlog_capture::record::{Detail, RecordOptions};

    use crate::recording::{own_collector, record_options};

    /// A flight recorder that keeps one bundle.
    fn flight_recorder(folder: &Path, roots: Roots, backend: &str) -> FlightRecorder {
        let retention = Retention {
            max_dumps: 1,
            ..Retention::DEFAULT
        };
        FlightRecorder::new(folder.join("dumps"), retention, roots, backend, "test")
    }

    fn recorder() -> std::sync::Arc<Recorder> {
        let identity = DistributedIdentity {
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
        };
        let (pid, interval) = (std::process::id(), Duration::from_millis(5));
        let options = RecordOptions {
            bundle_events: Some(2),
            detail: Detail::Changes,
            ..record_options("test", pid, identity, interval)
        };
        let recorder = Recorder::new(options, vec![own_collector()], None);
        recorder.start().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        recorder
    }

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_kill_in_the_group_leaves_a_bundle_of_the_last_events() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: folder.path().join("proc"),
            sys: folder.path().join("sys"),
        };
        write(&roots.proc, "self/cgroup", "0::/job\n");
        write(&roots.sys, "fs/cgroup/job/memory.max", "1000000\n");
        let events = "fs/cgroup/job/memory.events";
        write(&roots.sys, events, "oom 1\noom_kill 1\n");
        let recorder = recorder();
        let mut flight = flight_recorder(folder.path(), roots.clone(), "cpu");
        assert_eq!(flight.look(&recorder).unwrap(), None);
        write(&roots.sys, events, "oom 3\noom_kill 3\n");
        let first = flight.look(&recorder).unwrap().unwrap();
        assert_eq!(flight.look(&recorder).unwrap(), None);
        let text = |name: &str| fs::read_to_string(first.join(name)).unwrap();
        assert!(text("metadata.json").contains("message_pattern:out of memory"));
        let events = stormlog_format::json::parse(text("events.json").as_bytes()).unwrap();
        assert!(matches!(events, Value::List(events) if events.len() == 2));
        // The retention is set to one bundle, so the second bundle replaces the first.
        write(&roots.sys, "fs/cgroup/job/memory.events", "oom_kill 4\n");
        let second = flight.look(&recorder).unwrap().unwrap();
        assert!(second.exists() && !first.exists());
    }

    #[test]
    fn the_bundles_of_all_processes_of_a_run_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        for bundle in [
            "oom_dumps/oom_dump_20261118T100000Z_1_cuda_1",
            "rank-0001/oom_dumps/oom_dump_20261118T100001Z_2_cuda_1",
            "pid-3/oom_dumps/oom_dump_20261118T110000Z_3_jax_1",
            "rank-0001/gpu-1/oom_dumps/oom_dump_20261118T110000Z_4_cuda_1",
            // Of an earlier run in the same folder, and no bundles.
            "oom_dumps/oom_dump_20261118T095959Z_5_cuda_6",
            "oom_dumps/other_dump_20261118T110000Z_7_cuda_1",
            "oom_dumps/oom_dump",
        ] {
            fs::create_dir_all(run.join(bundle)).unwrap();
        }
        std::os::unix::fs::symlink(run, run.join("link")).unwrap();
        let start = "2026-11-18T10:00:00.5Z".parse().unwrap();
        let found = processes_with_bundles(run, start);
        assert_eq!(found, HashSet::from([1, 2, 3, 4]));
    }

    #[test]
    fn only_errors_that_mean_it_leave_a_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = recorder();
        let mut flight = flight_recorder(folder.path(), Roots::default(), "cuda");
        let other = anyhow::anyhow!("cannot write 'x'");
        assert_eq!(flight.failed(&recorder, &other).unwrap(), None);
        let oom = anyhow::anyhow!("failed to allocate 5 bytes").context("cannot sample");
        let bundle = flight.failed(&recorder, &oom).unwrap().unwrap();
        let name = bundle.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.contains("_cuda_1"), "{name}");
    }
}
