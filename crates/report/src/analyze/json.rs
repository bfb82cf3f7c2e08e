//! Renders the report of `stormlog analyze` as JSON: verdict, findings, issues, coverage and runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::analyze::{Report, RunReport};
use stormlog_analysis::detect::{
    Answer, Finding, Kind, Level, NOT_ENOUGH_EVIDENCE, Outcome, PhasePeak, Severity,
};
use stormlog_analysis::issue::Issue;
use stormlog_analysis::timeline::{End, RankCoverage, ResourceCoverage};
use stormlog_analysis::{Damage, Removed};
use stormlog_format::{Map, Text, names};

use super::words;
use crate::ledger::{LedgerKeys, ledgers};

/// The version of the keys of a report.
const SCHEMA_VERSION: u32 = 1;

/// A report of `stormlog analyze`. `gpumemprof analyze` adds the keys of stormlog 0.3.9 to it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The version of the keys of a report.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The verdict on all runs: its status, headline, severity and kinds of findings.
    pub verdict: Verdict,
    /// The memory problems of all runs; those of one run are sorted by severity, the worst first.
    findings: Vec<&'a Finding>,
    /// The findings as issues, in the form that `stormlog issues list --json` prints: with their
    /// fingerprints, and with their states from the issues.json beside the artifacts.
    #[schemars(with = "Vec<Map>", extend("items" = {"$ref": "issue.schema.json"}))]
    issues: &'a [Issue],
    /// How much was recorded.
    coverage: Coverage<'a>,
    /// The analyzed runs, the newest first.
    runs: Vec<RunKeys<'a>>,
    /// Files that the option `--visualization` wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub visualizations: Option<Vec<String>>,
}

impl<'a> Document<'a> {
    /// Builds the JSON document from a report of `stormlog analyze`.
    pub fn of(report: &'a Report) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            verdict: Verdict::of(report),
            findings: report.findings().collect(),
            issues: &report.issues,
            coverage: Coverage::of(report),
            runs: report.runs.iter().map(RunKeys::of).collect(),
            visualizations: None,
        }
    }
}

/// The verdict on all runs: its status, headline, severity and kinds of findings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verdict {
    /// Whether anything was found.
    status: Outcome,
    /// The verdict on the run with the most severe finding, in one line.
    pub headline: String,
    /// The highest severity of the findings.
    severity: Option<Severity>,
    /// The level of the worst finding in words: `problem`, `likely` or `note`.
    level: Option<Level>,
    /// The kinds of the findings, with the kinds that they include.
    kinds: Vec<Kind>,
}

impl Verdict {
    fn of(report: &Report) -> Self {
        let findings = report.findings();
        let of_one = |finding: &'_ Finding| [finding.kind].into_iter().chain(finding.also.clone());
        let mut kinds: Vec<Kind> = findings.flat_map(of_one).collect();
        kinds.sort_unstable_by_key(|kind| kind.as_str());
        kinds.dedup();
        Self {
            status: Outcome::of_all(report.runs.iter().map(|run| run.diagnosis.outcome())),
            headline: words::headline(report),
            severity: report.findings().map(|finding| finding.severity).max(),
            level: report.findings().map(Finding::level).max(),
            kinds,
        }
    }
}

/// How many samples were recorded in all runs, and what is missing.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Coverage<'a> {
    /// Events that were read.
    events: usize,
    /// Samples among the events that were read.
    pub(super) samples: usize,
    /// Samples that came more than two sampling intervals after the previous sample.
    pub(super) late_samples: usize,
    /// The number of sampling gaps. A sampling gap is a time between two samples that is longer than
    /// ten times the median sampling interval of the track, four times the 95th percentile of these
    /// intervals, and five times the interval that the recorder declares.
    pub(super) gaps: usize,
    /// The length of the longest sampling gap in nanoseconds.
    pub(super) longest_gap_ns: i64,
    /// When the first sample was taken.
    first_timestamp_ns: Option<i64>,
    /// When the last sample was taken.
    last_timestamp_ns: Option<i64>,
    /// The parts of the artifacts that could not be read.
    damage: &'a [Damage],
    #[serde(flatten)]
    removed: Removed,
}

impl<'a> Coverage<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let ranks = || report.runs.iter().flat_map(|run| &run.ranks);
        Self {
            events: report.events,
            samples: ranks().map(|rank| rank.samples).sum(),
            late_samples: ranks().map(|rank| rank.late_samples).sum(),
            gaps: ranks().map(|rank| rank.gaps).sum(),
            longest_gap_ns: ranks().map(|rank| rank.longest_gap_ns).max().unwrap_or(0),
            first_timestamp_ns: ranks().map(|rank| rank.first_ns).min(),
            last_timestamp_ns: ranks().map(|rank| rank.last_ns).max(),
            damage: &report.damage,
            removed: report.removed,
        }
    }
}

/// A run: all sessions of one job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunKeys<'a> {
    /// The id of the job, if it has one.
    job_id: Option<&'a Text>,
    /// The id of the run: the one that was recorded, or else the job id, or else the id of the first
    /// session.
    run_id: Option<&'a str>,
    /// The name of the program.
    program: Option<&'a str>,
    /// The name that the user gave the run with `stormlog run --name`.
    name: Option<&'a str>,
    /// How the run ended.
    end: &'a End,
    /// How many ranks the job has.
    world_size: i64,
    /// The session ids of the run, the newest first.
    session_ids: Vec<&'a Text>,
    /// The verdict on the run in one line.
    headline: String,
    /// The answer of each detector: clear, found, or not enough data.
    verdicts: BTreeMap<Kind, AnswerName>,
    /// What was recorded of each rank of the run.
    ranks: &'a [RankCoverage],
    /// What was recorded of each resource: the host memory and each device of each process.
    resources: Vec<ResourceCoverage>,
    /// What used the memory of each device when its ledger was last recorded.
    ledgers: Vec<LedgerKeys>,
    /// Facts about the run that are worth knowing but are no problem by themselves.
    notes: &'a [PhasePeak],
    /// The number of phases for which there is no note because there are too many.
    notes_left_out: usize,
    /// Ranks of the job of which nothing was recorded.
    missing_ranks: &'a [i64],
}

#[derive(Clone, Copy, Debug)]
enum AnswerName {
    Clear,
    Found,
    NotEnoughEvidence,
}

names!(AnswerName {
    Clear => "clear",
    Found => "found",
    NotEnoughEvidence => NOT_ENOUGH_EVIDENCE,
});

impl From<&Answer> for AnswerName {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Clear => Self::Clear,
            Answer::Found(_) => Self::Found,
            Answer::NotEnoughEvidence => Self::NotEnoughEvidence,
        }
    }
}

impl<'a> RunKeys<'a> {
    fn of(run: &'a RunReport) -> Self {
        let answers = run.diagnosis.answers.iter();
        let findings = run.diagnosis.findings();
        // The risk that growth fills the memory is part of the finding about the growth.
        let is_included = |kind: Kind| findings.iter().any(|finding| finding.is_a(kind));
        Self {
            job_id: run.job_id.as_ref(),
            run_id: run.timeline.id.as_deref(),
            program: run.timeline.program.name.as_deref(),
            name: run.timeline.program.run_name.as_deref(),
            end: &run.diagnosis.end,
            world_size: run.world_size,
            session_ids: run.sessions.iter().map(|one| &one.session_id).collect(),
            headline: run.diagnosis.headline(),
            verdicts: answers
                .map(|(kind, answer)| {
                    let found = is_included(*kind).then_some(AnswerName::Found);
                    (*kind, found.unwrap_or_else(|| answer.into()))
                })
                .collect(),
            ranks: &run.ranks,
            resources: run.timeline.by_resource(),
            ledgers: ledgers(&run.timeline),
            notes: &run.diagnosis.notes,
            notes_left_out: run.diagnosis.notes_left_out,
            missing_ranks: &run.missing_ranks,
        }
    }
}
