//! Runs the analyses of stormlog 0.3.9 on one run.

use std::collections::BTreeSet;

use crate::gap::{self, GapFinding, GapThresholds};
use crate::phases::{PhaseAttribution, PhaseReplay};
use stormlog_analysis::analyze::{AnalyzeError, AnalyzeOptions, Report, analyze_alongside};
use stormlog_analysis::{Events, Loaded, LoadedSession, timeline};
use stormlog_format::byte_text;

use crate::collective::{self, CollectiveAttribution, CollectiveConfig};
use crate::cross_rank::{self, CrossRank, FirstCause};

/// The results of stormlog 0.3.9's analyses of one run.
#[derive(Debug)]
pub struct Analyses {
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
        analyze_alongside(artifacts, options, Self::of)
    }

    /// Runs the analyses of stormlog 0.3.9 on the sessions of a run. Stormlog 0.3.9 itself analyses
    /// only one session. When the ranks were recorded in separate sessions, one session of each
    /// rank is analyzed: the first in the order of `selection_key`. That order puts completed
    /// sessions before interrupted, incomplete and running ones, and then later sessions before
    /// earlier ones.
    fn of(run: &[&LoadedSession]) -> Self {
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
            gaps,
            collectives,
            ranks,
        }
    }
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
