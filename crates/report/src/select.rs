//! Which sessions belong on one picture.

use std::collections::BTreeSet;

use stormlog_analysis::LoadedSession;
use stormlog_analysis::timeline::run_id_of;

/// The sessions of the run that the first choice belongs to: itself, those of the other resources
/// of its process, and those of the same run or distributed job on other ranks, one for each rank
/// and resource.
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
    let mut seen = BTreeSet::from([place_of(chosen)]);
    let run_id = run_id_of(chosen);
    let summary = &chosen.summary;
    let is_job = summary.job_id.is_some() && summary.world_size > 1;
    for session in sessions.iter().filter(|session| !session.events.is_empty()) {
        let other = &session.summary;
        let same_run = run_id.is_some() && run_id_of(session) == run_id;
        let same_job =
            is_job && other.job_id == summary.job_id && other.world_size == summary.world_size;
        let same_process = other.rank == summary.rank
            && other.pid == summary.pid
            && other.host == summary.host
            && place_of(session) != place_of(chosen);
        if (same_run || same_job || same_process) && seen.insert(place_of(session)) {
            run.push(session);
        }
    }
    run.sort_by_key(|session| session.summary.rank);
    run
}

/// The rank of a session and its device.
fn place_of(session: &LoadedSession) -> (i64, Option<i64>) {
    let first = session.events.get(0);
    let device = first.map(|event| event.origin().device_id);
    (session.summary.rank, device)
}
