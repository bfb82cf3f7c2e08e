//! Finds the sessions at given paths that belong together in one chart or on one screen.

use std::path::PathBuf;

use stormlog_analysis::analyze::in_order;
use stormlog_analysis::timeline::run_among;
use stormlog_analysis::{Damage, LoadError, LoadOptions, LoadedSession, gather};

use crate::machine::settle_statuses;

/// The sessions of one run at some paths, and the damage found while loading.
#[derive(Clone, Debug, Default)]
pub struct RunOfPaths {
    /// The sessions of the run. Sessions from the same path are sorted by rank.
    pub sessions: Vec<LoadedSession>,
    /// The parts of the files that could not be read and were skipped.
    pub damage: Vec<Damage>,
}

/// Loads one run with all its ranks from each path: the newest run, or the run of the given
/// session. The files of the ranks may be side by side in one folder. If several paths are given,
/// the sessions from all of them count as ranks of the same run. Damaged records are skipped and
/// reported.
pub fn load_run(
    paths: &[PathBuf],
    session_id: Option<&str>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<RunOfPaths, (PathBuf, LoadError)> {
    let options = LoadOptions {
        progress,
        ..LoadOptions::skipping()
    };
    let mut run = RunOfPaths::default();
    for path in paths {
        let gathered = gather(std::slice::from_ref(path), &options)?;
        let mut sessions = in_order(&gathered.loaded);
        let damage = gathered.loaded.into_iter().flat_map(|one| one.damage);
        run.damage.extend(damage);
        settle_statuses(sessions.iter_mut().map(|(_, session)| session));
        for index in run_among(&sessions, session_id) {
            let session = &sessions[index].1;
            if !is_among(&run.sessions, session) {
                run.sessions.push(session.clone());
            }
        }
    }
    Ok(run)
}

/// Whether the session was already loaded from another path. Sessions with the same id but
/// different events are not equal, because ranks of one job may have the same session id in
/// different files.
fn is_among(sessions: &[LoadedSession], session: &LoadedSession) -> bool {
    let key = |session: &LoadedSession| {
        let first = session.events.get(0);
        let first = first.map(|event| (event.timestamp_ns(), event.origin().rank));
        (first, session.events.len())
    };
    let same = |other: &LoadedSession| {
        other.summary.session_id == session.summary.session_id && key(other) == key(session)
    };
    sessions.iter().any(same)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_ranks_of_a_job_may_lie_side_by_side_in_a_folder() {
        let sink = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/two_ranks");
        let folder = tempfile::tempdir().expect("a folder");
        for rank in 0..2 {
            let own = folder.path().join(format!("rank-{rank:04}"));
            std::fs::create_dir(&own).expect("made");
            let segment = format!("segment-00000{}.jsonl", rank + 1);
            std::fs::copy(sink.join(segment), own.join("events.jsonl")).expect("copied");
        }
        let root = folder.path().to_path_buf();
        let run = load_run(&[root], None, &|_| {}).expect("it loads");
        let sessions = run.sessions.iter();
        let ranks: Vec<i64> = sessions.map(|session| session.summary.rank).collect();
        assert_eq!(ranks, [0, 1]);
    }
}
