//! Follows a run that is still being recorded: each call reads the events appended since the
//! previous call and diagnoses the run so far.

use std::path::PathBuf;

use crate::analyze::diagnosed;
use crate::catalog::artifacts_at;
use crate::detect::{self, Diagnosis};
use crate::load::{LiveSessions, LoadedSession, TooLarge};
use crate::query::{Surroundings, settle_statuses};
use crate::timeline::{Member, Run, runs_newest_first};

/// The result of reading a run that is still being recorded.
#[derive(Debug)]
pub struct LiveLook {
    /// The tracks of the run, its command and its state so far.
    pub timeline: Run,
    /// The findings of the detectors about the run so far.
    pub diagnosis: Diagnosis,
}

/// Follows the newest run below a directory while it is being recorded.
pub struct LiveRun {
    root: PathBuf,
    rank: Option<i64>,
    sessions: LiveSessions,
}

impl LiveRun {
    /// Follows the sinks below a directory, for all ranks or for one rank.
    pub fn new(root: PathBuf, rank: Option<i64>) -> Self {
        Self {
            root,
            rank,
            sessions: LiveSessions::default(),
        }
    }

    /// Reads the new events and diagnoses the newest run; `None` while no session has begun. A file
    /// that cannot be read now is tried again at the next call. `here` decides whether the sessions
    /// are still recorded.
    pub fn look(
        &mut self,
        options: &detect::Options,
        here: &Surroundings<'_>,
    ) -> Result<Option<LiveLook>, TooLarge> {
        let loaded = self
            .sessions
            .read(&artifacts_at(&self.root).unwrap_or_default())?;
        let loaded = loaded.into_iter().enumerate();
        let mut sessions: Vec<(usize, LoadedSession)> = loaded
            .flat_map(|(index, one)| one.sessions.into_iter().map(move |one| (index, one)))
            .collect();
        let is_wanted = |session: &LoadedSession| {
            !session.events.is_empty() && self.rank.is_none_or(|rank| session.summary.rank == rank)
        };
        sessions.retain(|(_, session)| is_wanted(session));
        settle_statuses(sessions.iter_mut().map(|(_, session)| session), here);
        let members = sessions.iter().map(Member::of_pair);
        let Some(newest) = runs_newest_first(members).into_iter().next() else {
            return Ok(None);
        };
        let newest: Vec<&LoadedSession> = newest.iter().map(|index| &sessions[*index].1).collect();
        let (timeline, diagnosis) = diagnosed(&newest, options);
        Ok(Some(LiveLook {
            timeline,
            diagnosis,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::path::Path;

    use super::*;
    use crate::load::{LoadOptions, load_sessions};
    use crate::query::Process;
    use crate::timeline::End;

    fn here() -> Surroundings<'static> {
        Surroundings {
            now_ns: i64::MAX,
            host: "here",
            reader: None,
            process: &|_| Process::Gone,
        }
    }

    fn leak() -> (tempfile::TempDir, Vec<u8>) {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
        let file = File::open(runs.join("h200_leak_graph/events.jsonl.gz")).unwrap();
        let mut lines = Vec::new();
        let mut stream = flate2::read::GzDecoder::new(file);
        stream.read_to_end(&mut lines).unwrap();
        (tempfile::tempdir().unwrap(), lines)
    }

    #[test]
    fn what_is_appended_is_read_only_in_whole_lines() {
        let (folder, lines) = leak();
        let segment = folder.path().join("segment-000001.jsonl");
        let mut live = LiveRun::new(folder.path().into(), None);
        let options = detect::Options::default();
        let mut file = File::create(&segment).unwrap();
        // The lines are written in pieces that may end anywhere in a line.
        for piece in lines.chunks(lines.len() / 7 + 1) {
            file.write_all(piece).unwrap();
            let look = live.look(&options, &here()).unwrap().unwrap();
            let expected = load_sessions(folder.path(), &LoadOptions::default()).unwrap();
            let run = crate::timeline::run_of(&[&expected.sessions[0]]);
            assert_eq!(look.timeline.tracks, run.tracks);
        }
        // A file that was replaced is read again from its beginning.
        let replaced = folder.path().join("replaced");
        let half = memchr::memrchr(b'\n', &lines[..lines.len() / 2]).unwrap() + 1;
        std::fs::write(&replaced, &lines[..half]).unwrap();
        std::fs::rename(&replaced, &segment).unwrap();
        let look = live.look(&options, &here()).unwrap().unwrap();
        let expected = load_sessions(folder.path(), &LoadOptions::default()).unwrap();
        let run = crate::timeline::run_of(&[&expected.sessions[0]]);
        assert_eq!(look.timeline.tracks, run.tracks);
    }

    #[test]
    fn a_recorder_that_was_killed_does_not_run() {
        let (folder, lines) = leak();
        let half = memchr::memrchr(b'\n', &lines[..lines.len() / 2]).unwrap() + 1;
        std::fs::write(folder.path().join("segment-000001.jsonl"), &lines[..half]).unwrap();
        let manifest = r#"{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
            "sessions": [{"session_id": "a91fa8e7-330d-4eb2-b4e1-342a6bf41110",
            "status": "running", "started_at_ns": 1, "ended_at_ns": null, "host": "here",
            "pid": 7, "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1,
            "source": "stormlog.tracker"}], "segments": []}"#;
        std::fs::write(folder.path().join("manifest.json"), manifest).unwrap();
        let mut live = LiveRun::new(folder.path().into(), None);
        let look = live.look(&detect::Options::default(), &here()).unwrap();
        assert_eq!(look.unwrap().timeline.end(), End::Unknown);
    }

    #[test]
    fn an_empty_directory_and_another_rank_have_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let options = detect::Options::default();
        let mut live = LiveRun::new(folder.path().into(), None);
        assert!(live.look(&options, &here()).unwrap().is_none());
        let (folder, lines) = leak();
        std::fs::write(folder.path().join("segment-000001.jsonl"), lines).unwrap();
        let mut live = LiveRun::new(folder.path().into(), Some(7));
        assert!(live.look(&options, &here()).unwrap().is_none());
    }
}
