//! A loaded run: its tracks, its findings and how it ended. The events are dropped from memory when
//! the data for the pages has been computed.

use std::path::PathBuf;

use stormlog_analysis::analyze::diagnosed;
use stormlog_analysis::detect::{self, Diagnosis, Severity};
use stormlog_analysis::query::settle_statuses;
use stormlog_analysis::timeline::{self, Member, Run, newest_first};
use stormlog_analysis::{Damage, LoadOptions, LoadedSession, gather};
use stormlog_report::Story;

use crate::live::LiveRuns;
use crate::machine::Machine;
use crate::runs::Entry;

/// A loaded run with all data that its pages show.
pub(crate) struct View {
    pub(crate) run: Run,
    pub(crate) diagnosis: Diagnosis,
    pub(crate) story: Story,
    pub(crate) damage: Vec<Damage>,
    /// The folders that contain the files of the run, in which snapshots of PyTorch's allocator may
    /// lie too.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) is_running: bool,
}

impl View {
    /// Loads a run. Records that cannot be read are skipped, and the page lists them as damage. If
    /// files without a manifest contain several runs, the newest run is shown.
    pub(crate) fn load(
        entry: &Entry,
        machine: &dyn Machine,
        live: &LiveRuns,
    ) -> Result<Self, String> {
        let options = LoadOptions::skipping();
        let recordings = match live.read(entry) {
            Some(recordings) => recordings,
            None => {
                gather(&entry.paths, &options)
                    .map_err(|(path, error)| format!("{}: {error}", path.display()))?
                    .loaded
            }
        };
        let mut damage = Vec::new();
        let mut sessions: Vec<(usize, LoadedSession)> = Vec::new();
        for (artifact, loaded) in recordings.into_iter().enumerate() {
            damage.extend(loaded.damage);
            sessions.extend(loaded.sessions.into_iter().map(|one| (artifact, one)));
        }
        // A sink may also contain sessions of other runs, which are not shown on the page of this
        // run.
        let ids = &entry.sessions;
        sessions.retain(|(_, one)| ids.is_empty() || ids.contains(&one.summary.session_id));
        machine.surroundings(&mut |here| {
            settle_statuses(sessions.iter_mut().map(|(_, session)| session), here);
        });
        newest_first(&mut sessions, |(_, session)| session);
        let members = sessions.iter().map(Member::of_pair);
        let newest = timeline::runs_newest_first(members).into_iter().next();
        let mut chosen = newest.unwrap_or_default();
        chosen.sort_by_key(|&one| sessions[one].1.summary.rank);
        let chosen: Vec<&LoadedSession> = chosen.into_iter().map(|one| &sessions[one].1).collect();
        let (run, diagnosis) = diagnosed(&chosen, &detect::Options::default());
        let mut story = Story::of_run(&run, &chosen);
        story.add_diagnosis(&diagnosis);
        let running = stormlog_format::SessionStatus::Running;
        let mut folders: Vec<PathBuf> = chosen
            .iter()
            .flat_map(|session| &session.sources)
            .filter_map(|file| Some(PathBuf::from(file).parent()?.to_path_buf()))
            .collect();
        folders.sort();
        folders.dedup();
        Ok(Self {
            is_running: chosen.iter().any(|one| one.summary.status == running),
            run,
            diagnosis,
            story,
            damage,
            folders,
        })
    }

    /// What the analysis found in the run, in a sentence, with the severity of the worst finding.
    pub(crate) fn verdict(&self) -> (Severity, String) {
        let known = self.story.verdict.clone();
        known.unwrap_or((Severity::Info, "no samples were recorded".to_owned()))
    }
}
