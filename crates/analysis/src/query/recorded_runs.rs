//! Finds the runs whose sessions have a run id in their first events.

use hashbrown::HashMap;
use stormlog_format::Text;

use super::catalog::SourceKind;
use super::sessions::SessionRow;
use crate::catalog::first_events;
use crate::timeline::{Program, Start, runs_of_summaries};

/// A run whose sessions have the same run id.
pub(super) struct RecordedRun<'s> {
    pub(super) id: Text,
    /// The name of the run or of its program, or else a title made of the id.
    pub(super) title: Text,
    pub(super) program: Program,
    pub(super) sessions: Vec<&'s SessionRow>,
}

/// The runs of the sessions that have a run id.
pub(super) fn recorded_runs<'s>(
    sessions: &'s [SessionRow],
    starts: &HashMap<Text, Start>,
) -> Vec<RecordedRun<'s>> {
    let start_of = |row: &SessionRow| starts.get(&row.summary.session_id);
    let recorded: Vec<(&SessionRow, &Text)> = sessions
        .iter()
        .filter_map(|row| Some((row, start_of(row)?.run_id.as_ref()?)))
        .collect();
    let grouped = recorded
        .iter()
        .map(|(row, id)| (0, &row.summary, Some(Text::clone(id))));
    let runs = runs_of_summaries(grouped).into_iter().map(|members| {
        let id = recorded[members[0]].1.clone();
        let sessions: Vec<&SessionRow> = members.iter().map(|&index| recorded[index].0).collect();
        let mut programs = sessions.iter().filter_map(|row| {
            let program = start_of(row)?.program.as_ref()?;
            program
                .shown_name()
                .is_some_and(|name| !name.is_empty())
                .then_some(program)
        });
        let program = programs.next().cloned().unwrap_or_default();
        let title = program.shown_name();
        let title = title.map_or_else(|| format!("Run {id}").into(), Text::from);
        RecordedRun {
            id,
            title,
            program,
            sessions,
        }
    });
    runs.collect()
}

impl super::Store {
    /// What the first events of each session record. Of a sink that is not loaded, only the first
    /// events are read.
    pub(super) fn starts(&self) -> HashMap<Text, Start> {
        let mut starts = HashMap::new();
        for (index, source) in self.catalog().sources.iter().enumerate() {
            if source.kind == SourceKind::DiagnoseBundle {
                continue;
            }
            let manifest = source.manifest.as_ref().filter(|_| !self.is_loaded(index));
            if let Some(manifest) = manifest.filter(|manifest| !manifest.sessions.is_empty()) {
                for summary in &manifest.sessions {
                    let id = &summary.session_id;
                    let start = Start::of(first_events(&source.path, manifest, id));
                    starts.extend(start.map(|start| (id.clone(), start)));
                }
                continue;
            }
            for session in &self.loaded(index).sessions {
                let start = Start::of_session(session);
                let id = session.summary.session_id.clone();
                starts.extend(start.map(|start| (id, start)));
            }
        }
        starts
    }
}
