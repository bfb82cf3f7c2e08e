//! The report of `gpumemprof analyze` as JSON with the keys of stormlog 0.3.9.

use std::collections::BTreeMap;

use crate::gap::GapFinding;
use crate::phases::PhaseAttribution;
use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::analyze::Report;
use stormlog_format::{Map, Text};
use stormlog_report::analyze;

use crate::analyses::Analyses;
use crate::collective::CollectiveAttribution;
use crate::cross_rank::{CrossRank, FirstCause, Suspect};
use crate::lines;
use crate::optimization::{self, Score};

/// The report of `gpumemprof analyze`: the keys of stormlog 0.3.9 and those that only Stormlog has. Profiled
/// functions are not recorded, so the keys for them are empty.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportDocument<'a> {
    /// The keys that stormlog 0.3.9 does not have.
    #[serde(flatten)]
    pub own: analyze::Document<'a>,
    summary: FunctionTotals,
    critical_issues: [Map; 0],
    high_impact_insights: [Map; 0],
    all_patterns: [Map; 0],
    all_insights: [Map; 0],
    recommendations: [Map; 0],
    optimization_score: Score,
    /// Findings about the gap between the memory used on the device and the memory reserved by the
    /// allocator.
    gap_analysis: Vec<Gap<'a>>,
    /// Time spans in which a collective operation explains the gap.
    collective_attribution: &'a [CollectiveAttribution],
    /// The comparison of ranks, if there are at least two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CrossRankKeys")]
    cross_rank_analysis: Option<CrossRankKeys<'a>>,
    session: Sessions<'a>,
}

impl<'a> ReportDocument<'a> {
    /// The JSON document for the results of `gpumemprof analyze`: `report` has the results of Stormlog,
    /// `analyses` those of the rules of stormlog 0.3.9.
    pub fn of(report: &'a Report, analyses: &'a Analyses) -> Self {
        let ranks = analyses.ranks.as_ref();
        Self {
            own: analyze::Document::of(report),
            summary: FunctionTotals::default(),
            critical_issues: [],
            high_impact_insights: [],
            all_patterns: [],
            all_insights: [],
            recommendations: [],
            optimization_score: optimization::score(&[], &[]),
            gap_analysis: analyses.gaps.iter().map(Gap::of).collect(),
            collective_attribution: &analyses.collectives,
            cross_rank_analysis: ranks.map(|(cross, cause)| CrossRankKeys::of(cross, cause)),
            session: Sessions {
                selected_session_id: analyses.selected.as_ref().map(|one| &one.session_id),
                discovered_session_ids: (report.discovered.iter().map(|one| &one.session_id))
                    .collect(),
            },
        }
    }
}

/// Totals of profiled functions.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct FunctionTotals {
    total_functions_analyzed: u64,
    total_function_calls: u64,
    total_memory_allocated: u64,
    total_execution_time: u64,
    analysis_timestamp: Option<f64>,
}

/// The sessions that were found in the artifacts.
#[derive(Debug, Serialize, JsonSchema)]
struct Sessions<'a> {
    /// The id of the session that stormlog 0.3.9 would analyze.
    selected_session_id: Option<&'a Text>,
    discovered_session_ids: Vec<&'a Text>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Gap<'a> {
    #[serde(flatten)]
    finding: &'a GapFinding,
    /// Advice on how to reduce the gap.
    remediation: [&'static str; 3],
    /// The phase of the program at the finding's timestamp.
    phase_attribution: Option<Map>,
}

impl<'a> Gap<'a> {
    fn of((finding, phase): &'a (GapFinding, Option<PhaseAttribution>)) -> Self {
        Self {
            finding,
            remediation: lines::remediation(finding.class),
            phase_attribution: phase.as_ref().map(PhaseAttribution::to_payload),
        }
    }
}

/// The comparison of ranks on a common time line.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CrossRank")]
struct CrossRankKeys<'a> {
    job_id: Option<&'a Text>,
    world_size: i64,
    participating_ranks: Vec<i64>,
    missing_ranks: &'a [i64],
    rank_sample_counts: BTreeMap<i64, usize>,
    /// The nanoseconds that are subtracted from the timestamps of each rank to align the ranks.
    alignment_offsets_ns: &'a BTreeMap<i64, i64>,
    cluster_onset_timestamp_ns: Option<i64>,
    /// Ranks whose memory may have risen first.
    first_cause_suspects: Vec<SuspectKeys<'a>>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Suspect")]
struct SuspectKeys<'a> {
    #[serde(flatten)]
    suspect: &'a Suspect,
    evidence: SuspectEvidence,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SuspectEvidence {
    device_used_delta_bytes: i64,
    supporting_ranks_at_or_before_onset: usize,
}

impl<'a> CrossRankKeys<'a> {
    fn of(cross: &'a CrossRank, cause: &'a FirstCause) -> Self {
        let suspects = cause.suspects.iter().map(|suspect| SuspectKeys {
            suspect,
            evidence: SuspectEvidence {
                device_used_delta_bytes: suspect.peak_delta_bytes,
                supporting_ranks_at_or_before_onset: suspect.supporting_ranks,
            },
        });
        Self {
            job_id: cross.job_id.as_ref(),
            world_size: cross.world_size,
            participating_ranks: cross.rank_sample_counts().map(|(rank, _)| rank).collect(),
            missing_ranks: &cross.missing_ranks,
            rank_sample_counts: cross.rank_sample_counts().collect(),
            alignment_offsets_ns: &cross.alignment_offsets_ns,
            cluster_onset_timestamp_ns: cause.cluster_onset_timestamp_ns,
            first_cause_suspects: suspects.collect(),
            notes: cross.all_notes(cause),
        }
    }
}
