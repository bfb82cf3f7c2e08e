//! Summarizes a run for a comparison: a few numbers per rank and phase, and the findings.

use stormlog_format::{Text, counted};

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::LoneRank;
use super::held::{KnownHolder, holders_of};
use crate::analyze::{AnalyzeError, AnalyzeOptions, detector_options, diagnosed, in_order, select};
use crate::detect::{self, Answer, Judged, Kind, Metric, TrackLevels};
use crate::load::{Loaded, LoadedSession};
use crate::timeline::{Track, run_id_of};

impl TrackLevels {
    pub(super) fn place(&self) -> LoneRank {
        LoneRank {
            rank: self.rank,
            device_id: self.device_id,
        }
    }
}

/// A finding, reduced to the fields that a comparison needs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KnownFinding {
    /// The kind of finding. Baselines of later versions may contain kinds that this version does
    /// not know.
    pub kind: String,
    /// The rank; `None` when the finding affects all ranks.
    pub rank: Option<u32>,
    /// How urgent the finding is.
    pub severity: String,
    /// Confidence of the finding, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// The finding in one line; one sentence in baselines of earlier versions.
    pub explanation: String,
}

/// The summary of a run, for comparisons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Profile {
    /// The job's id, when known.
    pub job_id: Option<String>,
    /// Ranks and devices, sorted.
    pub ranks: Vec<TrackLevels>,
    /// The findings, the most severe first.
    pub findings: Vec<KnownFinding>,
    /// The holders of memory that the findings name; empty in a saved baseline.
    #[serde(skip)]
    pub holders: Vec<KnownHolder>,
    /// The ids of the sessions of the run; empty in a saved baseline.
    #[serde(skip)]
    pub sessions: Vec<Text>,
    /// Kinds of findings for which the recording is too short to decide.
    pub unanswered: Vec<String>,
    /// Remarks for the user, such as data that was left out.
    pub notes: Vec<String>,
}

impl Profile {
    /// Number of samples of all ranks.
    #[must_use]
    pub fn samples(&self) -> usize {
        let samples = self.ranks.iter().map(|rank| rank.samples);
        // A baseline may come from an untrusted source and contain any numbers.
        samples.fold(0, usize::saturating_add)
    }

    /// Removes all ranks but one from the profile, with their findings; findings of the whole run
    /// are kept.
    pub(super) fn keep_rank(&mut self, rank: i64) -> Result<(), AnalyzeError> {
        let known: BTreeSet<u32> = self.ranks.iter().map(|one| one.rank).collect();
        self.ranks.retain(|one| i64::from(one.rank) == rank);
        self.findings
            .retain(|one| one.rank.is_none_or(|other| i64::from(other) == rank));
        if self.ranks.is_empty() {
            return Err(AnalyzeError::rank_not_found(rank, &known));
        }
        Ok(())
    }
}

/// Computes the profile of the run in the given artifacts. If `one_run` finds several runs in them,
/// the newest is used, and a note says so.
pub fn profile_of(artifacts: &[Loaded], options: &AnalyzeOptions) -> Result<Profile, AnalyzeError> {
    let (sessions, runs) = select(in_order(artifacts), options)?;
    let runs: Vec<Vec<&LoadedSession>> = runs
        .into_iter()
        .map(|run| run.into_iter().map(|index| &sessions[index].1).collect())
        .collect();
    let mut notes = Vec::new();
    let chosen = one_run(runs, &mut notes);
    let damaged: usize = artifacts.iter().map(|one| one.damage.len()).sum();
    if damaged > 0 {
        let places = counted(damaged, "damaged place");
        notes.push(format!("{places} could not be read"));
    }
    let (run, diagnosis) = diagnosed(&chosen, &detector_options(options));
    // A program that used no device has nothing that the detectors of devices could judge.
    let is_host_alone = run.has_host() && run.tracks.iter().all(Track::is_host_of_run);
    let unanswered = diagnosis
        .answers
        .iter()
        .filter(|(_, answer)| *answer == Answer::NotEnoughEvidence)
        // Without host memory in the recording, the detectors of host memory are not listed as
        // unanswered.
        .filter(|(kind, _)| match kind.detector().resource {
            Judged::Host => run.has_host(),
            Judged::Device => !is_host_alone,
            Judged::Both => true,
        })
        .map(|(kind, _)| Kind::as_str(*kind).to_owned());
    let found = diagnosis.findings();
    let holders = found.iter().flat_map(|finding| holders_of(finding));
    let holders: Vec<KnownHolder> = holders.collect();
    let levels = detect::levels_of(&run, &found);
    let findings = found.into_iter().map(|finding| KnownFinding {
        kind: finding.kind.as_str().to_owned(),
        rank: finding.rank,
        severity: finding.severity.as_str().to_owned(),
        confidence: finding.confidence,
        explanation: finding.headline.clone(),
    });
    let job_id = chosen.iter().find_map(|one| one.summary.job_id.as_ref());
    Ok(Profile {
        job_id: job_id.map(ToString::to_string),
        ranks: by_rank(levels, &mut notes),
        findings: findings.collect(),
        holders,
        sessions: chosen
            .iter()
            .map(|one| one.summary.session_id.clone())
            .collect(),
        unanswered: unanswered.collect(),
        notes,
    })
}

/// Selects the one run that is compared. An analysis treats each artifact without a run id and a job
/// id as a separate run. In a comparison, such artifacts count as the ranks of one run when no two
/// of them share a rank.
fn one_run<'a>(
    mut runs: Vec<Vec<&'a LoadedSession>>,
    notes: &mut Vec<String>,
) -> Vec<&'a LoadedSession> {
    runs.retain(|run| run.iter().any(|session| !session.events.is_empty()));
    let has_no_id = runs
        .iter()
        .flatten()
        .all(|session| session.summary.job_id.is_none() && run_id_of(session).is_none());
    let mut seen = BTreeSet::new();
    let disjoint = runs.iter().all(|run| {
        let ranks: BTreeSet<i64> = run.iter().map(|session| session.summary.rank).collect();
        ranks.into_iter().all(|rank| seen.insert(rank))
    });
    if has_no_id && disjoint {
        return runs.into_iter().flatten().collect();
    }
    if runs.len() > 1 {
        let name = runs[0]
            .iter()
            .find_map(|session| session.summary.job_id.as_ref());
        let name = name.map_or_else(
            || format!("the one of session '{}'", runs[0][0].summary.session_id),
            |job| format!("job '{job}'"),
        );
        notes.push(format!(
            "{found} were found and only {name} is compared",
            found = counted(runs.len(), "run")
        ));
    }
    runs.into_iter().next().unwrap_or_default()
}

/// The numbers of each rank and device. When a rank was restarted, its longest session is used,
/// with the highest peaks of all sessions.
fn by_rank(tracks: Vec<TrackLevels>, notes: &mut Vec<String>) -> Vec<TrackLevels> {
    let mut left_out = 0;
    let mut by_key: BTreeMap<(u32, i64), TrackLevels> = BTreeMap::new();
    for track in tracks {
        left_out += track.phases_left_out;
        let key = (track.rank, track.device_id);
        let joined = match by_key.remove(&key) {
            Some(known) => join(known, track),
            None => track,
        };
        by_key.insert(key, joined);
    }
    if left_out > 0 {
        let most = detect::MOST_PHASES;
        notes.push(format!(
            "{left_out} phases were left out; the {most} with the most samples are compared"
        ));
    }
    by_key.into_values().collect()
}

fn join(a: TrackLevels, b: TrackLevels) -> TrackLevels {
    let (mut longer, shorter) = if a.samples >= b.samples {
        (a, b)
    } else {
        (b, a)
    };
    for metric in Metric::ALL.into_iter().filter(|metric| metric.is_peak()) {
        let of_longer = longer.levels.get(metric);
        let higher = match (of_longer, shorter.levels.get(metric)) {
            (Some(one), Some(other)) if other.value > one.value => detect::Measure {
                noise: one.noise.or(other.noise),
                ..other
            },
            (Some(one), _) => one,
            (None, Some(other)) => other,
            (None, None) => continue,
        };
        longer.levels.set(metric, Some(higher));
    }
    longer.samples += shorter.samples;
    longer.device_total_bytes = longer.device_total_bytes.or(shorter.device_total_bytes);
    longer
}
