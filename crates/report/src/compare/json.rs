//! The comparison for programs, described by `docs/schemas/compare.schema.json`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::compare::{
    Change, Comparison, FindingChanges, GateKind, GateOutcome, GateStatus, LoneRank, RankComparison,
};
use stormlog_format::names;

use super::words;

/// The version of this document.
const SCHEMA_VERSION: u32 = 1;

/// The comparison of two runs. Unknown values are null, never zero. Noise is a standard deviation
/// within the record, in the unit of its value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The version of this document.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The result in a few words.
    verdict: Verdict,
    /// What is compared with.
    base: Side<'a>,
    /// What is judged.
    new: Side<'a>,
    /// Ranks that both sides have.
    ranks: &'a [RankComparison],
    /// Ranks that only the base has.
    ranks_only_in_base: &'a [LoneRank],
    /// Ranks that only the new side has.
    ranks_only_in_new: &'a [LoneRank],
    /// What the detectors found on either side.
    findings: &'a FindingChanges,
    /// The limits that were set.
    gates: Vec<GateKeys<'a>>,
    /// What a reader should know before trusting the rest.
    notes: &'a [String],
}

impl<'a> Document<'a> {
    /// The document of a comparison.
    pub fn of(comparison: &'a Comparison) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            verdict: Verdict {
                status: Status::of(comparison),
                headline: words::headline(comparison),
                passed: comparison.passed(),
            },
            base: Side::of(&comparison.base),
            new: Side::of(&comparison.new),
            ranks: &comparison.ranks,
            ranks_only_in_base: &comparison.only_in_base,
            ranks_only_in_new: &comparison.only_in_new,
            findings: &comparison.findings,
            gates: comparison.gates.iter().map(GateKeys::of).collect(),
            notes: &comparison.notes,
        }
    }
}

/// The result in a few words.
#[derive(Debug, Serialize, JsonSchema)]
struct Verdict {
    /// One word for all numbers.
    status: Status,
    /// The result in one line.
    headline: String,
    /// Whether every gate was judged and holds.
    passed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Unchanged,
    Higher,
    Lower,
    Mixed,
    NotEnoughEvidence,
}

names!(Status {
    Unchanged => "unchanged",
    Higher => "higher",
    Lower => "lower",
    Mixed => "mixed",
    NotEnoughEvidence => "not_enough_evidence",
});

impl Status {
    fn of(comparison: &Comparison) -> Self {
        let has = |wanted| {
            let mut all = comparison.differences();
            all.any(|(_, _, one)| one.verdict == wanted)
        };
        match (has(Change::Higher), has(Change::Lower)) {
            (true, true) => Self::Mixed,
            (true, false) => Self::Higher,
            (false, true) => Self::Lower,
            (false, false) if has(Change::Unchanged) => Self::Unchanged,
            (false, false) => Self::NotEnoughEvidence,
        }
    }
}

/// One side of the comparison.
#[derive(Debug, Serialize, JsonSchema)]
struct Side<'a> {
    /// Where it came from, as the user named it.
    source: &'a str,
    /// The job, where it has a name.
    job_id: Option<&'a str>,
    /// Its ranks.
    ranks: BTreeSet<u32>,
    /// Samples of all ranks.
    samples: usize,
}

impl<'a> Side<'a> {
    fn of(side: &'a stormlog_analysis::compare::Side) -> Self {
        Self {
            source: &side.source,
            job_id: side.profile.job_id.as_deref(),
            ranks: side.profile.ranks.iter().map(|rank| rank.rank).collect(),
            samples: side.profile.samples(),
        }
    }
}

/// What became of a limit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Gate")]
struct GateKeys<'a> {
    /// Which limit.
    gate: GateKind,
    /// The limit as it was written.
    limit: &'a str,
    /// What became of it.
    status: GateStatus,
    /// Why it did not hold.
    reasons: Vec<String>,
}

impl<'a> GateKeys<'a> {
    fn of(gate: &'a GateOutcome) -> Self {
        Self {
            gate: gate.kind,
            limit: &gate.limit,
            status: gate.status,
            reasons: gate.misses.iter().map(words::miss).collect(),
        }
    }
}
