//! Runs the analyses of stormlog 0.3.9 on one run.

use std::collections::BTreeSet;

use crate::gap::{self, GapFinding, GapThresholds};
use crate::phases::{PhaseAttribution, PhaseReplay};
use stormlog_analysis::analyze::{
    AnalyzeError, AnalyzeOptions, Numbered, Report, analyze, in_order, select,
};
use stormlog_analysis::{Events, Loaded, LoadedSession, timeline};
use stormlog_format::{SessionSummary, byte_text};

use crate::collective::{self, CollectiveAttribution, CollectiveConfig};
use crate::cross_rank::{self, CrossRank, FirstCause};

/// The results of stormlog 0.3.9's analyses of one run.
#[derive(Debug)]
pub struct Analyses {
    /// The session that stormlog 0.3.9 would select for its analysis, if any.
    pub selected: Option<SessionSummary>,
    /// Findings about the gap between the memory used on the device and the memory reserved by the
    /// allocator, each with the phase of the program in which it occurred.
    pub gaps: Vec<(GapFinding, Option<PhaseAttribution>)>,
    /// The time spans in which a gap is attributed to collective communication, such as an
    /// all-reduce.
    pub collectives: Vec<CollectiveAttribution>,
    /// The ranks on a common time line, and the ranks whose memory rose first; `None` for a run
    /// with a single rank.
    pub ranks: Option<(CrossRank, FirstCause)>,
}

impl Analyses {
    /// Returns Stormlog's own report on loaded artifacts, and the results of stormlog 0.3.9's
    /// analyses of the run that contains the selected session. Both are computed in parallel.
    pub fn with_report(
        artifacts: &[Loaded],
        options: &AnalyzeOptions,
    ) -> Result<(Report, Self), AnalyzeError> {
        let (report, analyses) = rayon::join(
            || analyze(artifacts, options),
            || {
                let (sessions, runs) = select(in_order(artifacts), options)?;
                let (selected, run) = selected(&sessions, &runs);
                Ok(Self::of(selected, &run))
            },
        );
        Ok((report?, analyses?))
    }

    /// Runs the analyses of stormlog 0.3.9 on the sessions of a run. Stormlog 0.3.9 itself analyses
    /// only one session. When the ranks were recorded in separate sessions, one session of each
    /// rank is analyzed: the first in the order of `selection_key`. That order puts completed
    /// sessions before interrupted, incomplete and running ones, and then later sessions before
    /// earlier ones.
    fn of(selected: Option<&LoadedSession>, run: &[&LoadedSession]) -> Self {
        let mut ranks = BTreeSet::new();
        let mut sessions = run.to_vec();
        sessions.sort_by(|a, b| a.summary.selection_key().cmp(&b.summary.selection_key()));
        let chosen: Vec<&Events> = timeline::of_devices(&sessions)
            .into_iter()
            .filter(|session| ranks.insert(session.summary.rank))
            .map(|session| &session.events)
            .collect();
        // The events of the sessions are joined rank by rank, so that the samples of a rank are
        // adjacent in memory.
        let events = Events::joined(&chosen);
        let replay = PhaseReplay::of_events(&events);
        let resolve = cross_rank::resolver(&replay);
        let several = || {
            let mut ranks = events.iter().map(|event| event.origin().rank);
            let first = ranks.next();
            ranks.any(|rank| Some(rank) != first)
        };
        let (ranks, (gaps, collectives)) = rayon::join(
            || {
                several().then(|| {
                    let cross = cross_rank::merge(&events);
                    let cause = cross.first_cause(Some(&resolve));
                    (cross, cause)
                })
            },
            || {
                let gaps = gaps(&chosen, &events, &replay);
                let config = CollectiveConfig::default();
                (
                    gaps,
                    collective::attribute(&events, &config, Some(&resolve)),
                )
            },
        );
        Self {
            selected: selected.map(|session| session.summary.clone()),
            gaps,
            collectives,
            ranks,
        }
    }
}

/// The session that stormlog 0.3.9 would select, and the sessions of its run, the newest first.
fn selected<'s>(
    sessions: &'s Numbered,
    runs: &[Vec<usize>],
) -> (Option<&'s LoadedSession>, Vec<&'s LoadedSession>) {
    let chosen = (0..sessions.len()).min_by_key(|&index| {
        let session = &sessions[index].1;
        (session.events.is_empty(), session.summary.selection_key())
    });
    let is_chosen = |index: &usize| chosen == Some(*index);
    let run = runs.iter().find(|run| run.iter().any(is_chosen));
    let session = |index: usize| &sessions[index].1;
    (
        chosen.map(session),
        run.into_iter()
            .flatten()
            .map(|&index| session(index))
            .collect(),
    )
}

/// The findings about the gap between used and reserved memory, for the events of all ranks in
/// order of time. Sorting millions of events takes long, so it is skipped if no gap is large enough
/// to be reported.
fn gaps(
    chosen: &[&Events],
    events: &Events,
    replay: &PhaseReplay,
) -> Vec<(GapFinding, Option<PhaseAttribution>)> {
    let thresholds = GapThresholds::default();
    if !gap::is_remarkable(events, &thresholds) {
        return Vec::new();
    }
    let events = Events::merged(chosen);
    let findings = gap::analyze(&events, &thresholds, &byte_text).into_iter();
    findings
        .map(|finding| {
            let event = events.get(finding.place);
            let phase = event.and_then(|event| replay.resolve_event(event));
            (finding, phase)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use stormlog_analysis::{LoadOptions, gather};

    use super::*;

    #[test]
    fn the_selected_session_brings_the_sessions_of_its_run() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let paths = ["recordings/ddp_two_ranks", "runs/two_ranks"].map(|name| fixtures.join(name));
        let loaded = gather(&paths, &LoadOptions::default()).expect("it loads");
        let options = AnalyzeOptions::default();
        let (sessions, runs) = select(in_order(&loaded.loaded), &options).expect("sessions");
        assert!(runs.len() > 1);
        let (one, run) = selected(&sessions, &runs);
        let id = &one.expect("a session").summary.session_id;
        let (report, analyses) = Analyses::with_report(&loaded.loaded, &options).expect("analyzed");
        assert_eq!(
            analyses.selected.map(|one| one.session_id),
            Some(id.clone())
        );
        let found: Vec<_> = run.iter().map(|one| one.summary.clone()).collect();
        let mut runs = report.runs.iter().map(|run| &run.sessions);
        let expected = runs.find(|run| run.iter().any(|one| one.session_id == *id));
        assert_eq!(Some(&found), expected);
        let no_sessions = Vec::new();
        let (nothing, of_nothing) = selected(&no_sessions, &[]);
        assert!(nothing.is_none() && of_nothing.is_empty());
    }
}
