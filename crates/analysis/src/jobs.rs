//! Which sessions are one run: those of one run id, or else of one job. And which of these are one
//! attempt at it.

use std::collections::BTreeSet;

use stormlog_format::Text;

use crate::columns::{EventRef, Events};
use crate::load::LoadedSession;
use crate::timeline::run_id_of;

/// A session and the artifact that it lies in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) artifact: usize,
    pub(crate) session: &'a LoadedSession,
}

/// Sessions of one run id are one run; without one, those of one job id, and without that, those of
/// one artifact. What `stormlog run` recorded into one folder again and again is as many runs.
pub(crate) fn runs<'a>(members: impl IntoIterator<Item = Member<'a>>) -> Vec<Vec<Member<'a>>> {
    let members: Vec<Member<'a>> = members.into_iter().collect();
    let runs = places(members.iter().copied()).into_iter();
    runs.map(|run| run.into_iter().map(|place| members[place]).collect())
        .collect()
}

/// The same as places in what was given.
pub(crate) fn places<'a>(members: impl IntoIterator<Item = Member<'a>>) -> Vec<Vec<usize>> {
    let members: Vec<Member<'a>> = members.into_iter().collect();
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut run_of = hashbrown::HashMap::new();
    for (place, member) in members.iter().enumerate() {
        let key = match (run_id_of(member.session), &member.session.summary.job_id) {
            (Some(id), _) => Key::Run(id),
            (None, Some(job)) => Key::Job(job.clone()),
            (None, None) => Key::Artifact(member.artifact),
        };
        let run = *run_of.entry(key).or_insert_with(|| {
            runs.push(Vec::new());
            runs.len() - 1
        });
        runs[run].push(place);
    }
    let split = runs
        .into_iter()
        .flat_map(|run| started_again(run, &members));
    split.collect()
}

/// The longest time between two sessions of a process that replaces its program.
const LONGEST_EXEC_NS: i64 = 60_000_000_000;

/// What sessions of one run have in common.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Run(Text),
    Job(Text),
    Artifact(usize),
}

/// Splits sessions without a run id where `stormlog run` was started again: version 0.4.0 began
/// each run with a session of the host's memory, and gave runs no id.
fn started_again(run: Vec<usize>, members: &[Member<'_>]) -> Vec<Vec<usize>> {
    let begins = |place: usize| members[place].session.summary.source == "stormlog.run";
    let has_id = |place: usize| run_id_of(members[place].session).is_some();
    if run.iter().filter(|&&place| begins(place)).count() < 2 || run.iter().any(|&p| has_id(p)) {
        return vec![run];
    }
    let start = |place: usize| members[place].session.summary.started_at_ns;
    let mut ordered = run.clone();
    ordered.sort_by_key(|&place| start(place));
    let mut starts: Vec<i64> = Vec::new();
    let mut seen: BTreeSet<(i64, i64)> = BTreeSet::new();
    let mut over_ns = i64::MIN;
    for place in ordered {
        let summary = &members[place].session.summary;
        let process = (summary.rank, summary.pid);
        // A program that replaces itself (exec) keeps its pid; in a container so may the next run.
        let is_exec = seen.contains(&process)
            && summary.started_at_ns.saturating_sub(over_ns) < LONGEST_EXEC_NS;
        let is_again = begins(place)
            && summary.started_at_ns > over_ns
            && seen.iter().any(|one| one.0 == process.0)
            && !is_exec;
        if is_again || starts.is_empty() {
            starts.push(summary.started_at_ns);
            seen.clear();
        }
        seen.insert(process);
        over_ns = over_ns.max(summary.ended_at_ns.unwrap_or(summary.started_at_ns));
    }
    // Each part keeps the order in which its sessions came, and so do the parts.
    let part_of = |place: usize| starts.partition_point(|&at| at <= start(place));
    let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
    for place in run {
        let part = part_of(place);
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, places)) => places.push(place),
            None => parts.push((part, vec![place])),
        }
    }
    parts.into_iter().map(|(_, places)| places).collect()
}

/// The sessions to judge of each rank: those of devices, where there are any. What was recorded of
/// the host's memory says nothing about a device.
pub(crate) fn of_devices<'a>(sessions: &[&'a LoadedSession]) -> Vec<&'a LoadedSession> {
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

/// The attempts at a run, the earliest first: the next one begins when a rank starts again
/// after every session of the one before is over.
///
/// A job that is started every night under one name, and a sink that is opened again and
/// again, are one run of many attempts. Ranks whose clocks differ stay together.
pub(crate) fn attempts<'a>(run: &[Member<'a>]) -> Vec<Vec<Member<'a>>> {
    let mut spans: Vec<Span<'a>> = run.iter().filter_map(|member| Span::of(*member)).collect();
    spans.sort_by_key(|span| span.first_ns);
    let mut attempts: Vec<Vec<Member<'a>>> = Vec::new();
    let mut ranks: BTreeSet<i64> = BTreeSet::new();
    let mut resources: BTreeSet<(i64, i64, i64)> = BTreeSet::new();
    let mut over_ns = i64::MIN;
    for span in spans {
        let again = span.first_ns > over_ns
            && !ranks.is_disjoint(&span.ranks)
            && !goes_on(&resources, &span);
        if again || attempts.is_empty() {
            attempts.push(Vec::new());
            ranks.clear();
            resources.clear();
        }
        resources.insert(span.resource);
        over_ns = over_ns.max(span.last_ns);
        ranks.extend(&span.ranks);
        if let Some(attempt) = attempts.last_mut() {
            attempt.push(span.member);
        }
    }
    attempts
}

/// When a session was recorded, and on which ranks.
struct Span<'a> {
    member: Member<'a>,
    first_ns: i64,
    last_ns: i64,
    ranks: BTreeSet<i64>,
    /// Rank, pid and device.
    resource: (i64, i64, i64),
}

/// Whether a session is of another resource of a process that was seen: version 0.4.0 recorded host
/// memory up to the first use of a device, and then the device.
fn goes_on(seen: &BTreeSet<(i64, i64, i64)>, span: &Span<'_>) -> bool {
    let (rank, pid, _) = span.resource;
    let mut of_process = seen.range((rank, pid, i64::MIN)..=(rank, pid, i64::MAX));
    of_process.next().is_some() && !seen.contains(&span.resource)
}

impl<'a> Span<'a> {
    /// Nothing for a session without events.
    fn of(member: Member<'a>) -> Option<Self> {
        let events = &member.session.events;
        let time = |place: usize| events.get(place).map(EventRef::timestamp_ns);
        Some(Self {
            member,
            first_ns: time(0)?,
            last_ns: time(events.len() - 1)?,
            ranks: ranks_of(events),
            resource: (
                member.session.summary.rank,
                member.session.summary.pid,
                events.get(0)?.origin().device_id,
            ),
        })
    }
}

/// The ranks of some events, which seldom change from one event to the next.
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
                pid: 1,
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

    fn names(groups: &[Vec<Member<'_>>]) -> Vec<Vec<String>> {
        let name = |member: &Member<'_>| member.session.summary.session_id.to_string();
        groups
            .iter()
            .map(|group| group.iter().map(name).collect())
            .collect()
    }

    fn members(sessions: &[LoadedSession]) -> Vec<Member<'_>> {
        let numbered = sessions.iter().enumerate();
        numbered
            .map(|(artifact, session)| Member { artifact, session })
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
        let runs = runs(members(&sessions));
        assert_eq!(names(&runs), [vec!["a", "c"], vec!["b"], vec!["d"]]);
    }

    #[test]
    fn a_rank_that_starts_again_is_another_attempt() {
        let sessions = [
            session("tuesday", Some("j"), 0, (200, 210)),
            session("monday", Some("j"), 0, (100, 110)),
            // Its clock is behind: over before the other rank begins, and yet beside it.
            session("other rank", Some("j"), 1, (80, 90)),
            // Back while the others still run: they are one attempt.
            session("restarted", Some("j"), 1, (205, 220)),
        ];
        let attempts = attempts(&members(&sessions));
        assert_eq!(
            names(&attempts),
            [vec!["other rank", "monday"], vec!["tuesday", "restarted"]]
        );
    }
}
