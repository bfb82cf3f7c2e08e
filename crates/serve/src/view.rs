//! A loaded run: its tracks, its findings and how it ended. The events are dropped from memory when
//! the data for the pages has been computed.

use std::path::PathBuf;

use stormlog_analysis::analyze::{diagnosed, in_order};
use stormlog_analysis::detect::{self, Diagnosis, Severity};
use stormlog_analysis::query::settle_statuses;
use stormlog_analysis::timeline::{Run, run_among};
use stormlog_analysis::{Damage, LoadOptions, Loaded, LoadedSession, gather};
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

/// Reads the files of a run. Records that cannot be read are skipped and listed as damage.
pub(crate) fn recordings(entry: &Entry, live: &LiveRuns) -> Result<Vec<Loaded>, String> {
    let mut recordings = match live.read(entry) {
        Some(recordings) => recordings,
        None => {
            gather(&entry.paths, &LoadOptions::skipping())
                .map_err(|(path, error)| format!("{}: {error}", path.display()))?
                .loaded
        }
    };
    // A sink may also contain sessions of other runs, which are not shown on the page of this run.
    let ids = &entry.sessions;
    for loaded in &mut recordings {
        let sessions = &mut loaded.sessions;
        sessions.retain(|one| ids.is_empty() || ids.contains(&one.summary.session_id));
    }
    Ok(recordings)
}

impl View {
    /// Loads a run.
    pub(crate) fn load(
        entry: &Entry,
        machine: &dyn Machine,
        live: &LiveRuns,
    ) -> Result<Self, String> {
        Ok(Self::of(recordings(entry, live)?, machine))
    }

    /// Computes what the pages show about the given recordings. If files without a manifest contain
    /// several runs, the newest run is shown.
    pub(crate) fn of(recordings: Vec<Loaded>, machine: &dyn Machine) -> Self {
        let mut sessions = in_order(&recordings);
        let damage = recordings.into_iter().flat_map(|one| one.damage).collect();
        machine.surroundings(&mut |here| {
            settle_statuses(sessions.iter_mut().map(|(_, session)| session), here);
        });
        let chosen = run_among(&sessions, None).into_iter();
        let chosen: Vec<&LoadedSession> = chosen.map(|one| &sessions[one].1).collect();
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
        Self {
            is_running: chosen.iter().any(|one| one.summary.status == running),
            run,
            diagnosis,
            story,
            damage,
            folders,
        }
    }

    /// What the analysis found in the run, in a sentence, with the severity of the worst finding.
    pub(crate) fn verdict(&self) -> (Severity, String) {
        let known = self.story.verdict.clone();
        known.unwrap_or((Severity::Info, "no samples were recorded".to_owned()))
    }
}
