//! Which sessions belong on one picture.

use std::collections::BTreeSet;

use stormlog_analysis::LoadedSession;

/// The sessions of the run that the first choice belongs to: itself, and the sessions of
/// the same distributed job on other ranks, one for each rank.
///
/// `sessions` stand in order of preference, as the loader gives them; a named session is
/// taken alone with the other ranks of its job.
pub fn sessions_of_run<'a>(
    sessions: &[&'a LoadedSession],
    session_id: Option<&str>,
) -> Vec<&'a LoadedSession> {
    let chosen = match session_id {
        Some(id) => sessions
            .iter()
            .find(|session| session.summary.session_id == id),
        None => sessions
            .iter()
            .find(|session| !session.events.is_empty())
            .or_else(|| sessions.first()),
    };
    let Some(chosen) = chosen else {
        return Vec::new();
    };
    let mut run = vec![*chosen];
    let mut ranks = BTreeSet::from([chosen.summary.rank]);
    let summary = &chosen.summary;
    if summary.job_id.is_some() && summary.world_size > 1 {
        for session in sessions {
            let other = &session.summary;
            let same_job = other.job_id == summary.job_id && other.world_size == summary.world_size;
            if same_job && !session.events.is_empty() && ranks.insert(other.rank) {
                run.push(session);
            }
        }
    }
    run.sort_by_key(|session| session.summary.rank);
    run
}
