//! A loaded run: its tracks, its findings and how it ended. The events are dropped from memory when
//! the data for the pages has been computed.

use std::path::PathBuf;

use stormlog_analysis::detect::{Diagnosis, Level};
use stormlog_analysis::timeline::Run;
use stormlog_analysis::{Damage, DiagnosedRun};
use stormlog_report::{Badge, Story};

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

    /// What the analysis found in the run.
    pub(crate) fn verdict(&self) -> Verdict {
        let verdict = self.diagnosis.verdict();
        let findings = self.diagnosis.findings();
        let label = findings.first().map(|finding| finding.label());
        let line = label.and_then(|label| verdict.verdict.strip_prefix(&label));
        let text = line.unwrap_or(&verdict.verdict).trim_start();
        Verdict {
            level: verdict.level,
            badge: Badge::of(&self.diagnosis),
            text: if self.story.verdict.is_some() {
                text.to_owned()
            } else {
                "no samples were recorded".to_owned()
            },
        }
    }
}

/// The verdict on a run.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) level: Option<Level>,
    pub(crate) badge: Badge,
    /// The verdict in one line, without the level of the first finding.
    pub(crate) text: String,
}
