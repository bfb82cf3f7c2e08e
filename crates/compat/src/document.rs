//! The report as JSON with the keys of stormlog 0.3.9.

use serde_json::{Map, Value, json};
use stormlog_analysis::analyze::Report;
use stormlog_analysis::gap::{GapFinding, Number};
use stormlog_analysis::phases::PhaseAttribution;

use crate::analyses::Analyses;
use crate::collective::CollectiveAttribution;
use crate::cross_rank::{CrossRank, FirstCause};
use crate::{lines, optimization};

/// The report as JSON, described by `docs/schemas/analyze.schema.json`. The report contains the
/// keys of stormlog 0.3.9 and our own.
pub fn to_json(report: &Report, analyses: &Analyses) -> Value {
    let mut document = legacy_keys(report, analyses);
    document.extend(stormlog_report::analyze::to_json(report));
    Value::Object(document)
}

fn legacy_keys(report: &Report, analyses: &Analyses) -> Map<String, Value> {
    let score = optimization::score(&[], &[]);
    let mut document = Map::new();
    let mut put = |key: &str, value: Value| document.insert(key.to_owned(), value);
    put(
        "summary",
        json!({
            "total_functions_analyzed": 0,
            "total_function_calls": 0,
            "total_memory_allocated": 0,
            "total_execution_time": 0,
            "analysis_timestamp": null,
        }),
    );
    for key in [
        "critical_issues",
        "high_impact_insights",
        "all_patterns",
        "all_insights",
        "recommendations",
    ] {
        put(key, json!([]));
    }
    put(
        "optimization_score",
        json!({
            "score": score.score,
            "grade": score.grade,
            "description": score.description,
            "issues_found": score.issues_found,
        }),
    );
    put("gap_analysis", analyses.gaps.iter().map(gap).collect());
    put(
        "collective_attribution",
        analyses.collectives.iter().map(collective).collect(),
    );
    if let Some((cross, cause)) = &analyses.ranks {
        put("cross_rank_analysis", cross_rank(cross, cause));
    }
    let ids = report
        .discovered
        .iter()
        .map(|session| session.session_id.to_string());
    put(
        "session",
        json!({
            "selected_session_id": report.selected.as_ref().map(|s| s.session_id.to_string()),
            "discovered_session_ids": ids.collect::<Vec<_>>(),
        }),
    );
    document
}

fn gap((finding, phase): &(GapFinding, Option<PhaseAttribution>)) -> Value {
    let number = |number: &Number| match number {
        Number::Count(count) => json!(count),
        Number::Real(value) => json!(value),
    };
    let evidence: Map<String, Value> = finding
        .evidence
        .iter()
        .map(|(name, value)| ((*name).to_owned(), number(value)))
        .collect();
    json!({
        "classification": finding.class.as_str(),
        "severity": finding.severity(),
        "confidence": finding.confidence,
        "evidence": evidence,
        "description": finding.description,
        "remediation": lines::remediation(finding.class),
        "evidence_timestamp_ns": finding.timestamp_ns,
        "phase_attribution": phase.as_ref().map(phase_payload),
    })
}

fn collective(found: &CollectiveAttribution) -> Value {
    let evidence = &found.evidence;
    json!({
        "rank": found.rank,
        "interval_start_ns": found.interval_start_ns,
        "interval_end_ns": found.interval_end_ns,
        "classification": found.class.as_str(),
        "confidence": found.confidence,
        "reason_codes": found.reason_codes,
        "evidence": {
            "marker_hits": evidence.marker_hits,
            "synchronized_ranks": evidence.synchronized_ranks,
            "expected_world_size": evidence.expected_world_size,
            "synchrony_ratio": evidence.synchrony_ratio,
            "peak_gap_bytes": evidence.peak_gap_bytes,
            "peak_gap_ratio": evidence.peak_gap_ratio,
            "robust_zscore": evidence.robust_zscore,
        },
        "phase_attribution": found.phase.as_ref().map(phase_payload),
    })
}

fn cross_rank(cross: &CrossRank, cause: &FirstCause) -> Value {
    let counts: Vec<(i64, usize)> = cross.rank_sample_counts().collect();
    let by_rank = |entries: Vec<(i64, Value)>| -> Map<String, Value> {
        entries
            .into_iter()
            .map(|(rank, value)| (rank.to_string(), value))
            .collect()
    };
    let suspects: Vec<Value> = cause
        .suspects
        .iter()
        .map(|suspect| {
            json!({
                "rank": suspect.rank,
                "first_spike_timestamp_ns": suspect.first_spike_timestamp_ns,
                "aligned_first_spike_timestamp_ns": suspect.aligned_first_spike_timestamp_ns,
                "peak_delta_bytes": suspect.peak_delta_bytes,
                "spike_window_samples": suspect.spike_window_samples,
                "lead_over_cluster_onset_ns": suspect.lead_over_cluster_onset_ns,
                "confidence": suspect.confidence.as_str(),
                "evidence": {
                    "device_used_delta_bytes": suspect.peak_delta_bytes,
                    "supporting_ranks_at_or_before_onset": suspect.supporting_ranks,
                },
                "phase_attribution": suspect.phase.as_ref().map(phase_payload),
            })
        })
        .collect();
    let offsets = cross.alignment_offsets_ns.iter();
    json!({
        "job_id": cross.job_id.as_ref().map(ToString::to_string),
        "world_size": cross.world_size,
        "participating_ranks": counts.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(),
        "missing_ranks": cross.missing_ranks,
        "rank_sample_counts": by_rank(counts.iter().map(|(r, n)| (*r, json!(n))).collect()),
        "alignment_offsets_ns": by_rank(offsets.map(|(r, ns)| (*r, json!(ns))).collect()),
        "cluster_onset_timestamp_ns": cause.cluster_onset_timestamp_ns,
        "first_cause_suspects": suspects,
        "notes": cross.all_notes(cause),
    })
}

fn phase_payload(phase: &PhaseAttribution) -> Value {
    let text = |text: &stormlog_format::Text| text.to_string();
    let paths: Vec<String> = phase
        .paths
        .iter()
        .map(text)
        .filter(|p| !p.is_empty())
        .collect();
    let mut payload = Map::new();
    payload.insert(
        "phase_resolution".into(),
        json!(text(&phase.resolution.as_text())),
    );
    payload.insert("phase_paths".into(), json!(paths));
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            payload.insert(key.to_owned(), value);
        }
    };
    put(
        "phase_source",
        phase.source.as_ref().map(|t| json!(text(t))),
    );
    put("phase_path", phase.path.as_ref().map(|t| json!(text(t))));
    put("scope_id", phase.scope_id.as_ref().map(|t| json!(text(t))));
    put("thread_id", phase.thread_id.map(|id| json!(id)));
    put(
        "thread_name",
        phase.thread_name.as_ref().map(|t| json!(text(t))),
    );
    put(
        "phase_summary",
        phase
            .summary
            .as_ref()
            .map(|(path, source)| json!({"phase_path": text(path), "source": text(source)})),
    );
    Value::Object(payload)
}
