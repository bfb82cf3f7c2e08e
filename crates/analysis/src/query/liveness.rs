//! Whether a session that says `running` still runs, judged when it is read.
//!
//! Nothing is rewritten: the file keeps what its writer said. What the judgement needs of
//! the machine (time, host, processes) is handed in.

use stormlog_format::{SessionStatus, SessionSummary};

/// A session of another host that wrote nothing for so long is taken for dead. A recorder
/// writes every few seconds; ten minutes leave room for clocks that disagree.
const SILENCE_NS: i64 = 600_000_000_000;

/// A process that started so much after its session is another one with the same number.
const START_SLACK_NS: i64 = 10_000_000_000;

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// There is none with this number.
    Gone,
    /// There is one; when it started, if that is known.
    Alive {
        /// When it started.
        started_ns: Option<i64>,
    },
    /// Nobody can tell.
    Unknown,
}

/// The machine that somebody reads on, as far as it matters.
pub struct Surroundings<'a> {
    /// The time.
    pub now_ns: i64,
    /// The name of the host.
    pub host: &'a str,
    /// What is known of a process of this host.
    pub process: &'a (dyn Fn(i64) -> Process + Sync),
}

/// The status of a session as it is now: one that says it runs while its process is gone
/// was interrupted.
pub fn effective_status(
    summary: &SessionSummary,
    last_write_ns: Option<i64>,
    surroundings: Option<&Surroundings<'_>>,
) -> SessionStatus {
    let (SessionStatus::Running, Some(here)) = (summary.status, surroundings) else {
        return summary.status;
    };
    let is_silent = || {
        let last = last_write_ns.unwrap_or(summary.started_at_ns);
        here.now_ns.saturating_sub(last) > SILENCE_NS
    };
    let is_here = summary.host == here.host && summary.pid >= 0;
    let is_gone = match is_here.then(|| (here.process)(summary.pid)) {
        Some(Process::Gone) => true,
        Some(Process::Alive {
            started_ns: Some(started),
        }) => started > summary.started_at_ns.saturating_add(START_SLACK_NS),
        Some(Process::Alive { started_ns: None }) => false,
        Some(Process::Unknown) | None => is_silent(),
    };
    if is_gone {
        SessionStatus::Interrupted
    } else {
        SessionStatus::Running
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
        }
    }

    fn judge(host: &str, process: Process, silent_for_s: i64) -> SessionStatus {
        let here = Surroundings {
            now_ns: 10_000_000_000_000,
            host: "here",
            process: &|_| process,
        };
        let last_write = here.now_ns - silent_for_s * 1_000_000_000;
        effective_status(&running(host), Some(last_write), Some(&here))
    }

    #[test]
    fn a_gone_process_was_interrupted() {
        let alive = Process::Alive { started_ns: None };
        let same = Process::Alive {
            started_ns: Some(999_000_000_000),
        };
        let other = Process::Alive {
            started_ns: Some(2_000_000_000_000),
        };
        assert_eq!(judge("here", Process::Gone, 0), SessionStatus::Interrupted);
        assert_eq!(judge("here", alive, 9999), SessionStatus::Running);
        assert_eq!(judge("here", same, 9999), SessionStatus::Running);
        assert_eq!(judge("here", other, 0), SessionStatus::Interrupted);
        assert_eq!(
            judge("here", Process::Unknown, 9999),
            SessionStatus::Interrupted
        );
        assert_eq!(judge("there", Process::Gone, 5), SessionStatus::Running);
        assert_eq!(judge("there", alive, 601), SessionStatus::Interrupted);
    }

    #[test]
    fn what_is_over_stays_as_it_is() {
        let summary = SessionSummary {
            status: SessionStatus::Completed,
            ..running("here")
        };
        assert_eq!(
            effective_status(&summary, None, None),
            SessionStatus::Completed
        );
    }
}
