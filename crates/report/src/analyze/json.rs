//! The report as JSON: verdict, findings, issues, coverage and runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::analyze::{Report, RunReport};
use stormlog_analysis::detect::{self, Finding, Kind, Note, Severity};
use stormlog_analysis::issue::Issue;
use stormlog_analysis::timeline::{End, RankCoverage, ResourceCoverage};
use stormlog_analysis::{Damage, Removed};
use stormlog_format::{Map, Text, names};

use super::words;
use crate::ledger::{LedgerKeys, ledgers};

/// The version of these keys, which stand beside those of stormlog 0.3.9 in its reports.
const SCHEMA_VERSION: u32 = 1;

/// Stormlog's own keys of a report; the compat crate adds those of stormlog 0.3.9.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The version of the keys that stormlog 0.3.9 does not have.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The result in a few words.
    pub verdict: Verdict,
    /// Memory problems of all runs, the worst of each run first.
    findings: Vec<&'a Finding>,
    /// The findings as `stormlog issues list --json` prints them: the same fingerprints, the states
    /// of the issues.json beside the artifacts.
    #[schemars(extend("items" = {"$ref": "issue.schema.json"}))]
    issues: Vec<Map>,
    /// How much was recorded.
    coverage: Coverage<'a>,
    /// The runs, the newest first.
    runs: Vec<RunKeys<'a>>,
}

impl<'a> Document<'a> {
    /// The document of a report.
    pub fn of(report: &'a Report) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            verdict: Verdict::of(report),
            findings: report.findings().collect(),
            issues: report.issues.iter().map(Issue::to_map).collect(),
            coverage: Coverage::of(report),
            runs: report.runs.iter().map(RunKeys::of).collect(),
        }
    }
}

/// The result in a few words.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verdict {
    /// Whether anything was found.
    status: Status,
    /// The verdict on the gravest run in one line.
    pub headline: String,
    /// The highest severity of the findings.
    severity: Option<Severity>,
    /// The kinds of the findings.
    kinds: Vec<Kind>,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Clear,
    Findings,
    NotEnoughEvidence,
}

names!(Status {
    Clear => "clear",
    Findings => "findings",
    NotEnoughEvidence => "not_enough_evidence",
});

impl Verdict {
    fn of(report: &Report) -> Self {
        let too_short = report.runs.iter().all(|run| run.diagnosis.is_too_short());
        let mut kinds: Vec<Kind> = report.findings().map(|finding| finding.kind).collect();
        kinds.sort_unstable_by_key(|kind| kind.as_str());
        kinds.dedup();
        Self {
            status: match (kinds.is_empty(), too_short) {
                (false, _) => Status::Findings,
                (true, true) => Status::NotEnoughEvidence,
                (true, false) => Status::Clear,
            },
            headline: words::headline(report),
            severity: report.findings().map(|finding| finding.severity).max(),
            kinds,
        }
    }
}

/// How much was recorded, over all runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Coverage<'a> {
    /// Events that were read.
    events: usize,
    /// Samples among them.
    samples: usize,
    /// Samples that came more than two intervals after the one before.
    late_samples: usize,
    /// Sampling gaps: more than ten intervals without a sample.
    gaps: usize,
    /// The length of the longest sampling gap.
    longest_gap_ns: i64,
    /// When the first sample was taken.
    first_timestamp_ns: Option<i64>,
    /// When the last sample was taken.
    last_timestamp_ns: Option<i64>,
    /// What could not be read.
    damage: &'a [Damage],
    #[serde(flatten)]
    removed: Removed,
}

impl<'a> Coverage<'a> {
    fn of(report: &'a Report) -> Self {
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

/// The sessions of one job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunKeys<'a> {
    /// The job, where it has a name.
    job_id: Option<&'a Text>,
    /// The same in all recordings of one run.
    run_id: Option<&'a str>,
    /// The name of the program.
    program: Option<&'a str>,
    /// How it ended.
    end: &'a End,
    /// How many ranks the job has.
    world_size: i64,
    /// Its sessions, the newest first.
    session_ids: Vec<&'a Text>,
    /// The verdict in one line.
    headline: String,
    /// The answer of each detector.
    verdicts: BTreeMap<Kind, Answer>,
    /// What was recorded of each rank.
    ranks: &'a [RankCoverage],
    /// Host memory and each device of each process.
    resources: Vec<ResourceCoverage>,
    /// What used each device when that was last recorded.
    ledgers: Vec<LedgerKeys>,
    /// What is worth knowing and no problem by itself.
    notes: &'a [Note],
    /// Ranks of which nothing was recorded.
    missing_ranks: &'a [i64],
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Clear,
    Found,
    NotEnoughEvidence,
}

names!(Answer {
    Clear => "clear",
    Found => "found",
    NotEnoughEvidence => "not_enough_evidence",
});

impl From<&detect::Verdict> for Answer {
    fn from(verdict: &detect::Verdict) -> Self {
        match verdict {
            detect::Verdict::Clear => Self::Clear,
            detect::Verdict::Found(_) => Self::Found,
            detect::Verdict::TooShort => Self::NotEnoughEvidence,
        }
    }
}

impl<'a> RunKeys<'a> {
    fn of(run: &'a RunReport) -> Self {
        let verdicts = run.diagnosis.verdicts.iter();
        Self {
            job_id: run.job_id.as_ref(),
            run_id: run.timeline.program.run_id.as_deref(),
            program: run.timeline.program.name.as_deref(),
            end: &run.diagnosis.end,
            world_size: run.world_size,
            session_ids: run.sessions.iter().map(|one| &one.session_id).collect(),
            headline: run.diagnosis.headline(),
            verdicts: verdicts
                .map(|(kind, verdict)| (*kind, verdict.into()))
                .collect(),
            ranks: &run.ranks,
            resources: run.timeline.by_resource(),
            ledgers: ledgers(&run.timeline),
            notes: &run.diagnosis.notes,
            missing_ranks: &run.missing_ranks,
        }
    }
}
