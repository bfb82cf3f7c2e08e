//! The complete analysis of the given artifacts: their runs, the findings, and how much was
//! recorded.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::{SessionSummary, Text};

use crate::damage::Damage;
use crate::detect::{self, Diagnosis, Finding};
use crate::issue::{Issue, issues_of_findings};
use crate::load::{Loaded, LoadedSession, Removed};
use crate::timeline::{self, Member, RankCoverage, newest_first};

/// Options of an analysis: which sessions to analyze, and how many hours to look ahead.
#[derive(Clone, Debug)]
pub struct AnalyzeOptions {
    /// The id of the only session to analyze; `None` for all sessions.
    pub session_id: Option<String>,
    /// The only rank whose events are analyzed; `None` for all ranks.
    pub rank: Option<i64>,
    /// Memory growth that fills the device within this many hours is reported as a risk.
    pub oom_horizon_hours: f64,
}

impl Default for AnalyzeOptions {
    fn default() -> Self {
        Self {
            session_id: None,
            rank: None,
            oom_horizon_hours: detect::Options::default().oom_horizon_hours,
        }
    }
}

/// Why there is nothing to analyze: the artifacts do not contain the requested session or rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum AnalyzeError {
    #[error("Requested session_id not found: {0}")]
    SessionNotFound(String),
    #[error("no events of rank {rank}; the ranks are {known}")]
    RankNotFound { rank: i64, known: String },
}

impl AnalyzeError {
    pub(crate) fn rank_not_found<R: ToString>(rank: i64, known: &BTreeSet<R>) -> Self {
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        let known = known.join(", ");
        Self::RankNotFound { rank, known }
    }
}

/// The analysis of the sessions of one job, as one run.
#[derive(Debug)]
pub struct RunReport {
    /// The timeline of the run: its tracks, its command and how it ended.
    pub timeline: timeline::Run,
    /// The id that the scheduler gave the job, if recorded.
    pub job_id: Option<Text>,
    /// Number of ranks of the job: the declared world size or the highest recorded rank plus one,
    /// whichever is larger.
    pub world_size: i64,
    /// The sessions of the run, the newest first.
    pub sessions: Vec<SessionSummary>,
    /// Number of events of the run.
    pub events: usize,
    /// The findings about the run.
    pub diagnosis: Diagnosis,
    /// For each rank, how much of it was recorded.
    pub ranks: Vec<RankCoverage>,
    /// Ranks of the job without any recording; empty when only one rank is analyzed.
    pub missing_ranks: Vec<i64>,
}

/// Finds the report about a run by the sessions of the run.
pub(crate) struct ReportsBySessions<'r>(HashMap<(Vec<&'r Text>, usize), &'r RunReport>);

impl<'r> ReportsBySessions<'r> {
    pub(crate) fn of(reports: &'r [RunReport]) -> Self {
        let keyed = reports.iter().map(|report| {
            let ids = sorted_ids(report.sessions.iter());
            ((ids, report.events), report)
        });
        Self(keyed.collect())
    }

    /// The report about exactly these sessions, in any order. The number of events in the report
    /// must also be the number of events in these sessions.
    pub(crate) fn get(&self, sessions: &[&LoadedSession]) -> Option<&'r RunReport> {
        let events = sessions.iter().map(|session| session.events.len()).sum();
        let ids = sorted_ids(sessions.iter().map(|session| &session.summary));
        self.0.get(&(ids, events)).copied()
    }
}

fn sorted_ids<'a>(summaries: impl Iterator<Item = &'a SessionSummary>) -> Vec<&'a Text> {
    let mut ids: Vec<&Text> = summaries.map(|summary| &summary.session_id).collect();
    ids.sort();
    ids
}

/// The complete analysis of loaded artifacts, the result of [`analyze`].
#[derive(Debug)]
pub struct Report {
    /// Every session found in the artifacts.
    pub discovered: Vec<SessionSummary>,
    /// The runs, the newest first.
    pub runs: Vec<RunReport>,
    /// The findings as issues; an issue that occurs in several runs has the same fingerprint in
    /// each.
    pub issues: Vec<Issue>,
    /// Number of events of the analyzed sessions.
    pub events: usize,
    /// Lines and files that could not be read while loading the artifacts.
    pub damage: Vec<Damage>,
    /// Events that recorders deleted from their sinks by retention or thinning.
    pub removed: Removed,
}

impl Report {
    /// The findings of every run; within a run, the most severe finding comes first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.runs.iter().flat_map(|run| run.diagnosis.findings())
    }
}

/// Groups the sessions of loaded artifacts into runs, and searches each run for problems.
pub fn analyze(artifacts: &[Loaded], options: &AnalyzeOptions) -> Result<Report, AnalyzeError> {
    let sessions = in_order(artifacts);
    let discovered = sessions
        .iter()
        .map(|(_, session)| session.summary.clone())
        .collect();
    let (sessions, runs) = select(sessions, options)?;
    let runs: Vec<Vec<Member<'_>>> = runs
        .into_iter()
        .map(|run| {
            let members = run.into_iter().map(|index| Member {
                artifact: sessions[index].0,
                session: &sessions[index].1,
            });
            members.collect()
        })
        .collect();
    let reports: Vec<RunReport> = runs
        .par_iter()
        .map(|run| run_report(run, options))
        .collect();
    // The runs are reversed: they are ordered from the newest, but the history of an issue starts
    // with the oldest.
    let diagnosed = runs.iter().zip(&reports).rev();
    let diagnosed = diagnosed.map(|(run, report)| (run.as_slice(), &report.diagnosis));
    Ok(Report {
        discovered,
        events: sessions
            .iter()
            .map(|(_, session)| session.events.len())
            .sum(),
        issues: issues_of_findings(diagnosed),
        runs: reports,
        damage: artifacts
            .iter()
            .flat_map(|loaded| loaded.damage.clone())
            .collect(),
        removed: artifacts
            .iter()
            .fold(Removed::default(), |all, loaded| all.plus(loaded.removed)),
    })
}

/// Sessions, each with the number of its artifact: the index in the list of loaded artifacts.
pub type Numbered = Vec<(usize, LoadedSession)>;
/// The sessions to analyze, and the runs that they form. Each run is a list of indices into the
/// list of sessions.
pub type Selected = (Numbered, Vec<Vec<usize>>);

/// The requested sessions, each with the index of its artifact, and for each run the indices of its
/// sessions. Sessions and runs are ordered from the newest to the oldest.
pub fn select(mut sessions: Numbered, options: &AnalyzeOptions) -> Result<Selected, AnalyzeError> {
    choose(&mut sessions, options)?;
    let members = sessions.iter().map(Member::of_pair);
    let runs = timeline::runs_newest_first(members);
    Ok((sessions, runs))
}

/// Every session with the index of the artifact that it was loaded from, the newest first.
pub fn in_order(artifacts: &[Loaded]) -> Numbered {
    let mut sessions: Numbered = artifacts
        .iter()
        .enumerate()
        .flat_map(|(index, loaded)| loaded.sessions.iter().map(move |session| (index, session)))
        .map(|(index, session)| (index, session.clone()))
        .collect();
    newest_first(&mut sessions, |(_, session)| session);
    sessions
}

/// Removes the sessions and the events that do not belong to the session and rank of the options.
/// Fails if nothing remains.
fn choose(
    sessions: &mut Vec<(usize, LoadedSession)>,
    options: &AnalyzeOptions,
) -> Result<(), AnalyzeError> {
    if let Some(id) = &options.session_id {
        sessions.retain(|(_, session)| session.summary.session_id == id.as_str());
        if sessions.is_empty() {
            return Err(AnalyzeError::SessionNotFound(id.clone()));
        }
    }
    if let Some(rank) = options.rank {
        let events = sessions
            .iter()
            .flat_map(|(_, session)| session.events.iter());
        let known: BTreeSet<i64> = events.map(|event| event.origin().rank).collect();
        for (_, session) in sessions.iter_mut() {
            session.events = session.events.of_rank(rank);
        }
        sessions.retain(|(_, session)| !session.events.is_empty());
        if sessions.is_empty() {
            return Err(AnalyzeError::rank_not_found(rank, &known));
        }
    }
    Ok(())
}

pub(crate) fn detector_options(options: &AnalyzeOptions) -> detect::Options {
    detect::Options {
        oom_horizon_hours: options.oom_horizon_hours,
    }
}

/// The timeline of the sessions of one run, including the contents of their OOM bundles, and the
/// findings about the run.
#[must_use]
pub fn diagnosed(
    sessions: &[&LoadedSession],
    options: &detect::Options,
) -> (timeline::Run, Diagnosis) {
    let mut run = timeline::run_of(sessions);
    timeline::read_oom_bundles(&mut run, sessions);
    let diagnosis = detect::diagnose(&run, options);
    (run, diagnosis)
}

fn run_report(run: &[Member<'_>], options: &AnalyzeOptions) -> RunReport {
    let sessions: Vec<&LoadedSession> = run.iter().map(|member| member.session).collect();
    let (timeline, diagnosis) = diagnosed(&sessions, &detector_options(options));
    let ranks = timeline.by_rank();
    let declared = sessions.iter().map(|session| session.summary.world_size);
    let highest = ranks.last().map_or(0, |last| last.rank.saturating_add(1));
    let world_size = declared.max().unwrap_or(1).max(highest);
    let missing_ranks = match options.rank {
        Some(_) => Vec::new(),
        None => missing(&ranks, world_size),
    };
    RunReport {
        timeline,
        job_id: sessions
            .iter()
            .find_map(|session| session.summary.job_id.clone()),
        world_size,
        sessions: sessions
            .iter()
            .map(|session| session.summary.clone())
            .collect(),
        events: sessions.iter().map(|session| session.events.len()).sum(),
        diagnosis,
        ranks,
        missing_ranks,
    }
}

/// Only missing ranks below this number are listed, because a larger declared world size is
/// probably a mistake.
const LARGEST_WORLD: i64 = 1 << 20;

fn missing(ranks: &[RankCoverage], world_size: i64) -> Vec<i64> {
    let recorded: BTreeSet<i64> = ranks.iter().map(|one| one.rank).collect();
    (0..world_size.min(LARGEST_WORLD))
        .filter(|rank| !recorded.contains(rank))
        .collect()
}
