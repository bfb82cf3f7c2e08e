//! Records how a killed program ended: in the sessions that the program left open, and in the
//! sessions that were recorded from outside the program.

use std::collections::HashSet;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use stormlog_analysis::{LoadOptions, LoadedSession, load_sessions, read_manifest, sinks_of_run};
use stormlog_capture::record::Recorder;
use stormlog_capture::store::{Sink, SinkConfig, SinkError};
use stormlog_format::classify::KERNEL_OOM_KILL;
use stormlog_format::{Event, EventType, Map, SessionStatus, SinkNames, Text, metadata_keys};

use super::Ended;

/// The ids of the open sessions in all sinks below the directory of a run.
pub(crate) fn open_sessions(root: &Path) -> HashSet<Text> {
    let directories = sinks_of_run(root).into_iter();
    directories
        .flat_map(|(directory, names)| open_in(&directory, names))
        .collect()
}

/// The ids of the open sessions in one sink, from its manifest alone, because reading the events
/// would take too long.
fn open_in(directory: &Path, names: SinkNames) -> Vec<Text> {
    let manifest = read_manifest(&directory.join(names.manifest()));
    let sessions = manifest.map_or(Vec::new(), |manifest| manifest.sessions);
    let open = sessions
        .into_iter()
        .filter(|session| session.status == SessionStatus::Running);
    open.map(|session| session.session_id).collect()
}

/// Closes sessions that killed processes left open below the directory of a run. Each closed
/// session gets a last event that describes the end of its process. Sessions that were already open
/// before the run (`earlier`) get no such event, because it is unknown how their processes ended.
/// Sessions to which a process still writes are not closed.
pub(crate) fn close_what_was_left_open(root: &Path, ended: &Ended, earlier: &HashSet<Text>) {
    for (directory, names) in sinks_of_run(root) {
        let open = open_in(&directory, names);
        if open.is_empty() || !is_free(&directory) {
            continue;
        }
        let ours = |session: &&LoadedSession| {
            let id = &session.summary.session_id;
            open.contains(id) && !earlier.contains(id)
        };
        let loaded = if open.iter().all(|id| earlier.contains(id)) {
            None
        } else {
            load_sessions(&directory, &LoadOptions::default()).ok()
        };
        let config = SinkConfig {
            // Rollups are not written, because they would require reading the segments of every
            // rank after a crash.
            write_rollups: false,
            names,
            ..SinkConfig::new(&directory)
        };
        // Opening the sink marks its sessions as interrupted. If the sink cannot be opened, for
        // example because the disk is full, its sessions stay as they are.
        let sink = Sink::open(config).ok();
        // If the sink was opened in another directory than requested, another process uses the
        // requested directory, so its sessions are not changed.
        let Some(sink) = sink.filter(|sink| sink.directory() == directory) else {
            continue;
        };
        let sessions = loaded.iter().flat_map(|loaded| &loaded.sessions);
        for session in sessions.filter(ours) {
            let _ = append_end(&sink, session, ended);
        }
    }
}

fn is_free(directory: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
        .and_then(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))
        .is_ok()
}

fn append_end(sink: &Sink, session: &LoadedSession, ended: &Ended) -> Result<(), SinkError> {
    let events = session.events.iter();
    let Some(last) = events.max_by_key(|event| event.timestamp_ns()) else {
        return Ok(());
    };
    let end = end_of_process(last.to_event(), session, ended);
    sink.start_session(Some(session.summary.clone()))?;
    sink.append(&end)?;
    sink.close(SessionStatus::Interrupted)
}

/// Creates the last event of a killed process, with the process's last known counters.
fn end_of_process(last: Event, session: &LoadedSession, ended: &Ended) -> Event {
    // Only the end of the child process was observed; for other processes, the time of their last
    // event is used as the end.
    let was_seen = session.summary.pid == i64::from(ended.pid);
    let by_kernel = ended.lost_to_the_kernel() && (!was_seen || ended.was_killed());
    let mut metadata = Map::new();
    metadata.insert("counters_at_ns", last.timestamp_ns);
    if by_kernel {
        metadata.insert(metadata_keys::OOM_REASON, KERNEL_OOM_KILL);
    }
    let what = if was_seen {
        ended.describe()
    } else {
        format!(
            "ended without closing its session{}",
            ended.why().unwrap_or_default()
        )
    };
    let now = jiff::Timestamp::now().as_nanosecond();
    let now = i64::try_from(now).ok().filter(|_| was_seen);
    let mut end = Event {
        // The end of the process must not be earlier than its last event, even if the system clock
        // was set back.
        timestamp_ns: now.unwrap_or(last.timestamp_ns).max(last.timestamp_ns),
        event_type: event_type(by_kernel).into(),
        context: Some(what.into()),
        metadata,
        ..last
    };
    let change = &mut end.counters.allocator_change_bytes;
    *change = change.map(|_| 0);
    end
}

/// If the kernel killed the watched process for lack of memory, writes an event about this to the
/// session that was recorded from outside.
pub(crate) fn tell_recorder(recorder: &Recorder, ended: &Ended) {
    if ended.lost_to_the_kernel() {
        let mut metadata = Map::new();
        metadata.insert(metadata_keys::OOM_REASON, KERNEL_OOM_KILL);
        recorder.record(event_type(true), 0, &ended.describe(), metadata);
    }
}

/// The event type for the end of a process. The end of a process is an error only if the kernel
/// killed it for lack of memory, not if a user or another process ended it.
fn event_type(by_kernel: bool) -> &'static str {
    let event_type = if by_kernel {
        EventType::Error
    } else {
        EventType::Stop
    };
    event_type.as_str()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    /// An ended command for tests: its wait status is `status` (an exit code shifted left by 8
    /// bits, or a signal), and the kernel killed `oom_kills` processes while it ran.
    fn ended(status: i32, oom_kills: u64) -> Ended {
        Ended {
            pid: 7,
            status: ExitStatus::from_raw(status),
            signal: None,
            oom_kills,
            exception: None,
            run_id: None,
        }
    }

    /// Creates a sink with the open session of a killed process, for tests.
    fn left_open(root: &Path, name: &str, pid: i64) -> Text {
        let sink = Sink::open(SinkConfig::new(root.join(name))).unwrap();
        let summary = sink.start_session(None).unwrap();
        let summary = stormlog_format::SessionSummary { pid, ..summary };
        drop(sink);
        let sink = Sink::open(SinkConfig::new(root.join(name))).unwrap();
        let event = format!(
            r#"{{"schema_version": 3, "session_id": "{}", "timestamp_ns": 5, "event_type":
            "sample", "collector": "x", "sampling_interval_ms": 0, "pid": {pid}, "host": "h",
            "device_id": 0, "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 1,
            "allocator_active_bytes": null, "allocator_inactive_bytes": null,
            "allocator_change_bytes": 1, "device_used_bytes": 1, "device_free_bytes": 1,
            "device_total_bytes": 2, "context": null, "job_id": null, "rank": 0,
            "local_rank": 0, "world_size": 1, "metadata": {{}}}}"#,
            summary.session_id
        );
        sink.start_session(Some(summary.clone())).unwrap();
        let line = event.replace('\n', " ");
        sink.append_line(Some(summary.session_id.as_bytes()), &line, None)
            .unwrap();
        drop(sink);
        summary.session_id
    }

    /// The last event of a session: its type, its context, whether it states the reason of an
    /// out-of-memory error, and its time.
    fn end(root: &Path, name: &str) -> (String, Option<String>, bool, i64) {
        let loaded = load_sessions(&root.join(name), &LoadOptions::default()).unwrap();
        let sessions = loaded.sessions.iter();
        let events = sessions.flat_map(|session| session.events.iter());
        let last = events.last().unwrap().to_event();
        (
            last.event_type.to_string(),
            last.context.map(|context| context.to_string()),
            last.metadata.get("oom_reason").is_some(),
            last.timestamp_ns,
        )
    }

    #[test]
    fn a_session_of_an_earlier_run_did_not_end_as_todays() {
        let root = tempfile::tempdir().unwrap();
        left_open(root.path(), "old", 7);
        let earlier = open_sessions(root.path());
        assert_eq!(earlier.len(), 1);
        left_open(root.path(), "new", 7);
        close_what_was_left_open(root.path(), &ended(9, 1), &earlier);
        assert_eq!(open_sessions(root.path()).len(), 0);
        let (kind, _, _, at) = end(root.path(), "old");
        assert_eq!((&*kind, at), ("sample", 5));
        let (kind, what, has_reason, at) = end(root.path(), "new");
        assert_eq!((&*kind, has_reason), ("error", true));
        assert!(what.unwrap().starts_with("killed by signal 9 (SIGKILL): "));
        assert!(at > 5);
    }

    #[test]
    fn the_kernel_is_not_blamed_for_another_end() {
        for status in [0, 3 << 8, 15] {
            let root = tempfile::tempdir().unwrap();
            left_open(root.path(), "s", 7);
            close_what_was_left_open(root.path(), &ended(status, 1), &HashSet::new());
            let (kind, _, has_reason, _) = end(root.path(), "s");
            assert_eq!((&*kind, has_reason), ("stop", false), "{status}");
        }
    }

    #[test]
    fn of_a_process_that_ended_unseen_the_last_sign_is_the_end() {
        let root = tempfile::tempdir().unwrap();
        left_open(root.path(), "s", 8);
        close_what_was_left_open(root.path(), &ended(1 << 8, 1), &HashSet::new());
        let (kind, what, has_reason, at) = end(root.path(), "s");
        assert_eq!((&*kind, has_reason, at), ("error", true, 5));
        assert!(
            what.unwrap()
                .starts_with("ended without closing its session: ")
        );
    }
}
