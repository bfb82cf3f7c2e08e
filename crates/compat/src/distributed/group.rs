//! Joins sessions that belong together: the sessions of files without session ids, and those of the
//! ranks of one job.

use std::collections::{BTreeMap, BTreeSet};

use stormlog_analysis::Events;
use stormlog_analysis::LoadedSession;
use stormlog_format::{SessionStatus, SessionSummary, Text, stable_legacy_session_id};

/// Joins the sessions of files whose records have no session id into one session; `None` when there
/// are no such files.
pub(super) fn without_names(
    files: &[(LoadedSession, Vec<String>)],
) -> Option<(LoadedSession, Vec<String>)> {
    if files.is_empty() {
        return None;
    }
    let sessions: Vec<&LoadedSession> = files.iter().map(|(session, _)| session).collect();
    let sources = sources(&sessions);
    let parts = std::iter::once("distributed.legacy").chain(sources.iter().map(String::as_str));
    let id = stable_legacy_session_id(&parts.map(Text::from).collect::<Vec<_>>());
    let merged = merged(&sessions, id, "stormlog.diagnostics.legacy");
    let warnings = files.iter().flat_map(|(_, warnings)| warnings.clone());
    Some((merged, warnings.collect()))
}

/// For every job whose ranks are in separate paths, joins the sessions of the ranks to one session.
pub(super) fn ranks_of_jobs(
    sessions: &[(LoadedSession, Vec<String>)],
    alone: &BTreeSet<Text>,
) -> Vec<(LoadedSession, Vec<String>)> {
    let mut jobs: BTreeMap<(&Text, i64), Vec<&LoadedSession>> = BTreeMap::new();
    for (session, _) in sessions {
        let summary = &session.summary;
        let job = summary
            .job_id
            .as_ref()
            .filter(|job| !job.as_bytes().is_empty());
        if let Some(job) = job
            && summary.world_size > 1
            && alone.contains(&summary.session_id)
        {
            jobs.entry((job, summary.world_size))
                .or_default()
                .push(session);
        }
    }
    let mut groups = Vec::new();
    for ((job, world_size), of_job) in jobs {
        let ranks: BTreeSet<i64> = of_job.iter().map(|session| session.summary.rank).collect();
        let fits = i64::try_from(of_job.len()).is_ok_and(|count| count <= world_size);
        if of_job.len() < 2 || ranks.len() != of_job.len() || !fits {
            continue;
        }
        let ids: BTreeSet<&Text> = of_job
            .iter()
            .map(|session| &session.summary.session_id)
            .collect();
        let mut parts: Vec<Text> = vec![
            "distributed.rank_group".into(),
            job.clone(),
            world_size.to_string().into(),
        ];
        parts.extend(ids.into_iter().cloned());
        let id = stable_legacy_session_id(&parts);
        groups.push((
            merged(&of_job, id, "stormlog.diagnostics.distributed"),
            Vec::new(),
        ));
    }
    groups
}

fn merged(sessions: &[&LoadedSession], id: Text, source: &str) -> LoadedSession {
    let summaries = || sessions.iter().map(|session| &session.summary);
    let completed = summaries().all(|one| one.status == SessionStatus::Completed);
    let jobs = summaries().filter_map(|one| one.job_id.clone());
    let summary = SessionSummary {
        status: if completed {
            SessionStatus::Completed
        } else {
            SessionStatus::Incomplete
        },
        started_at_ns: summaries().map(|one| one.started_at_ns).min().unwrap_or(0),
        ended_at_ns: summaries()
            .filter_map(|one| one.ended_at_ns)
            .max()
            .filter(|_| completed),
        host: only(summaries().map(|one| one.host.clone())).unwrap_or_else(|| "multiple".into()),
        pid: only(summaries().map(|one| one.pid)).unwrap_or(-1),
        job_id: only(jobs),
        rank: summaries().map(|one| one.rank).min().unwrap_or(0),
        local_rank: summaries().map(|one| one.local_rank).min().unwrap_or(0),
        world_size: summaries().map(|one| one.world_size).max().unwrap_or(1),
        source: source.into(),
        session_id: id,
        recorder: None,
    };
    let events: Vec<&Events> = sessions.iter().map(|session| &session.events).collect();
    LoadedSession {
        events: Events::merged(&events).of_session(&summary.session_id),
        sources: sources(sessions),
        damage: sessions
            .iter()
            .flat_map(|session| session.damage.clone())
            .collect(),
        thinned_until_ns: sessions
            .iter()
            .filter_map(|session| session.thinned_until_ns)
            .max(),
        summary,
    }
}

fn sources(sessions: &[&LoadedSession]) -> Vec<String> {
    let all: BTreeSet<&String> = sessions
        .iter()
        .flat_map(|session| &session.sources)
        .collect();
    all.into_iter().cloned().collect()
}

/// The value that all items have in common; `None` when they differ or there are none.
fn only<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let distinct: BTreeSet<T> = values.collect();
    let mut distinct = distinct.into_iter();
    match (distinct.next(), distinct.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}
