//! A loaded run: its tracks, its findings and how it ended. The events are dropped from memory when
//! the data for the pages has been computed.

use std::path::PathBuf;

use stormlog_analysis::detect::{Diagnosis, Severity};
use stormlog_analysis::timeline::Run;
use stormlog_analysis::{Damage, DiagnosedRun};
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
    /// Loads a run.
    pub(crate) fn load(
        entry: &Entry,
        machine: &dyn Machine,
        live: &LiveRuns,
    ) -> Result<Self, String> {
        live.with(entry, machine, |run| Ok(Self::of(run.diagnosed())))
    }

    /// Computes what the pages show about a run.
    pub(crate) fn of(run: DiagnosedRun) -> Self {
        let mut folders: Vec<PathBuf> = run
            .sessions
            .iter()
            .flat_map(|session| &session.sources)
            .filter_map(|file| Some(PathBuf::from(file).parent()?.to_path_buf()))
            .collect();
        folders.sort();
        folders.dedup();
        Self {
            story: Story::of_diagnosed(&run),
            is_running: run.is_running(),
            run: run.timeline,
            diagnosis: run.diagnosis,
            damage: run.damage,
            folders,
        }
    }

    /// What the analysis found in the run, in a sentence, with the severity of the worst finding.
    pub(crate) fn verdict(&self) -> (Severity, String) {
        let known = self.story.verdict.clone();
        known.unwrap_or((Severity::Info, "no samples were recorded".to_owned()))
    }
}
