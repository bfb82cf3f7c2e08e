//! Groups sessions into runs, and sorts sessions so that the one to select by default comes first.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use stormlog_format::{SessionSummary, Text};

use super::start::run_id_of;
use crate::columns::Events;
use crate::load::LoadedSession;

/// A loaded session, and the artifact (a recording folder or another input) it was loaded from.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The index of the session's artifact among the loaded artifacts.
    pub artifact: usize,
    /// The session.
    pub session: &'a LoadedSession,
}

impl<'a> Member<'a> {
    /// Creates a member from the index of an artifact and a session loaded from it.
    pub fn of_pair((artifact, session): &'a (usize, impl Borrow<LoadedSession>)) -> Self {
        Self {
            artifact: *artifact,
            session: session.borrow(),
        }
    }
}

/// Groups sessions into runs. Each run is a list of indices into `members`, in ascending order.
///
/// Sessions with the same run id form a run. Sessions without a run id form a run if they have the
/// same job id. Sessions without a job id form a run if they are in the same artifact. Sessions
/// without a run id are split where a rank starts again, because a job may run every night under
/// the same name, and a sink may be used by several runs.
pub fn runs<'a>(members: impl IntoIterator<Item = Member<'a>>) -> Vec<Vec<usize>> {
    let sessions: Vec<GroupedBy> = members.into_iter().map(GroupedBy::of).collect();
    group(&sessions)
}

/// Groups sessions that are not loaded into runs, like [`runs`]. Each session is given as the index
/// of its artifact, its summary in a manifest and its run id.
pub fn runs_of_summaries<'a>(
    sessions: impl IntoIterator<Item = (usize, &'a SessionSummary, Option<Text>)>,
) -> Vec<Vec<usize>> {
    let sessions = sessions.into_iter();
    let sessions: Vec<GroupedBy> = sessions
        .map(|(artifact, summary, run_id)| GroupedBy {
            run_id,
            ..GroupedBy::of_summary(artifact, summary)
        })
        .collect();
    group(&sessions)
}

/// Groups sessions into runs, like [`runs`], the newest run first. The newest run is the one that
/// started last, even if an older run ended later; runs without events come last.
pub fn runs_newest_first<'a>(members: impl IntoIterator<Item = Member<'a>>) -> Vec<Vec<usize>> {
    let members: Vec<Member<'a>> = members.into_iter().collect();
    let mut runs = runs(members.iter().copied());
    runs.sort_by_cached_key(|run| {
        let sessions = run.iter().map(|&index| members[index].session);
        let recorded = sessions.filter(|session| !session.events.is_empty());
        Reverse(recorded.map(|session| session.summary.started_at_ns).min())
    });
    runs
}

/// The indices of the sessions of the newest run, or of the run of a given session, in order of
/// rank. If a session is given, other sessions with the same rank and resource are left out.
pub fn run_among(sessions: &[(usize, LoadedSession)], session_id: Option<&str>) -> Vec<usize> {
    let members = sessions.iter().map(Member::of_pair);
    let runs = runs_newest_first(members);
    let named = |index: usize| {
        let id = &sessions[index].1.summary.session_id;
        session_id.is_some_and(|wanted| *id == wanted)
    };
    let chosen = match session_id {
        None => runs.into_iter().next(),
        Some(_) => runs
            .into_iter()
            .find(|run| run.iter().any(|&one| named(one))),
    };
    let mut chosen = chosen.unwrap_or_default();
    let resource = |index: usize| {
        let session = &sessions[index].1;
        let first = session.events.get(0);
        let device = first.map(|event| event.origin().device_id);
        (session.summary.rank, device)
    };
    let of_named: Vec<_> = chosen
        .iter()
        .filter(|&&one| named(one))
        .map(|&one| resource(one))
        .collect();
    chosen.retain(|&one| named(one) || !of_named.contains(&resource(one)));
    chosen.sort_by_key(|&one| sessions[one].1.summary.rank);
    chosen
}

/// The indices of the sessions that recorded the given run id, in order of rank.
pub fn run_with_id(sessions: &[(usize, LoadedSession)], run_id: &str) -> Vec<usize> {
    let members = sessions.iter().map(Member::of_pair);
    let of_run = |&index: &usize| run_id_of(&sessions[index].1).is_some_and(|id| id == run_id);
    let mut runs = runs(members).into_iter();
    let mut found = runs.find(|run| run.iter().any(of_run)).unwrap_or_default();
    found.sort_by_key(|&index| sessions[index].1.summary.rank);
    found
}

/// The fields that decide which run a session belongs to.
#[derive(Clone, Debug)]
pub(crate) struct GroupedBy {
    pub(crate) artifact: usize,
    pub(crate) run_id: Option<Text>,
    pub(crate) job_id: Option<Text>,
    pub(crate) rank: i64,
    pub(crate) pid: i64,
    /// The ranks of the session's events, which may be those of several processes.
    pub(crate) ranks: BTreeSet<i64>,
    /// The device of the session's first event, -1 for host memory; `None` if unknown.
    pub(crate) device_id: Option<i64>,
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
}

impl GroupedBy {
    fn of(member: Member<'_>) -> Self {
        let session = member.session;
        let of_summary = Self::of_summary(member.artifact, &session.summary);
        let Some(first) = session.events.get(0) else {
            return of_summary;
        };
        Self {
            run_id: run_id_of(session),
            ranks: ranks_of(&session.events),
            device_id: Some(first.origin().device_id),
            first_ns: first.timestamp_ns(),
            last_ns: session.last_event_ns().unwrap_or(of_summary.last_ns),
            ..of_summary
        }
    }

    /// Creates the fields from a session summary in a manifest. The run id and the device are
    /// unknown, because only the events contain them.
    pub(crate) fn of_summary(artifact: usize, summary: &SessionSummary) -> Self {
        Self {
            artifact,
            run_id: None,
            job_id: summary.job_id.clone(),
            rank: summary.rank,
            pid: summary.pid,
            ranks: BTreeSet::from([summary.rank]),
            device_id: None,
            first_ns: summary.started_at_ns,
            last_ns: summary.ended_at_ns.unwrap_or(summary.started_at_ns),
        }
    }

    /// The rank, the process and the device that the session measures.
    fn resource(&self) -> (i64, i64, Option<i64>) {
        (self.rank, self.pid, self.device_id)
    }
}

/// Groups sessions into runs, as lists of indices, in the order of their first sessions.
pub(crate) fn group(sessions: &[GroupedBy]) -> Vec<Vec<usize>> {
    let mut jobs: Vec<(Key, Vec<usize>)> = Vec::new();
    let mut job_of = hashbrown::HashMap::new();
    for (index, session) in sessions.iter().enumerate() {
        let key = match (&session.run_id, &session.job_id) {
            (Some(id), _) => Key::Run(id.clone()),
            (None, Some(job)) => Key::Job(job.clone()),
            (None, None) => Key::Artifact(session.artifact),
        };
        let job = *job_of.entry(key.clone()).or_insert_with(|| {
            jobs.push((key, Vec::new()));
            jobs.len() - 1
        });
        jobs[job].1.push(index);
    }
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for (key, job) in jobs {
        match key {
            Key::Run(_) => runs.push(job),
            Key::Job(_) | Key::Artifact(_) => runs.extend(attempts(job, sessions)),
        }
    }
    // Runs are sorted by the index of their first session.
    runs.sort_by_key(|run| run.first().copied());
    runs
}

/// Sorts sessions so that the default one comes first: the newest session with events. Sessions
/// that ended normally are not preferred, so that an older normal run does not hide a newer one
/// that crashed.
pub fn newest_first<T>(sessions: &mut [T], session: impl Fn(&T) -> &LoadedSession) {
    sessions.sort_by_cached_key(|one| {
        let session = session(one);
        let summary = &session.summary;
        let ended = summary.ended_at_ns.max(session.last_event_ns());
        let newest = (
            ended.unwrap_or(summary.started_at_ns),
            summary.started_at_ns,
        );
        (
            session.events.is_empty(),
            Reverse(newest),
            summary.rank,
            summary.session_id.clone(),
        )
    });
}

/// The longest pause, in nanoseconds, between two sessions of a process that replaces its program
/// (exec).
const LONGEST_EXEC_NS: i64 = 60_000_000_000;

/// What the sessions of a run have in common: the run id, otherwise the job id, otherwise the
/// artifact that they were loaded from.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Run(Text),
    Job(Text),
    Artifact(usize),
}

/// The sessions to diagnose for each rank: those of devices or, for a rank without devices, those
/// of host memory.
pub fn of_devices<'a>(sessions: &[&'a LoadedSession]) -> Vec<&'a LoadedSession> {
    let is_device = |session: &LoadedSession| {
        let first = session.events.get(0);
        first.is_some_and(|event| event.origin().device_id >= 0)
    };
    let with_devices: BTreeSet<i64> = sessions
        .iter()
        .filter(|session| is_device(session))
        .map(|session| session.summary.rank)
        .collect();
    let wanted = |session: &&&LoadedSession| {
        is_device(session) || !with_devices.contains(&session.summary.rank)
    };
    sessions.iter().filter(wanted).copied().collect()
}

/// Splits the sessions of a job or artifact into attempts, the latest first. A new attempt begins
/// when a rank starts again in another process after all sessions of the previous attempt have
/// ended. The first session of a rank never begins a new attempt, so that ranks whose clocks differ
/// stay in one attempt.
fn attempts(mut job: Vec<usize>, sessions: &[GroupedBy]) -> Vec<Vec<usize>> {
    job.sort_by_key(|&index| sessions[index].first_ns);
    let mut attempts: Vec<Vec<usize>> = Vec::new();
    let mut ranks: BTreeSet<i64> = BTreeSet::new();
    let mut seen: BTreeSet<(i64, i64, Option<i64>)> = BTreeSet::new();
    let mut over_ns = i64::MIN;
    for index in job {
        let session = &sessions[index];
        let is_again = session.first_ns > over_ns
            && !ranks.is_disjoint(&session.ranks)
            && !goes_on(&seen, session, over_ns);
        if is_again || attempts.is_empty() {
            attempts.push(Vec::new());
            ranks.clear();
            seen.clear();
        }
        seen.insert(session.resource());
        over_ns = over_ns.max(session.last_ns);
        ranks.extend(&session.ranks);
        if let Some(attempt) = attempts.last_mut() {
            attempt.push(index);
        }
    }
    for attempt in &mut attempts {
        attempt.sort_unstable();
    }
    attempts.reverse();
    attempts
}

/// Whether a session continues a process that was seen before: one of the same rank and pid. Such a
/// session is the next one of a process that opened its sink again or replaced its program (exec),
/// which takes less than a minute; a later session may belong to the next run in a container, where
/// pids repeat. A session that measures another resource continues the process after any pause:
/// version 0.4.0 recorded host memory up to the first use of a device, and then only the device.
fn goes_on(seen: &BTreeSet<(i64, i64, Option<i64>)>, session: &GroupedBy, over_ns: i64) -> bool {
    let (rank, pid, _) = session.resource();
    let mut of_process = seen.range((rank, pid, None)..=(rank, pid, Some(i64::MAX)));
    let is_soon = session.first_ns.saturating_sub(over_ns) < LONGEST_EXEC_NS;
    of_process.next().is_some() && (is_soon || !seen.contains(&session.resource()))
}

/// The ranks of the given events. A rank is inserted only when it differs from that of the previous
/// event, because the rank rarely changes between neighbouring events.
fn ranks_of(events: &Events) -> BTreeSet<i64> {
    let mut ranks = BTreeSet::new();
    let mut last = None;
    for rank in events.iter().map(|event| event.origin().rank) {
        if last != Some(rank) {
            ranks.insert(rank);
            last = Some(rank);
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use stormlog_format::{Counters, Event, Map, SessionStatus, SessionSummary, Version};

    use super::*;

    fn session(id: &str, job: Option<&str>, rank: i64, span: (i64, i64)) -> LoadedSession {
        let event = |at_ns: i64| Event {
            version: Version::V3,
            session_id: id.into(),
            timestamp_ns: at_ns,
            event_type: "sample".into(),
            collector: "c".into(),
            sampling_interval_ms: 100,
            pid: 1,
            host: "h".into(),
            job_id: None,
            rank,
            local_rank: 0,
            world_size: 2,
            device_id: 0,
            counters: Counters::default(),
            context: None,
            metadata: Map::new(),
        };
        LoadedSession {
            summary: SessionSummary {
                session_id: id.into(),
                status: SessionStatus::Completed,
                started_at_ns: span.0,
                ended_at_ns: Some(span.1),
                host: "h".into(),
                // Each test session gets a pid of its own, so that it belongs to another process.
                pid: span.0,
                job_id: job.map(Into::into),
                rank,
                local_rank: 0,
                world_size: 2,
                source: "s".into(),
                recorder: None,
            },
            events: Events::from_events(&[event(span.0), event(span.1)]),
            sources: Vec::new(),
            damage: Vec::new(),
            thinned_until_ns: None,
        }
    }

    fn names(sessions: &[LoadedSession]) -> Vec<Vec<String>> {
        let numbered = sessions.iter().enumerate();
        let members = numbered.map(|(artifact, session)| Member { artifact, session });
        let name = |index: usize| sessions[index].summary.session_id.to_string();
        runs(members)
            .into_iter()
            .map(|run| run.into_iter().map(name).collect())
            .collect()
    }

    #[test]
    fn a_job_is_one_run_wherever_it_lies() {
        let sessions = [
            session("a", Some("j"), 0, (0, 9)),
            session("b", None, 0, (0, 9)),
            session("c", Some("j"), 1, (0, 9)),
            session("d", None, 0, (0, 9)),
        ];
        assert_eq!(names(&sessions), [vec!["a", "c"], vec!["b"], vec!["d"]]);
    }

    #[test]
    fn a_rank_that_starts_again_is_another_run() {
        let sessions = [
            session("tuesday", Some("j"), 0, (200, 210)),
            session("monday", Some("j"), 0, (100, 110)),
            // The clock of this rank is behind, so its session seems to end before the session of
            // the other rank begins.
            session("other rank", Some("j"), 1, (80, 90)),
            // The rank restarts while other ranks are still running, so its new session belongs to
            // the same run.
            session("restarted", Some("j"), 1, (205, 220)),
        ];
        assert_eq!(
            names(&sessions),
            [vec!["tuesday", "restarted"], vec!["monday", "other rank"]]
        );
    }

    #[test]
    fn a_process_that_opens_its_sink_again_goes_on_with_its_run() {
        let mut sessions = [
            session("first", None, 0, (100, 110)),
            session("second", None, 0, (120, 130)),
        ];
        sessions[1].summary.pid = sessions[0].summary.pid;
        let numbered = sessions.iter().map(|session| Member {
            artifact: 0,
            session,
        });
        assert_eq!(runs(numbered), [vec![0, 1]]);
    }

    #[test]
    fn a_process_with_the_pid_of_an_earlier_one_begins_another_run() {
        const MINUTE_NS: i64 = 60_000_000_000;
        let of_a_container = |start_ns: i64| {
            let mut one = session("one", Some("j"), 0, (start_ns, start_ns + 10));
            one.summary.pid = 1;
            one
        };
        let ended = of_a_container(100);
        let soon = of_a_container(100 + MINUTE_NS);
        let later = of_a_container(200 + MINUTE_NS);
        let count = |second: &LoadedSession| {
            let members = [&ended, second].map(|session| Member {
                artifact: 0,
                session,
            });
            runs(members).len()
        };
        assert_eq!((count(&soon), count(&later)), (1, 2));
    }

    #[test]
    fn a_session_without_events_is_a_run_by_its_times() {
        let sessions = [
            session("monday", Some("j"), 0, (100, 110)),
            LoadedSession {
                events: Events::default(),
                ..session("tuesday", Some("j"), 0, (200, 210))
            },
            session("wednesday", Some("j"), 0, (300, 310)),
        ];
        assert_eq!(
            names(&sessions),
            [vec!["monday"], vec!["tuesday"], vec!["wednesday"]]
        );
    }

    #[test]
    fn the_newest_run_is_the_one_that_started_last() {
        let sessions = [
            session("early", Some("a"), 0, (0, 10)),
            session("late rank of early", Some("a"), 1, (4, 90)),
            session("late", Some("b"), 0, (2, 5)),
            LoadedSession {
                events: Events::default(),
                ..session("empty", Some("c"), 0, (50, 60))
            },
        ];
        let numbered = sessions.iter().enumerate();
        let members = numbered.map(|(artifact, session)| Member { artifact, session });
        assert_eq!(runs_newest_first(members), [vec![2], vec![0, 1], vec![3]]);
    }

    #[test]
    fn a_newer_run_that_crashed_comes_before_an_older_one_that_ended_well() {
        let mut sessions = vec![
            session("well", None, 0, (0, 9)),
            session("crashed", None, 0, (20, 29)),
        ];
        sessions[1].summary.status = SessionStatus::Interrupted;
        sessions[1].summary.ended_at_ns = None;
        newest_first(&mut sessions, |session| session);
        assert_eq!(sessions[0].summary.session_id, "crashed");
    }
}
