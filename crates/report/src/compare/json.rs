//! The comparison for programs, described by `docs/schemas/compare.schema.json`.

use serde_json::{Value, json};
use stormlog_analysis::compare::{
    Change, Comparison, Difference, GateOutcome, KnownFinding, LoneRank, RankComparison, Side,
};
use stormlog_analysis::detect::{Measure, Metric};

use super::words;

/// The version of this document.
const SCHEMA_VERSION: u32 = 1;

/// The comparison as JSON.
pub fn comparison(comparison: &Comparison) -> Value {
    let findings = &comparison.findings;
    json!({
        "schema_version": SCHEMA_VERSION,
        "verdict": {
            "status": status(comparison),
            "headline": words::headline(comparison),
            "passed": comparison.passed(),
        },
        "base": side(&comparison.base),
        "new": side(&comparison.new),
        "ranks": comparison.ranks.iter().map(rank).collect::<Vec<_>>(),
        "ranks_only_in_base": lone(&comparison.only_in_base),
        "ranks_only_in_new": lone(&comparison.only_in_new),
        "findings": {
            "new": findings.new.iter().map(finding).collect::<Vec<_>>(),
            "gone": findings.gone.iter().map(finding).collect::<Vec<_>>(),
            "unanswered": findings.unanswered.iter().map(finding).collect::<Vec<_>>(),
            "shared": findings.shared.iter().map(finding).collect::<Vec<_>>(),
        },
        "gates": comparison.gates.iter().map(gate).collect::<Vec<_>>(),
        "notes": comparison.notes,
    })
}

/// One word for all numbers.
fn status(comparison: &Comparison) -> &'static str {
    let has = |wanted| {
        let mut all = comparison.differences();
        all.any(|(_, _, one)| one.verdict == wanted)
    };
    match (has(Change::Higher), has(Change::Lower)) {
        (true, true) => "mixed",
        (true, false) => "higher",
        (false, true) => "lower",
        (false, false) if has(Change::Unchanged) => "unchanged",
        (false, false) => "not_enough_evidence",
    }
}

fn side(side: &Side) -> Value {
    let profile = &side.profile;
    json!({
        "source": side.source,
        "job_id": profile.job_id,
        "ranks": profile.ranks.iter().map(|rank| rank.rank)
            .collect::<std::collections::BTreeSet<_>>(),
        "samples": profile.samples(),
    })
}

fn rank(rank: &RankComparison) -> Value {
    let phases = rank.phases.iter().map(|phase| {
        json!({
            "name": phase.name,
            "metrics": phase.differences.iter().map(difference).collect::<Vec<_>>(),
        })
    });
    json!({
        "rank": rank.rank,
        "device_id": rank.device_id,
        "base_samples": rank.samples.0,
        "new_samples": rank.samples.1,
        "metrics": rank.differences.iter().map(difference).collect::<Vec<_>>(),
        "phases": phases.collect::<Vec<_>>(),
        "phases_only_in_base": rank.phases_only_in_base,
        "phases_only_in_new": rank.phases_only_in_new,
    })
}

fn difference(one: &Difference) -> Value {
    let value = |measure: Option<Measure>| measure.map(|it| number(one.metric, it.value));
    let noise = |measure: Option<Measure>| measure.and_then(|it| it.noise);
    json!({
        "metric": one.metric.as_str(),
        "unit": unit(one.metric),
        "base": value(one.base),
        "base_noise": noise(one.base),
        "new": value(one.new),
        "new_noise": noise(one.new),
        "change": one.change().map(|change| number(one.metric, change)),
        "change_ratio": one.ratio(),
        "verdict": one.verdict.as_str(),
    })
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::LeakPerStep => "bytes_per_step",
        metric if metric.is_slope() => "bytes_per_s",
        _ => "bytes",
    }
}

/// Bytes are whole.
fn number(metric: Metric, value: f64) -> Value {
    if unit(metric) == "bytes" {
        json!(value.round() as i64)
    } else {
        json!(value)
    }
}

fn lone(ranks: &[LoneRank]) -> Value {
    let one = |rank: &LoneRank| json!({"rank": rank.rank, "device_id": rank.device_id});
    ranks.iter().map(one).collect()
}

fn finding(finding: &KnownFinding) -> Value {
    json!({
        "kind": finding.kind,
        "rank": finding.rank,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "explanation": finding.explanation,
    })
}

fn gate(gate: &GateOutcome) -> Value {
    json!({
        "gate": gate.kind.as_str(),
        "limit": gate.limit,
        "status": gate.status.as_str(),
        "reasons": gate.misses.iter().map(words::miss).collect::<Vec<_>>(),
    })
}
