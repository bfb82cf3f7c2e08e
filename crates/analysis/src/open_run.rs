//! An opened run: its recordings are loaded, the statuses of their sessions settled, sessions
//! selected, grouped into runs and diagnosed. This is the only code with that sequence. A refresh
//! reads only what was appended.

mod pace;
mod recordings;

use std::path::PathBuf;
use std::sync::Arc;

use stormlog_format::{SessionStatus, Text};

pub use pace::Pace;
use recordings::Recordings;

use crate::analyze::{AnalyzeError, AnalyzeOptions, Report, analyze, diagnosed, in_order};
use crate::damage::Damage;
use crate::detect::{self, Diagnosis};
use crate::gather::Gathered;
use crate::issue::{Issue, IssueFilter};
use crate::liveness::Surroundings;
use crate::load::{LoadOptions, Loaded, LoadedSession, TooLarge};
use crate::load_error::LoadError;
use crate::query::Store;
use crate::timeline::{Run, run_among, run_with_id};

/// Which sessions of the recordings at some paths are opened.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The ids of the sessions; empty for all sessions.
    pub sessions: Vec<Text>,
    /// The only rank whose sessions are opened; `None` for all ranks.
    pub rank: Option<i64>,
    /// The session whose run is selected; `None` for the newest run.
    pub session_id: Option<String>,
    /// Whether artifacts other than sinks are ignored, as well as files that cannot be read now.
    /// Sinks that are too large to be followed are then an error.
    pub only_sinks: bool,
}

/// The runs at some paths, of which one is selected. [`refresh`](Self::refresh) updates them while
/// they are recorded.
#[derive(Default)]
pub struct OpenRun {
    recordings: Recordings,
    choice: Choice,
    /// The report about all runs, until the next refresh.
    report: Option<Arc<Report>>,
}

/// One run with its findings.
#[derive(Debug)]
pub struct DiagnosedRun {
    /// The sessions of the run, in order of rank.
    pub sessions: Vec<LoadedSession>,
    /// The tracks of the run, its command and its state so far.
    pub timeline: Run,
    /// The findings of the detectors about the run so far.
    pub diagnosis: Diagnosis,
    /// The parts of the files that could not be read and were skipped.
    pub damage: Vec<Damage>,
}

/// Why a refresh failed. The state before the refresh remains, and the next refresh tries again.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// A file cannot be read now, for example because it is being renamed.
    #[error("'{}': {}", .0.display(), .1)]
    Unread(PathBuf, LoadError),
    /// The recordings are too large to be followed.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl OpenRun {
    /// A run at the given paths of which nothing was read yet.
    pub fn new(paths: Vec<PathBuf>, choice: Choice) -> Self {
        Self {
            recordings: Recordings::new(paths),
            choice,
            report: None,
        }
    }

    /// Loads the recordings at the given paths. `here` decides which sessions are still recorded.
    pub fn open(
        paths: &[PathBuf],
        choice: Choice,
        options: &LoadOptions<'_>,
        here: &Surroundings<'_>,
    ) -> Result<Self, (PathBuf, LoadError)> {
        let mut run = Self::new(paths.to_vec(), choice);
        run.recordings.load(&run.choice, options, here)?;
        Ok(run)
    }

    /// Opens one run at each path, and joins their sessions as the ranks of one run. A session that
    /// is found at several paths counts once.
    pub fn joined(
        paths: &[PathBuf],
        session_id: Option<&str>,
        options: &LoadOptions<'_>,
        here: &Surroundings<'_>,
    ) -> Result<DiagnosedRun, (PathBuf, LoadError)> {
        let (mut sessions, mut damage) = (Vec::new(), Vec::new());
        let choice = Choice {
            session_id: session_id.map(str::to_owned),
            ..Choice::default()
        };
        for path in paths {
            let run = Self::open(std::slice::from_ref(path), choice.clone(), options, here)?;
            for session in run.selected() {
                if !is_among(&sessions, &session) {
                    sessions.push(session);
                }
            }
            for one in run.damage() {
                if !damage.contains(&one) {
                    damage.push(one);
                }
            }
        }
        Ok(DiagnosedRun::of(sessions, damage))
    }

    /// Reads what was appended to the recordings that are still written, and loads other files that
    /// have changed. Skips and lists damage. After an error the runs are those before the refresh.
    pub fn refresh(
        &mut self,
        progress: &(dyn Fn(u64) + Sync),
        here: &Surroundings<'_>,
    ) -> Result<(), RefreshError> {
        self.recordings.refresh(&self.choice, progress, here)?;
        self.report = None;
        Ok(())
    }

    /// Selects other sessions, which the next refresh reads.
    pub fn choose(&mut self, paths: Vec<PathBuf>, choice: Choice) {
        self.recordings.paths = paths;
        self.choice = choice;
    }

    /// Selects the run of a session, or the newest run. The report lists the selected run first.
    pub fn select(&mut self, session_id: Option<String>) {
        self.choice.session_id = session_id;
        self.report = None;
    }

    /// The loaded artifacts.
    pub fn gathered(&self) -> &Gathered {
        &self.recordings.gathered
    }

    /// The contents of the artifacts.
    pub fn loaded(&self) -> &[Loaded] {
        &self.recordings.gathered.loaded
    }

    /// The number of bytes of the files of which what was read is kept for the next refresh.
    pub fn followed_bytes(&self) -> u64 {
        self.recordings.followed_bytes()
    }

    /// Whether one of the sessions is still recorded.
    pub fn is_running(&self) -> bool {
        let mut sessions = self.loaded().iter().flat_map(|one| &one.sessions);
        sessions.any(|session| session.summary.status == SessionStatus::Running)
    }

    /// The report about all runs, the selected run first. It is made once for each refresh.
    pub fn report(&mut self) -> Result<Arc<Report>, AnalyzeError> {
        if let Some(report) = &self.report {
            return Ok(Arc::clone(report));
        }
        let mut report = analyze(self.loaded(), &AnalyzeOptions::default())?;
        if let Some(id) = &self.choice.session_id {
            let mut runs = report.runs.iter();
            let of_session = runs.position(|run| {
                let mut sessions = run.sessions.iter();
                sessions.any(|session| session.session_id == id.as_str())
            });
            report.runs.swap(0, of_session.unwrap_or(0));
        }
        Ok(Arc::clone(self.report.insert(Arc::new(report))))
    }

    /// The issues of all runs. Findings are those of the report; `store` answers the queries about
    /// everything else.
    pub fn issues(&mut self, store: &Store) -> Result<Vec<Issue>, AnalyzeError> {
        let report = self.report()?;
        let (filter, states) = (IssueFilter::default(), std::collections::HashMap::new());
        Ok(store.issues_of_report(&report, &filter, &states))
    }

    /// The selected run with its findings; a run without sessions if there is none.
    pub fn diagnosed(&self) -> DiagnosedRun {
        DiagnosedRun::of(self.selected(), self.damage())
    }

    /// The run with the given recorded id and its findings; a run without sessions if there is
    /// none.
    pub fn diagnosed_with_id(&self, run_id: &str) -> DiagnosedRun {
        let sessions = in_order(self.loaded());
        let chosen = run_with_id(&sessions, run_id);
        let chosen = chosen.iter().map(|&one| sessions[one].1.clone()).collect();
        DiagnosedRun::of(chosen, self.damage())
    }

    fn selected(&self) -> Vec<LoadedSession> {
        let sessions = in_order(self.loaded());
        let chosen = run_among(&sessions, self.choice.session_id.as_deref());
        chosen.iter().map(|&one| sessions[one].1.clone()).collect()
    }

    fn damage(&self) -> Vec<Damage> {
        let damage = self.loaded().iter().flat_map(|one| &one.damage);
        damage.cloned().collect()
    }
}

impl DiagnosedRun {
    /// Diagnoses the sessions of one run.
    pub fn of(sessions: Vec<LoadedSession>, damage: Vec<Damage>) -> Self {
        let references: Vec<&LoadedSession> = sessions.iter().collect();
        let (timeline, diagnosis) = diagnosed(&references, &detect::Options::default());
        Self {
            sessions,
            timeline,
            diagnosis,
            damage,
        }
    }

    /// Whether one of the sessions is still recorded.
    pub fn is_running(&self) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|session| session.summary.status == SessionStatus::Running)
    }
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
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::path::Path;

    use super::*;
    use crate::liveness::Process;
    use crate::timeline::End;

    const SEGMENT: &str = "segment-000001.jsonl";

    fn here(process: &(dyn Fn(i64) -> Process + Sync)) -> Surroundings<'_> {
        Surroundings {
            now_ns: i64::MAX,
            host: "here",
            reader: None,
            process,
        }
    }

    fn alive(_pid: i64) -> Process {
        Process::Alive {
            started_ns: None,
            identity: None,
        }
    }

    fn gone(_pid: i64) -> Process {
        Process::Gone
    }

    /// A folder with the manifest of a running session, and the lines of a leak.
    fn leak() -> (tempfile::TempDir, Vec<u8>) {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
        let file = File::open(runs.join("h200_leak_graph/events.jsonl.gz")).unwrap();
        let mut lines = Vec::new();
        let mut stream = flate2::read::GzDecoder::new(file);
        stream.read_to_end(&mut lines).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
            "sessions": [{"session_id": "a91fa8e7-330d-4eb2-b4e1-342a6bf41110",
            "status": "running", "started_at_ns": 1, "ended_at_ns": null, "host": "here",
            "pid": 7, "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1,
            "source": "stormlog.tracker"}], "segments": []}"#;
        std::fs::write(folder.path().join("manifest.json"), manifest).unwrap();
        (folder, lines)
    }

    fn opened(folder: &Path, process: &(dyn Fn(i64) -> Process + Sync)) -> OpenRun {
        let options = LoadOptions::skipping();
        let paths = [folder.to_path_buf()];
        OpenRun::open(&paths, Choice::default(), &options, &here(process)).unwrap()
    }

    fn half(lines: &[u8]) -> &[u8] {
        &lines[..=memchr::memrchr(b'\n', &lines[..lines.len() / 2]).unwrap()]
    }

    #[test]
    fn a_refresh_over_appended_pieces_equals_opening_all() {
        let (folder, lines) = leak();
        for only_sinks in [false, true] {
            let choice = Choice {
                only_sinks,
                ..Choice::default()
            };
            let mut run = OpenRun::new(vec![folder.path().into()], choice);
            let mut file = File::create(folder.path().join(SEGMENT)).unwrap();
            // The lines are written in pieces that may end anywhere in a line.
            for piece in lines.chunks(lines.len() / 7 + 1) {
                file.write_all(piece).unwrap();
                run.refresh(&|_| {}, &here(&alive)).unwrap();
                assert!(run.is_running());
                let mut whole = opened(folder.path(), &alive);
                let (new, expected) = (run.report().unwrap(), whole.report().unwrap());
                assert_eq!(new.runs.len(), 1);
                assert_eq!(
                    new.runs[0].timeline.tracks,
                    expected.runs[0].timeline.tracks
                );
                let findings = |report: &Report| format!("{:?}", report.runs[0].diagnosis);
                assert_eq!(findings(&new), findings(&expected));
                assert_eq!(
                    format!("{:?}", new.issues),
                    format!("{:?}", expected.issues)
                );
            }
            assert_eq!(run.followed_bytes(), lines.len() as u64);
            // A file that was replaced is read again from its beginning.
            let replaced = folder.path().join(".replaced");
            std::fs::write(&replaced, half(&lines)).unwrap();
            std::fs::rename(&replaced, folder.path().join(SEGMENT)).unwrap();
            run.refresh(&|_| {}, &here(&alive)).unwrap();
            let whole = opened(folder.path(), &alive).diagnosed();
            assert_eq!(run.diagnosed().timeline.tracks, whole.timeline.tracks);
        }
    }

    #[test]
    fn a_report_is_made_once_for_each_refresh_and_lists_the_selected_run_first() {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let paths = ["recordings/ddp_two_ranks", "runs/two_ranks"].map(|name| runs.join(name));
        let options = LoadOptions::skipping();
        let open = OpenRun::open(&paths, Choice::default(), &options, &here(&gone));
        let mut run = open.unwrap();
        let first = run.report().unwrap();
        let store = Store::open(&paths);
        store.supply(run.gathered().whole_files());
        let issues = run.issues(&store).unwrap();
        assert!(Arc::ptr_eq(&first, &run.report().unwrap()));
        let alone = store.issues_with_findings(&IssueFilter::default(), &[].into());
        assert_eq!(format!("{issues:?}"), format!("{alone:?}"));
        let last = first.runs.last().unwrap().sessions[0].session_id.clone();
        assert_ne!(first.runs[0].sessions[0].session_id, last);
        run.select(Some(last.to_str_lossy().into_owned()));
        let second = run.report().unwrap();
        assert_eq!(second.runs[0].sessions[0].session_id, last);
        run.refresh(&|_| {}, &here(&gone)).unwrap();
        assert!(!Arc::ptr_eq(&second, &run.report().unwrap()));
    }

    #[test]
    fn artifacts_that_did_not_change_are_not_loaded_again() {
        let (folder, lines) = leak();
        std::fs::write(folder.path().join(SEGMENT), &lines).unwrap();
        let mut run = OpenRun::new(vec![folder.path().into()], Choice::default());
        let mut read = |lines: &[u8]| {
            let mut file = File::options()
                .append(true)
                .open(folder.path().join(SEGMENT))
                .unwrap();
            file.write_all(lines).unwrap();
            run.refresh(&|_| {}, &here(&gone)).unwrap();
            Arc::clone(&run.loaded()[0].sessions[0].events.table)
        };
        let first = read(b"");
        assert!(Arc::ptr_eq(&first, &read(b"")));
        assert!(!Arc::ptr_eq(&first, &read(half(&lines))));
    }

    #[test]
    fn a_file_that_vanishes_during_a_refresh_is_tried_again() {
        let (folder, lines) = leak();
        let sink = folder.path().join("sink");
        std::fs::create_dir(&sink).unwrap();
        let manifest = folder.path().join("manifest.json");
        std::fs::rename(manifest, sink.join("manifest.json")).unwrap();
        std::fs::write(sink.join(SEGMENT), half(&lines)).unwrap();
        let mut run = OpenRun::new(vec![sink.clone()], Choice::default());
        run.refresh(&|_| {}, &here(&alive)).unwrap();
        let before = run.report().unwrap();
        let moved = folder.path().join("moved");
        std::fs::rename(&sink, &moved).unwrap();
        let failed = run.refresh(&|_| {}, &here(&alive));
        assert!(matches!(failed, Err(RefreshError::Unread(..))));
        assert!(Arc::ptr_eq(&before, &run.report().unwrap()));
        std::fs::rename(&moved, &sink).unwrap();
        std::fs::write(sink.join(SEGMENT), &lines).unwrap();
        run.refresh(&|_| {}, &here(&alive)).unwrap();
        assert!(run.report().unwrap().events > before.events);
    }

    #[test]
    fn damage_is_listed_once() {
        let (folder, lines) = leak();
        let mut damaged = half(&lines).to_vec();
        damaged.extend_from_slice(b"{\"torn\": \n");
        std::fs::write(folder.path().join(SEGMENT), &damaged).unwrap();
        let paths = [folder.path().to_path_buf(), folder.path().to_path_buf()];
        let options = LoadOptions::skipping();
        let joined = OpenRun::joined(&paths, None, &options, &here(&alive)).unwrap();
        assert_eq!((joined.sessions.len(), joined.damage.len()), (1, 1));
        let mut run = OpenRun::new(paths[..1].to_vec(), Choice::default());
        for line in lines[half(&lines).len()..]
            .split_inclusive(|byte| *byte == b'\n')
            .take(3)
        {
            damaged.extend_from_slice(line);
            std::fs::write(folder.path().join(SEGMENT), &damaged).unwrap();
            run.refresh(&|_| {}, &here(&alive)).unwrap();
            assert_eq!(run.diagnosed().damage, joined.damage);
        }
        // The torn last line of a recorder that was killed is damage, too.
        damaged.extend_from_slice(b"{\"schema");
        std::fs::write(folder.path().join(SEGMENT), &damaged).unwrap();
        run.refresh(&|_| {}, &here(&alive)).unwrap();
        assert_eq!(run.diagnosed().damage.len(), 1);
        run.refresh(&|_| {}, &here(&gone)).unwrap();
        assert_eq!(run.diagnosed().damage.len(), 2);
    }

    #[test]
    fn a_recorder_that_was_killed_does_not_run() {
        let (folder, lines) = leak();
        std::fs::write(folder.path().join(SEGMENT), half(&lines)).unwrap();
        let choice = Choice {
            only_sinks: true,
            ..Choice::default()
        };
        let mut run = OpenRun::new(vec![folder.path().into()], choice);
        run.refresh(&|_| {}, &here(&gone)).unwrap();
        assert!(!run.is_running());
        assert_eq!(run.diagnosed().timeline.end(), End::Unknown);
    }

    #[test]
    fn an_empty_directory_and_another_rank_have_no_run() {
        let empty = tempfile::tempdir().unwrap();
        let (folder, lines) = leak();
        std::fs::write(folder.path().join(SEGMENT), lines).unwrap();
        for (path, rank) in [(empty.path(), None), (folder.path(), Some(7))] {
            let choice = Choice {
                rank,
                only_sinks: true,
                ..Choice::default()
            };
            let mut run = OpenRun::new(vec![path.into()], choice);
            run.refresh(&|_| {}, &here(&alive)).unwrap();
            assert!(run.diagnosed().sessions.is_empty());
        }
    }

    #[test]
    fn the_ranks_of_a_job_may_lie_side_by_side_in_a_folder() {
        let sink = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/two_ranks");
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..2 {
            let own = folder.path().join(format!("rank-{rank:04}"));
            std::fs::create_dir(&own).unwrap();
            let segment = format!("segment-00000{}.jsonl", rank + 1);
            std::fs::copy(sink.join(segment), own.join("events.jsonl")).unwrap();
        }
        let options = LoadOptions::skipping();
        let paths = [folder.path().to_path_buf()];
        let run = OpenRun::joined(&paths, None, &options, &here(&gone)).unwrap();
        let sessions = run.sessions.iter();
        let ranks: Vec<i64> = sessions.map(|session| session.summary.rank).collect();
        assert_eq!(ranks, [0, 1]);
    }
}
