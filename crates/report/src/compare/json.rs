//! Renders the comparison of two runs as JSON, which `docs/schemas/compare.schema.json` describes.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::compare::{
    Change, Comparison, FindingChanges, GateKind, GateOutcome, GateStatus, LoneRank, RankComparison,
};
use stormlog_analysis::detect::NOT_ENOUGH_EVIDENCE;
use stormlog_format::names;

use super::words;

/// The version of the comparison document.
const SCHEMA_VERSION: u32 = 1;

/// The comparison of two runs. Unknown values are null, never zero. The noise of a value is its
/// standard deviation within the recording, in the unit of the value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The version of the comparison document.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The verdict on the comparison: its status, headline, and whether the gates hold.
    verdict: Verdict,
    /// The side that the new run is compared with.
    base: Side<'a>,
    /// The new run, which is judged.
    new: Side<'a>,
    /// Ranks that both sides of the comparison have.
    ranks: &'a [RankComparison],
    /// Ranks that only the base side has.
    ranks_only_in_base: &'a [LoneRank],
    /// Ranks that only the new side has.
    ranks_only_in_new: &'a [LoneRank],
    /// What the detectors found on each side.
    findings: &'a FindingChanges,
    /// The limits (gates) that the user set, and whether they hold.
    gates: Vec<GateKeys<'a>>,
    /// Facts that a reader should know before trusting the other numbers.
    notes: &'a [String],
}

impl<'a> Document<'a> {
    /// Builds the JSON document that `stormlog compare` prints for a comparison.
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

/// The verdict on the comparison: its status, headline, and whether the gates hold.
#[derive(Debug, Serialize, JsonSchema)]
struct Verdict {
    /// One word for the result of all compared numbers. `unchanged`: those that can be compared are
    /// equal; `within_noise`: no difference exceeds the noise by enough to matter.
    status: Status,
    /// The result of the comparison in one line.
    headline: String,
    /// Whether every gate could be evaluated and holds.
    passed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Unchanged,
    WithinNoise,
    Higher,
    Lower,
    Mixed,
    NotEnoughEvidence,
}

names!(Status {
    Unchanged => "unchanged",
    WithinNoise => "within_noise",
    Higher => "higher",
    Lower => "lower",
    Mixed => "mixed",
    NotEnoughEvidence => NOT_ENOUGH_EVIDENCE,
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
            (false, false) if has(Change::WithinNoise) || has(Change::TooSmall) => {
                Self::WithinNoise
            }
            (false, false) if has(Change::Unchanged) => Self::Unchanged,
            (false, false) => Self::NotEnoughEvidence,
        }
    }
}

/// One of the two sides of the comparison.
#[derive(Debug, Serialize, JsonSchema)]
struct Side<'a> {
    /// Where the recording of this side came from, as the user named it.
    source: &'a str,
    /// The id of the job, if it has one.
    job_id: Option<&'a str>,
    /// The ranks of this side.
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

/// A limit that the user set, and whether it holds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Gate")]
struct GateKeys<'a> {
    /// Which limit was set.
    gate: GateKind,
    /// The value of the limit as the user wrote it.
    limit: &'a str,
    /// Whether the limit holds.
    status: GateStatus,
    /// Why the limit does not hold, or why it could not be evaluated.
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
