//! The report as JSON: verdict, findings, issues, coverage and runs.

use serde_json::{Map, Value, json};
use stormlog_analysis::analyze::{Report, RunReport};
use stormlog_analysis::detect::{Cause, Failure, Finding, Note, Site};
use stormlog_analysis::issue::Issue;
use stormlog_analysis::timeline::{End, RankCoverage, Resource, ResourceCoverage, Run};

use super::words;
use crate::damage::damage_json;
use crate::ledger::ledgers_json;
use crate::removed::add_removed;

/// The version of these keys, which stand beside those of stormlog 0.3.9 in its reports.
const SCHEMA_VERSION: u32 = 1;

/// The report as JSON, described by `docs/schemas/analyze.schema.json` but for the keys of stormlog
/// 0.3.9, which the compat crate adds.
pub fn report(report: &Report) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("schema_version".into(), json!(SCHEMA_VERSION));
    document.insert("verdict".into(), verdict(report));
    document.insert("findings".into(), report.findings().map(finding).collect());
    document.insert("issues".into(), report.issues.iter().map(issue).collect());
    document.insert("coverage".into(), coverage(report));
    document.insert("runs".into(), report.runs.iter().map(run).collect());
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
        "damage": report.damage.iter().map(damage_json).collect::<Vec<_>>(),
    });
    add_removed(&mut coverage, &report.removed);
    coverage
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
        "ledgers": ledgers_json(&run.timeline),
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
