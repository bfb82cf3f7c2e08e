//! The report as JSON: the keys of stormlog 0.3.9, and verdict, findings and coverage.

use serde_json::{Map, Value, json};
use stormlog_analysis::Damage;
use stormlog_analysis::detect::{Cause, Failure, Finding, Note, Site};
use stormlog_analysis::gap::{GapFinding, Number};
use stormlog_analysis::issue::Issue;
use stormlog_analysis::parity::collective::CollectiveAttribution;
use stormlog_analysis::parity::cross_rank::{CrossRank, FirstCause};
use stormlog_analysis::parity::optimization;
use stormlog_analysis::phases::PhaseAttribution;
use stormlog_analysis::report::{Report, RunReport};
use stormlog_analysis::timeline::{End, RankCoverage, Resource, ResourceCoverage, Run};

use super::{reference, words};
use crate::removed::add_removed;

/// The version of what this package adds to the report of stormlog 0.3.9.
const SCHEMA_VERSION: u32 = 1;

/// The report as JSON, described by `docs/schemas/analyze.schema.json`.
pub fn report(report: &Report) -> Value {
    let mut document = reference_keys(report);
    document.insert("schema_version".into(), json!(SCHEMA_VERSION));
    document.insert("verdict".into(), verdict(report));
    document.insert("findings".into(), report.findings().map(finding).collect());
    document.insert("issues".into(), report.issues.iter().map(issue).collect());
    document.insert("coverage".into(), coverage(report));
    document.insert("runs".into(), report.runs.iter().map(run).collect());
    Value::Object(document)
}

fn reference_keys(report: &Report) -> Map<String, Value> {
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
    let reference = &report.reference;
    put("gap_analysis", reference.gaps.iter().map(gap).collect());
    put(
        "collective_attribution",
        reference.collectives.iter().map(collective).collect(),
    );
    if let Some((cross, cause)) = &reference.ranks {
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

fn verdict(report: &Report) -> Value {
    let findings: Vec<&Finding> = report.findings().collect();
    let too_short = report.runs.iter().all(|run| run.diagnosis.is_too_short());
    let status = match (findings.is_empty(), too_short) {
        (false, _) => "findings",
        (true, true) => "not_enough_evidence",
        (true, false) => "clear",
    };
    let severity = findings.iter().map(|finding| finding.severity).max();
    let mut kinds: Vec<&str> = findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    json!({
        "status": status,
        "headline": words::headline(report),
        "severity": severity.map(words::label),
        "kinds": kinds,
    })
}

/// One finding as JSON.
pub fn finding(finding: &Finding) -> Value {
    let evidence: Map<String, Value> = finding
        .evidence
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    json!({
        "kind": finding.kind.as_str(),
        "severity": words::label(finding.severity),
        "rank": finding.rank,
        "device_id": finding.device_id,
        "session_id": finding.session_id,
        "onset_ns": finding.onset_ns,
        "end_ns": finding.end_ns,
        "magnitude_bytes": finding.magnitude_bytes,
        "rate_bytes_per_s": finding.rate_bytes_per_s,
        "time_to_full_s": finding.time_to_full_s,
        "confidence": finding.confidence,
        "phase": finding.phase,
        "evidence": evidence,
        "explanation": finding.explanation,
        "advice": finding.advice,
        "cause": finding.cause.as_ref().map(cause),
    })
}

fn cause(cause: &Cause) -> Value {
    json!({
        "site": cause.site.as_ref().map(site),
        "call_path": cause.call_path.iter().map(site).collect::<Vec<_>>(),
        "holder": cause.holder,
        "attributed_bytes": cause.attributed_bytes,
        "share": cause.share,
        "failure": cause.failure.as_ref().map(failure),
    })
}

fn failure(failure: &Failure) -> Value {
    let holders = failure
        .holders
        .iter()
        .map(|held| json!({"holder": held.holder, "category": held.category, "bytes": held.bytes}));
    let categories = failure.categories.iter();
    json!({
        "operation": failure.operation,
        "allocated_bytes": failure.allocated_bytes,
        "categories": categories.cloned().map(|(name, bytes)| (name, bytes.into())).collect::<Map<_, _>>(),
        "holders": holders.collect::<Vec<_>>(),
        "cut_short": failure.cut_short,
    })
}

fn site(site: &Site) -> Value {
    json!({
        "file": site.file,
        "line": site.line,
        "function": site.function,
        "source_text": site.source_text,
    })
}

/// One issue as JSON, described by `docs/schemas/issue.schema.json`.
fn issue(issue: &Issue) -> Value {
    plain(stormlog_format::Value::Map(issue.to_map()))
}

/// A value as any JSON library reads it: text without half characters, numbers that are
/// not finite as null.
fn plain(value: stormlog_format::Value) -> Value {
    use stormlog_format::Value as Ours;
    match value {
        Ours::Null | Ours::Opaque(_) => Value::Null,
        Ours::Bool(value) => json!(value),
        Ours::Int(value) => json!(value),
        Ours::Float(value) => json!(value),
        Ours::Big(digits) => json!(&*digits),
        Ours::Text(text) => json!(text.to_str_lossy()),
        Ours::List(items) => items.into_iter().map(plain).collect(),
        Ours::Map(map) => {
            let entries = map.into_iter();
            let entries = entries.map(|(key, value)| (key.to_str_lossy().into(), plain(value)));
            Value::Object(entries.collect())
        }
    }
}

fn coverage(report: &Report) -> Value {
    let ranks = || report.runs.iter().flat_map(|run| &run.ranks);
    let mut coverage = json!({
        "events": report.events,
        "samples": ranks().map(|rank| rank.samples).sum::<usize>(),
        "late_samples": ranks().map(|rank| rank.late_samples).sum::<usize>(),
        "gaps": ranks().map(|rank| rank.gaps).sum::<usize>(),
        "longest_gap_ns": ranks().map(|rank| rank.longest_gap_ns).max().unwrap_or(0),
        "first_timestamp_ns": ranks().map(|rank| rank.first_ns).min(),
        "last_timestamp_ns": ranks().map(|rank| rank.last_ns).max(),
        "damage": report.damage.iter().map(damage).collect::<Vec<_>>(),
    });
    add_removed(&mut coverage, &report.removed);
    coverage
}

fn damage(damage: &Damage) -> Value {
    json!({
        "file": damage.file.to_string_lossy(),
        "line": damage.line,
        "byte_range": damage.bytes.as_ref().map(|bytes| [bytes.start, bytes.end]),
        "reason": damage.reason,
    })
}

fn run(run: &RunReport) -> Value {
    let verdicts: Map<String, Value> = run
        .diagnosis
        .verdicts
        .iter()
        .map(|(kind, verdict)| (kind.as_str().to_owned(), json!(answer(verdict))))
        .collect();
    json!({
        "job_id": run.job_id.as_ref().map(ToString::to_string),
        "run_id": run.timeline.program.run_id,
        "program": run.timeline.program.name,
        "end": end(&run.diagnosis.end),
        "world_size": run.world_size,
        "session_ids": run.sessions.iter().map(|s| s.session_id.to_string()).collect::<Vec<_>>(),
        "headline": run.diagnosis.headline(),
        "verdicts": verdicts,
        "ranks": run.ranks.iter().map(rank).collect::<Vec<_>>(),
        "resources": resources(&run.timeline),
        "notes": run.diagnosis.notes.iter().map(note).collect::<Vec<_>>(),
        "missing_ranks": run.missing_ranks,
    })
}

/// How a run ended.
pub fn end(end: &End) -> Value {
    let (code, signal) = match end {
        End::Exit { code } => (*code, None),
        End::Signal { number } => (None, Some(*number)),
        _ => (None, None),
    };
    json!({"kind": end.as_str(), "code": code, "signal": signal, "text": end.clause()})
}

fn answer(verdict: &stormlog_analysis::detect::Verdict) -> &'static str {
    use stormlog_analysis::detect::Verdict;
    match verdict {
        Verdict::Clear => "clear",
        Verdict::Found(_) => "found",
        Verdict::TooShort => "not_enough_evidence",
    }
}

fn note(note: &Note) -> Value {
    json!({
        "rank": note.rank,
        "device_id": note.device_id,
        "phase": note.phase,
        "phase_peak_bytes": note.phase_peak_bytes,
        "step_peak_bytes": note.step_peak_bytes,
        "unused_cache_bytes": note.unused_cache_bytes,
        "explanation": note.explanation,
        "advice": note.advice,
    })
}

/// What was recorded of each resource of each process of a run.
pub fn resources(run: &Run) -> Value {
    run.by_resource().iter().map(resource).collect()
}

fn resource(of: &ResourceCoverage) -> Value {
    let mut entry = rank(&of.recorded);
    entry["pid"] = json!(of.pid);
    let (name, index) = match of.resource {
        Resource::Host => ("host", None),
        Resource::Device(index) => ("device", Some(index)),
    };
    entry["resource"] = json!(name);
    entry["device_id"] = json!(index);
    entry
}

fn rank(rank: &RankCoverage) -> Value {
    json!({
        "rank": rank.rank,
        "host": rank.host,
        "sessions": rank.sessions,
        "samples": rank.samples,
        "first_timestamp_ns": rank.first_ns,
        "last_timestamp_ns": rank.last_ns,
        "median_interval_ns": rank.interval_ns,
        "late_samples": rank.late_samples,
        "gaps": rank.gaps,
        "longest_gap_ns": rank.longest_gap_ns,
        "peak_allocated_bytes": rank.peaks.allocated,
        "peak_reserved_bytes": rank.peaks.reserved,
        "peak_used_bytes": rank.peaks.used,
        "last_used_bytes": rank.last_used_bytes,
        "device_total_bytes": rank.device_total_bytes,
    })
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
        "remediation": reference::remediation(finding.class),
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
