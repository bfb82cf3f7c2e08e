//! Decides whether a session with the status `running` is still running.
//!
//! The files of the session are not changed. The current time, the host name and the state of
//! processes are passed in by the caller.

use stormlog_format::{ProcessIdentity, SessionStatus, SessionSummary};

use crate::load::LoadedSession;

/// A session without new events for this long counts as ended if its process cannot be checked, because
/// it runs on another machine or in another container. A recorder writes every few seconds, and ten
/// minutes allow for clocks that differ between machines.
const SILENCE_NS: i64 = 600_000_000_000;

/// A process that started this much later than the session is another process with a reused process
/// id.
const START_SLACK_NS: i64 = 10_000_000_000;

/// Whether a process with a given id exists on this host, and which process it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// No process has the id, or the process has exited and is a zombie.
    Gone,
    /// A process with the id exists.
    Alive {
        /// When the process started, in nanoseconds since 1970, if known.
        started_ns: Option<i64>,
        /// What distinguishes the process from others with the same process id, such as its start
        /// time, if known.
        identity: Option<ProcessIdentity>,
    },
    /// It is not known whether a process with the id exists.
    Unknown,
}

/// Updates the status of loaded sessions: a session that is recorded as running although its
/// process has ended becomes interrupted.
pub fn settle_statuses<'a>(
    sessions: impl IntoIterator<Item = &'a mut LoadedSession>,
    here: &Surroundings<'_>,
) {
    for session in sessions {
        let last_event_ns = || session.last_event_ns();
        session.summary.status = effective_status(&session.summary, last_event_ns, Some(here));
    }
}

/// What must be known about the machine on which a recording is read, to decide whether the
/// recorded process is still running there.
pub struct Surroundings<'a> {
    /// The current time in nanoseconds since 1970.
    pub now_ns: i64,
    /// The name of the host on which the recording is read.
    pub host: &'a str,
    /// The identity of the process that reads the recording, if known. It shows whether the reader
    /// and the recording use the same process ids: the same boot of the machine and the same pid
    /// namespace.
    pub reader: Option<ProcessIdentity>,
    /// Looks up the state of a process on this host by its id.
    pub process: &'a (dyn Fn(i64) -> Process + Sync),
}

/// The current status of a session, which may differ from the recorded status. A session whose
/// recorded status is running, but whose process has ended, was interrupted.
///
/// If the recording identifies its process, and was made on this machine since its last boot and in
/// the same pid namespace, the state of that process decides. If the process cannot be checked, the
/// session counts as running as long as its last event, whose time `last_event_ns` returns, is
/// recent. The modification time of a file does not count, because copying a recording changes it.
/// Recordings without a process identity (from stormlog 0.3.9 and version 0.4.0) are checked by host
/// name and process id.
pub fn effective_status(
    summary: &SessionSummary,
    last_event_ns: impl FnOnce() -> Option<i64>,
    surroundings: Option<&Surroundings<'_>>,
) -> SessionStatus {
    let (SessionStatus::Running, Some(here)) = (summary.status, surroundings) else {
        return summary.status;
    };
    let is_silent = || {
        let last = last_event_ns().unwrap_or(summary.started_at_ns);
        here.now_ns.saturating_sub(last) > SILENCE_NS
    };
    let is_gone = match &summary.recorder {
        Some(recorder) => has_ended(recorder, here).unwrap_or_else(is_silent),
        None => has_ended_by_number(summary, here).unwrap_or_else(is_silent),
    };
    if is_gone {
        SessionStatus::Interrupted
    } else {
        SessionStatus::Running
    }
}

/// Whether the process identified by a recording has ended. `None` when the process cannot be
/// checked from this machine.
fn has_ended(recorder: &ProcessIdentity, here: &Surroundings<'_>) -> Option<bool> {
    if !here.reader.as_ref()?.shares_ids_with(recorder) {
        return None;
    }
    match (here.process)(recorder.pid) {
        Process::Gone => Some(true),
        Process::Alive {
            identity: Some(identity),
            ..
        } => Some(identity != *recorder),
        Process::Alive { identity: None, .. } | Process::Unknown => None,
    }
}

/// Whether the process of a recording without a process identity has ended. `None` when the process
/// cannot be checked from this machine.
fn has_ended_by_number(summary: &SessionSummary, here: &Surroundings<'_>) -> Option<bool> {
    if summary.host != here.host || summary.pid < 0 {
        return None;
    }
    match (here.process)(summary.pid) {
        Process::Gone => Some(true),
        Process::Alive { started_ns, .. } => {
            Some(started_ns.is_some_and(|started| {
                started > summary.started_at_ns.saturating_add(START_SLACK_NS)
            }))
        }
        Process::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(host: &str) -> SessionSummary {
        SessionSummary {
            session_id: "s".into(),
            status: SessionStatus::Running,
            started_at_ns: 1_000_000_000_000,
            ended_at_ns: None,
            host: host.into(),
            pid: 7,
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            source: "stormlog.tracker".into(),
            recorder: None,
        }
    }

    fn identity(boot: &str, namespace: i64, start_ticks: i64) -> ProcessIdentity {
        ProcessIdentity {
            pid: 7,
            start_ticks,
            pid_namespace: namespace,
            boot_id: boot.into(),
        }
    }

    fn judge(host: &str, process: &Process, silent_for_s: i64) -> SessionStatus {
        judge_session(&running(host), process, silent_for_s)
    }

    fn judge_session(
        summary: &SessionSummary,
        process: &Process,
        silent_for_s: i64,
    ) -> SessionStatus {
        let here = Surroundings {
            now_ns: 10_000_000_000_000,
            host: "here",
            reader: Some(ProcessIdentity {
                pid: 8,
                ..identity("boot", 1, 500)
            }),
            process: &|_| process.clone(),
        };
        let last_event = here.now_ns - silent_for_s * 1_000_000_000;
        effective_status(summary, || Some(last_event), Some(&here))
    }

    #[test]
    fn a_gone_process_was_interrupted() {
        let alive = |started_ns| Process::Alive {
            started_ns,
            identity: None,
        };
        let (same, other) = (alive(Some(999_000_000_000)), alive(Some(2_000_000_000_000)));
        assert_eq!(judge("here", &Process::Gone, 0), SessionStatus::Interrupted);
        assert_eq!(judge("here", &alive(None), 9999), SessionStatus::Running);
        assert_eq!(judge("here", &same, 9999), SessionStatus::Running);
        assert_eq!(judge("here", &other, 0), SessionStatus::Interrupted);
        assert_eq!(
            judge("here", &Process::Unknown, 9999),
            SessionStatus::Interrupted
        );
        assert_eq!(judge("there", &Process::Gone, 5), SessionStatus::Running);
        assert_eq!(
            judge("there", &alive(None), 601),
            SessionStatus::Interrupted
        );
    }

    #[test]
    fn a_process_that_is_identified_is_not_mistaken_for_another() {
        let recorded_by = |recorder| SessionSummary {
            recorder: Some(recorder),
            ..running("here")
        };
        let alive = |identity| Process::Alive {
            started_ns: Some(0),
            identity: Some(identity),
        };
        let ours = recorded_by(identity("boot", 1, 100));
        let same = alive(identity("boot", 1, 100));
        assert_eq!(judge_session(&ours, &same, 9999), SessionStatus::Running);
        // The process id is in use again by another process, so the session was interrupted.
        let later = alive(identity("boot", 1, 101));
        assert_eq!(judge_session(&ours, &later, 0), SessionStatus::Interrupted);
        assert_eq!(
            judge_session(&ours, &Process::Gone, 0),
            SessionStatus::Interrupted
        );
        // A process with the same id in another pid namespace, or on another machine with the same
        // name, proves nothing about the session.
        for foreign in [identity("boot", 2, 100), identity("other", 1, 100)] {
            let foreign = recorded_by(foreign);
            for process in [&same, &Process::Gone] {
                assert_eq!(judge_session(&foreign, process, 5), SessionStatus::Running);
                assert_eq!(
                    judge_session(&foreign, process, 601),
                    SessionStatus::Interrupted
                );
            }
        }
    }

    #[test]
    fn what_is_over_stays_as_it_is() {
        let summary = SessionSummary {
            status: SessionStatus::Completed,
            ..running("here")
        };
        assert_eq!(
            effective_status(&summary, || None, None),
            SessionStatus::Completed
        );
    }
}
