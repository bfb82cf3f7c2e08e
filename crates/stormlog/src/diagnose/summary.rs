//! The summary of a diagnosis: numbers, flags and advice. Unknown values are null.

use std::collections::BTreeSet;

use stormlog_analysis::analyze::Report;
use stormlog_analysis::detect::{Finding, Kind, Severity};
use stormlog_format::{Map, Text, Value};

use super::seen::{Point, Seen, Subject};

/// Memory counts as nearly full at this utilization.
const HIGH_UTILIZATION: f64 = 0.85;
/// The allocator counts as fragmented at this share of unused reserved memory.
const FRAGMENTED: f64 = 0.3;

/// The summary of a diagnosis.
pub(super) struct Summary {
    /// `diagnostic_summary.json`.
    pub(super) map: Map,
    /// The raised flags, then the kinds of findings.
    pub(super) raised: Vec<String>,
}

impl Summary {
    pub(super) fn of(seen: &Seen, subject: &Subject, report: &Report) -> Self {
        let points = &subject.points;
        let last = points.last();
        let utilization = last.and_then(Point::utilization);
        let peak_utilization = highest(points.iter().filter_map(Point::utilization));
        let worst = highest(
            [peak_utilization, seen.group_utilization]
                .into_iter()
                .flatten(),
        );
        let fragmentation = last.and_then(Point::fragmentation);
        let most_fragmented = highest(points.iter().filter_map(Point::fragmentation));
        let ooms = seen.ooms();
        let findings: Vec<&Finding> = report
            .findings()
            .filter(|finding| is_risk(finding))
            .collect();
        let flags = [
            ("oom_occurred", ooms > 0),
            (
                "high_utilization",
                worst.is_some_and(|ratio| ratio >= HIGH_UTILIZATION),
            ),
            (
                "fragmentation_warning",
                fragmentation.is_some_and(|ratio| ratio >= FRAGMENTED),
            ),
            ("memory_finding", !findings.is_empty()),
        ];
        let kinds: BTreeSet<&str> = findings
            .iter()
            .map(|finding| finding.kind.as_str())
            .collect();
        // The findings themselves are listed instead of the flag for them.
        let raised = flags
            .iter()
            .filter(|(name, raised)| *raised && *name != "memory_finding")
            .map(|(name, _)| (*name).to_owned())
            .chain(kinds.into_iter().map(str::to_owned))
            .collect();
        let counters = last.map(|point| point.counters);
        let counter = |get: fn(&stormlog_format::Counters) -> Option<i64>| {
            Value::from(counters.as_ref().and_then(get))
        };
        let ratio = |ratio: Option<f64>| ratio.map_or(Value::Null, Value::Float);
        let mut map = Map::new();
        map.insert("backend", &*subject.backend);
        map.insert("allocated_bytes", counter(|c| c.allocator_allocated_bytes));
        map.insert("reserved_bytes", counter(|c| c.allocator_reserved_bytes));
        map.insert("peak_bytes", points.iter().filter_map(Point::level).max());
        map.insert("total_bytes", counter(|c| c.device_total_bytes));
        map.insert(
            "allocator_gap_bytes",
            counter(|c| {
                c.allocator_reserved_bytes?
                    .checked_sub(c.allocator_allocated_bytes?)
            }),
        );
        map.insert("utilization_ratio", ratio(utilization));
        map.insert("fragmentation_ratio", ratio(fragmentation));
        map.insert("num_ooms", i64::try_from(ooms).unwrap_or(i64::MAX));
        let flags_map: Map = flags
            .into_iter()
            .map(|(name, raised)| (Text::from(name), Value::Bool(raised)))
            .collect();
        map.insert("risk_flags", Value::Map(flags_map));
        let advice = suggestions(&findings, &flags, most_fragmented);
        let advice = advice.into_iter().map(Value::text).collect();
        map.insert("suggestions", Value::List(advice));
        map.insert("used_bytes", counter(|c| c.device_used_bytes));
        map.insert("peak_utilization_ratio", ratio(peak_utilization));
        map.insert("group_utilization_ratio", ratio(seen.group_utilization));
        map.insert("samples", i64::try_from(points.len()).unwrap_or(i64::MAX));
        Self { map, raised }
    }
}

/// Whether a finding is a risk to the run. A single spike or a slightly larger rank is not.
fn is_risk(finding: &Finding) -> bool {
    // Growth is a risk to a longer run, even if this run ended normally.
    let grows = matches!(
        finding.kind,
        Kind::AllocatorLeak | Kind::HiddenDrift | Kind::HostLeak
    );
    grows || finding.severity >= Severity::Warning
}

fn suggestions(
    findings: &[&Finding],
    flags: &[(&str, bool)],
    most_fragmented: Option<f64>,
) -> Vec<String> {
    let mut advice: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        if !advice.iter().any(|known| known == text) {
            advice.push(text.to_owned());
        }
    };
    for finding in findings {
        add(&finding.advice);
    }
    let is_raised = |name: &str| flags.contains(&(name, true));
    if is_raised("oom_occurred") {
        add(
            "Out of memory: reduce the memory of a step (batch size, sequence length, activation \
             checkpointing) or raise the memory limit",
        );
    }
    if is_raised("high_utilization") {
        add(
            "Memory is nearly full: reduce the memory of a step or raise the memory limit, before \
             a peak ends the run",
        );
    }
    if most_fragmented.is_some_and(|ratio| ratio >= FRAGMENTED) {
        add("Reserved memory is fragmented: try \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True and fewer distinct tensor sizes");
    }
    advice
}

fn highest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().reduce(f64::max)
}
