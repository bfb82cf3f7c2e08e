//! Everything that is said about some artifacts: runs, what is wrong with them, and how much
//! was recorded.

use std::collections::BTreeSet;

use rayon::prelude::*;
use stormlog_format::{SessionSummary, Text};

use crate::detect::{self, Diagnosis, Finding};
use crate::issue::{Issue, issues_of_findings};
use crate::load::{Damage, Loaded, LoadedSession, Removed};
use crate::timeline::{self, Member, RankCoverage, newest_first};

/// What to look at and how far ahead.
#[derive(Clone, Debug)]
pub struct AnalyzeOptions {
    /// Look at this session only.
    pub session_id: Option<String>,
    /// Look at this rank only.
    pub rank: Option<i64>,
    /// How far ahead running out of memory counts as a risk, in hours.
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

/// Why there is nothing to analyse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AnalyzeError {
    #[error("Requested session_id not found: {0}")]
    SessionNotFound(String),
    #[error("no events of rank {rank}; the ranks are {known}")]
    RankNotFound { rank: i64, known: String },
}

/// Sessions of one job, as one run.
#[derive(Debug)]
pub struct RunReport {
    /// Its tracks, what was run and how it ended.
    pub timeline: timeline::Run,
    /// The job, where it has a name.
    pub job_id: Option<Text>,
    /// How many ranks the job has, as far as its records say.
    pub world_size: i64,
    /// Its sessions, the newest first.
    pub sessions: Vec<SessionSummary>,
    /// What is wrong with it.
    pub diagnosis: Diagnosis,
    /// What was recorded of each rank.
    pub ranks: Vec<RankCoverage>,
    /// Ranks of which nothing was recorded.
    pub missing_ranks: Vec<i64>,
}

/// Everything that is said about some artifacts.
#[derive(Debug)]
pub struct Report {
    /// The session that stormlog 0.3.9 would choose, where there is one.
    pub selected: Option<SessionSummary>,
    /// Every session that was found.
    pub discovered: Vec<SessionSummary>,
    /// The runs, the newest first.
    pub runs: Vec<RunReport>,
    /// The findings as issues, with the fingerprints that they have in other runs too.
    pub issues: Vec<Issue>,
    /// The sessions of the run of the selected session, the newest first.
    pub selected_run: Vec<LoadedSession>,
    /// Events that were looked at.
    pub events: usize,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// What the writers of sinks did not keep.
    pub removed: Removed,
}

impl Report {
    /// The findings of every run, each run's worst first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.runs.iter().flat_map(|run| run.diagnosis.findings())
    }
}

/// Analyses what was loaded, one element for each artifact.
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
            let members = run.into_iter().map(|place| Member {
                artifact: sessions[place].0,
                session: &sessions[place].1,
            });
            members.collect()
        })
        .collect();
    let selected = sessions.iter().map(|(_, session)| session);
    let selected = selected.min_by_key(|session| {
        let summary = &session.summary;
        (session.events.is_empty(), summary.selection_key())
    });
    let is_selected =
        |member: &Member<'_>| selected.is_some_and(|one| std::ptr::eq(one, member.session));
    let of_selected = runs.iter().find(|run| run.iter().any(is_selected));
    let selected_run = of_selected.into_iter().flatten();
    let selected_run = selected_run.map(|member| member.session.clone()).collect();
    let reports: Vec<RunReport> = runs
        .par_iter()
        .map(|run| run_report(run, options))
        .collect();
    // The newest run comes first; the history of an issue begins with the oldest.
    let diagnosed = runs.iter().zip(&reports).rev();
    let diagnosed = diagnosed.map(|(run, report)| (run.as_slice(), &report.diagnosis));
    Ok(Report {
        selected: selected.map(|session| session.summary.clone()),
        discovered,
        events: sessions
            .iter()
            .map(|(_, session)| session.events.len())
            .sum(),
        issues: issues_of_findings(diagnosed),
        runs: reports,
        selected_run,
        damage: artifacts
            .iter()
            .flat_map(|loaded| loaded.damage.clone())
            .collect(),
        removed: artifacts
            .iter()
            .fold(Removed::default(), |all, loaded| all.plus(loaded.removed)),
    })
}

/// Sessions, each with the number of its artifact.
pub(crate) type Numbered = Vec<(usize, LoadedSession)>;
/// Sessions, and the places of those that are one run.
pub(crate) type Selected = (Numbered, Vec<Vec<usize>>);

/// The sessions that were asked for, each with the number of its artifact, and the places of
/// those that are one run; in both the newest is in front.
pub(crate) fn select(
    mut sessions: Numbered,
    options: &AnalyzeOptions,
) -> Result<Selected, AnalyzeError> {
    choose(&mut sessions, options)?;
    let members = sessions.iter().map(|(artifact, session)| Member {
        artifact: *artifact,
        session,
    });
    let runs = timeline::runs(members);
    Ok((sessions, runs))
}

/// Every session with the number of its artifact, the newest in front.
pub(crate) fn in_order(artifacts: &[Loaded]) -> Numbered {
    let mut sessions: Numbered = artifacts
        .iter()
        .enumerate()
        .flat_map(|(place, loaded)| loaded.sessions.iter().map(move |session| (place, session)))
        .map(|(place, session)| (place, session.clone()))
        .collect();
    newest_first(&mut sessions, |(_, session)| session);
    sessions
}

/// Keeps the session and the rank that were asked for.
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
        let ranks = |session: &LoadedSession| -> BTreeSet<i64> {
            session
                .events
                .iter()
                .map(|event| event.origin().rank)
                .collect()
        };
        let known: BTreeSet<i64> = sessions.iter().flat_map(|(_, s)| ranks(s)).collect();
        for (_, session) in sessions.iter_mut() {
            session.events = session.events.of_rank(rank);
        }
        sessions.retain(|(_, session)| !session.events.is_empty());
        if sessions.is_empty() {
            let known: Vec<String> = known.iter().map(i64::to_string).collect();
            let known = known.join(", ");
            return Err(AnalyzeError::RankNotFound { rank, known });
        }
    }
    Ok(())
}

fn detector_options(options: &AnalyzeOptions) -> detect::Options {
    detect::Options {
        oom_horizon_hours: options.oom_horizon_hours,
    }
}

/// The timeline of the sessions of one run, with what the bundles beside them know, and what the
/// detectors find in it.
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
        diagnosis,
        ranks,
        missing_ranks,
    }
}

/// Missing ranks are listed one by one up to here; a larger world is more likely a mistake.
const LARGEST_WORLD: i64 = 1 << 20;

fn missing(ranks: &[RankCoverage], world_size: i64) -> Vec<i64> {
    let recorded: BTreeSet<i64> = ranks.iter().map(|one| one.rank).collect();
    (0..world_size.min(LARGEST_WORLD))
        .filter(|rank| !recorded.contains(rank))
        .collect()
}
