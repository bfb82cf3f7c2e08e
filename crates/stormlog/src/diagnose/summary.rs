//! Computes `diagnostic_summary.json` of a diagnose bundle: memory sizes, risk flags and
//! suggestions. Unknown values are null.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::analyze::Report;
use stormlog_analysis::detect::{Finding, Severity};

use super::seen::{Point, Seen, Subject};

/// Memory counts as nearly full when at least this share of the memory is in use.
const HIGH_UTILIZATION: f64 = 0.85;
/// The allocator counts as fragmented when at least this share of its reserved memory is unused.
const FRAGMENTED: f64 = 0.3;

/// The numbers of a recorded window, with the keys of stormlog 0.3.9 and some more. Bytes and
/// ratios are those of the last sample; null means unknown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// The backend: cuda, rocm, mps or cpu.
    backend: String,
    allocated_bytes: Option<i64>,
    reserved_bytes: Option<i64>,
    /// The highest value in the recorded window.
    peak_bytes: Option<i64>,
    total_bytes: Option<i64>,
    /// Reserved bytes minus allocated bytes.
    allocator_gap_bytes: Option<i64>,
    utilization_ratio: Option<f64>,
    fragmentation_ratio: Option<f64>,
    /// The number of out-of-memory errors, and of processes that the kernel killed for lack of
    /// memory.
    num_ooms: u64,
    risk_flags: RiskFlags,
    suggestions: Vec<String>,
    used_bytes: Option<i64>,
    peak_utilization_ratio: Option<f64>,
    /// The used share of the control group's memory limit; null if it is unknown or another limit
    /// is lower.
    group_utilization_ratio: Option<f64>,
    samples: usize,
    /// The names of the raised flags, then the kinds of the findings.
    #[serde(skip)]
    pub(super) raised: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each boolean field is a risk flag of the JSON document"
)]
struct RiskFlags {
    oom_occurred: bool,
    /// Whether 85 % of the device, the limit or the control group was in use at any time of the
    /// window.
    high_utilization: bool,
    fragmentation_warning: bool,
    /// Whether report.json has a finding of growing memory (`allocator_leak`, `hidden_drift` or
    /// `host_leak`), or another finding that is a warning or more severe.
    memory_finding: bool,
}

impl RiskFlags {
    /// The names of the raised flags. `memory_finding` is left out, because the caller adds the
    /// kinds of the findings instead.
    fn raised(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            ("oom_occurred", self.oom_occurred),
            ("high_utilization", self.high_utilization),
            ("fragmentation_warning", self.fragmentation_warning),
        ];
        flags.into_iter().filter(|flag| flag.1).map(|flag| flag.0)
    }
}

impl Summary {
    pub(super) fn of(seen: &Seen, subject: &Subject, report: &Report) -> Self {
        let points = &subject.points;
        let last = points.last();
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
        let risk_flags = RiskFlags {
            oom_occurred: ooms > 0,
            high_utilization: worst.is_some_and(|ratio| ratio >= HIGH_UTILIZATION),
            fragmentation_warning: fragmentation.is_some_and(|ratio| ratio >= FRAGMENTED),
            memory_finding: !findings.is_empty(),
        };
        let kinds: BTreeSet<&str> = findings
            .iter()
            .map(|finding| finding.kind.as_str())
            .collect();
        let raised = risk_flags.raised().chain(kinds);
        let counters = last.map(|point| point.counters).unwrap_or_default();
        let (allocated, reserved) = (
            counters.allocator_allocated_bytes,
            counters.allocator_reserved_bytes,
        );
        Self {
            backend: subject.backend.clone(),
            allocated_bytes: allocated,
            reserved_bytes: reserved,
            peak_bytes: points
                .iter()
                .filter_map(|point| point.counters.level())
                .max(),
            total_bytes: counters.device_total_bytes,
            allocator_gap_bytes: reserved
                .zip(allocated)
                .and_then(|(reserved, allocated)| reserved.checked_sub(allocated)),
            utilization_ratio: last.and_then(Point::utilization),
            fragmentation_ratio: fragmentation,
            num_ooms: ooms,
            raised: raised.map(str::to_owned).collect(),
            suggestions: suggestions(&findings, &risk_flags, most_fragmented),
            risk_flags,
            used_bytes: counters.device_used_bytes,
            peak_utilization_ratio: peak_utilization,
            group_utilization_ratio: seen.group_utilization,
            samples: points.len(),
        }
    }
}

/// Whether a finding is a risk to the run. A single spike, or a rank that uses slightly more memory
/// than the others, is no risk.
fn is_risk(finding: &Finding) -> bool {
    // A leak is a risk to a longer run, even if this run ended normally.
    finding.kind.detector().is_growth || finding.severity >= Severity::Warning
}

fn suggestions(
    findings: &[&Finding],
    flags: &RiskFlags,
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
    if flags.oom_occurred {
        add(
            "Out of memory: reduce the memory of a step (batch size, sequence length, activation \
             checkpointing) or raise the memory limit",
        );
    }
    if flags.high_utilization {
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
