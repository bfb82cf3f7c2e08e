//! Finds the runs whose sessions have a run id in their first events.

use hashbrown::HashMap;
use stormlog_format::Text;

use super::catalog::SourceKind;
use super::sessions::SessionRow;
use crate::catalog::first_events;
use crate::timeline::{GroupedBy, Start, group};

/// A run whose sessions have the same run id.
pub(super) struct RecordedRun<'s> {
    pub(super) id: Text,
    /// The name of the program, or else a title made of the id.
    pub(super) title: Text,
    pub(super) sessions: Vec<&'s SessionRow>,
}

/// The runs of the sessions that have a run id.
pub(super) fn recorded_runs<'s>(
    sessions: &'s [SessionRow],
    starts: &HashMap<Text, Start>,
) -> Vec<RecordedRun<'s>> {
    let start_of = |row: &SessionRow| starts.get(&row.summary.session_id);
    let grouped_by = |row: &'s SessionRow| {
        let run_id = start_of(row)?.run_id.clone()?;
        // Sessions with a run id are grouped by it alone, wherever they are stored.
        let of_summary = GroupedBy::of_summary(0, &row.summary);
        let grouped_by = GroupedBy {
            run_id: Some(run_id.clone()),
            ..of_summary
        };
        Some((row, run_id, grouped_by))
    };
    let recorded: Vec<_> = sessions.iter().filter_map(grouped_by).collect();
    let grouped: Vec<GroupedBy> = recorded.iter().map(|(_, _, one)| one.clone()).collect();
    let runs = group(&grouped).into_iter().map(|members| {
        let id = recorded[members[0]].1.clone();
        let sessions: Vec<&SessionRow> = members.iter().map(|&index| recorded[index].0).collect();
        let mut programs = sessions.iter().filter_map(|row| {
            let program = start_of(row)?.program.as_ref()?;
            program.name.as_deref().filter(|name| !name.is_empty())
        });
        let title = programs
            .next()
            .map_or_else(|| format!("Run {id}").into(), Text::from);
        RecordedRun {
            id,
            title,
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
