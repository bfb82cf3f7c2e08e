//! Phrases that all output formats of a comparison of two runs share: text, Markdown, JSON, HTML
//! and GitHub annotations.

use stormlog_analysis::compare::{
    Change, Comparison, Difference, GateOutcome, GateStatus, KnownFinding, LoneRank, Miss,
    RankComparison, Side,
};
use stormlog_analysis::detect::{Measure, Metric};
use stormlog_format::counted;

use crate::bytes;

/// The outcome of the comparison in one line: the gates first, then which metrics changed.
pub(super) fn headline(comparison: &Comparison) -> String {
    let changed = changed(comparison);
    let count = |status| {
        let gates = comparison.gates.iter();
        gates.filter(|gate| gate.status == status).count()
    };
    let (failed, unknown) = (count(GateStatus::Failed), count(GateStatus::NotJudged));
    let all = comparison.gates.len();
    match (failed, unknown) {
        (0, 0) if all == 0 => capital(&changed),
        (0, 0) if all == 1 => format!("The gate passed. {changed}"),
        (0, 0) => format!("All {all} gates passed. {changed}"),
        (0, 1) if all == 1 => format!("The gate cannot be evaluated. {changed}"),
        (0, unknown) => format!("{unknown} of {all} gates cannot be evaluated. {changed}"),
        (1, 0) if all == 1 => format!("The gate failed. {changed}"),
        (failed, 0) => format!("{failed} of {all} gates failed. {changed}"),
        (failed, unknown) => {
            format!("{failed} of {all} gates failed and {unknown} cannot be evaluated. {changed}")
        }
    }
}

/// Describes in one line which findings and metrics changed: what is new and what is gone first.
fn changed(comparison: &Comparison) -> String {
    let verdicts = || comparison.differences().map(|(_, _, one)| one.verdict);
    let count = |wanted| verdicts().filter(|verdict| *verdict == wanted).count();
    let (higher, lower) = (count(Change::Higher), count(Change::Lower));
    let findings = [
        (&comparison.findings.new, "new"),
        (&comparison.findings.gone, "gone"),
        (&comparison.findings.unanswered, "unknown whether gone"),
    ];
    let findings = findings.into_iter().filter(|(list, _)| !list.is_empty());
    let findings: Vec<String> = findings
        .map(|(list, what)| format!("{} {what}", counted(list.len(), "finding")))
        .collect();
    let numbers = match (higher, lower) {
        (0, 0) => unchanged(comparison),
        (higher, 0) => format!("{}: {}", metrics(higher, "higher"), worst(comparison)),
        (0, lower) => metrics(lower, "lower"),
        (higher, lower) => {
            let higher = metrics(higher, "higher");
            format!("{higher}, {lower} lower: {}", worst(comparison))
        }
    };
    if findings.is_empty() {
        let is_same = verdicts().all(|verdict| verdict == Change::Unchanged);
        let is_unknown = verdicts().all(|verdict| verdict == Change::NotEnoughEvidence);
        return if is_same || is_unknown {
            capital(&numbers)
        } else {
            format!("No finding is new or gone; {numbers}")
        };
    }
    format!("{}; {numbers}", findings.join(", "))
}

/// Describes the metrics of a comparison in which none is higher or lower.
fn unchanged(comparison: &Comparison) -> String {
    let all = || comparison.differences().map(|(_, _, one)| one);
    let is = |wanted: &[Change]| all().all(|one| wanted.contains(&one.verdict));
    if is(&[Change::NotEnoughEvidence]) {
        return "not enough data to compare the runs".to_owned();
    }
    if is(&[Change::Unchanged, Change::NotEnoughEvidence]) {
        return "all metrics are unchanged".to_owned();
    }
    let share = |one: &Difference| one.ratio().unwrap_or(0.0).abs();
    let peaks = comparison.differences().filter(|(_, _, one)| {
        one.metric.is_peak() && matches!(one.verdict, Change::WithinNoise | Change::TooSmall)
    });
    let largest = peaks.max_by(|(_, _, a), (_, _, b)| share(a).total_cmp(&share(b)));
    let largest = largest.map_or(String::new(), |(rank, phase, one)| {
        format!(
            "; of the peaks, {metric} of {place} differs most: {change}, {verdict}",
            metric = metric(one.metric),
            place = place(rank, phase),
            change = from_to(one),
            verdict = verdict(one)
        )
    });
    format!("no metric is higher or lower{largest}")
}

/// The text with a capital first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|ch| ch.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Describes how many metrics changed, with the word for the change: `1 metric is higher`, `3
/// metrics are higher`.
fn metrics(count: usize, change: &str) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb} {change}", counted(count, "metric"))
}

/// Describes the metric that grew most; peaks are preferred to other metrics in bytes, and these to
/// rates in bytes per minute or step.
fn worst(comparison: &Comparison) -> String {
    let higher = comparison
        .differences()
        .filter(|(_, _, one)| one.verdict == Change::Higher);
    let kind = |one: &Difference| (!is_rate(one.metric), one.metric.is_peak());
    let growth = |one: &Difference| one.change().unwrap_or(0.0);
    let worst = higher.max_by(|(_, _, a), (_, _, b)| {
        let kinds = kind(a).cmp(&kind(b));
        kinds.then(growth(a).total_cmp(&growth(b)))
    });
    worst.map_or(String::new(), |(rank, phase, one)| {
        format!(
            "{metric} of {place} {change}",
            metric = metric(one.metric),
            place = place(rank, phase),
            change = from_to(one)
        )
    })
}

/// Where a metric changed: `rank 3`, `rank 0, device 2`, `rank 3 in phase evaluation`.
pub(super) fn place(rank: &RankComparison, phase: Option<&str>) -> String {
    let device = rank.one_of_several.then_some(rank.device_id);
    place_of(rank.rank, device, phase)
}

fn place_of(rank: u32, device_id: Option<i64>, phase: Option<&str>) -> String {
    let device = device_id.map_or(String::new(), |device| format!(", device {device}"));
    let phase = phase.map_or(String::new(), |phase| format!(" in phase {phase}"));
    format!("rank {rank}{device}{phase}")
}

/// The name of a metric as reports print it.
pub(super) fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::PeakOwn => "peak used",
        Metric::PeakUsed => "peak used (all processes)",
        Metric::PeakReserved => "peak reserved",
        Metric::PeakCounted | Metric::PeakAllocated => "peak allocated",
        Metric::AllocatedSlope => "slope of allocated",
        Metric::LeakPerStep => "leak per step",
        Metric::SteadyAllocated => "steady allocated",
        Metric::SteadyOwn => "steady used",
        Metric::SteadyUsed => "steady used (all processes)",
        Metric::OwnSlope => "slope of used",
        Metric::UsedSlope => "slope of used (all processes)",
        Metric::Gap => "hidden memory",
        Metric::GapSlope => "slope of hidden memory",
        Metric::StepFloor => "floor of a step",
        Metric::StepPeak => "peak of a step",
        Metric::HostPeak => "peak of host memory",
        Metric::HostSteady => "steady host memory",
        Metric::HostSlope => "slope of host memory",
    }
}

/// Whether a metric is a rate: bytes per minute or per step.
fn is_rate(metric: Metric) -> bool {
    metric.is_slope() || metric == Metric::LeakPerStep
}

/// A value of a metric with its unit: `12.3 GiB`, `1.50 MiB/min`, `40.0 KiB/step`.
pub(super) fn amount(metric: Metric, value: f64) -> String {
    match metric {
        Metric::LeakPerStep => format!("{}/step", bytes::human(value.round() as i64)),
        metric if metric.is_slope() => {
            format!("{}/min", bytes::human((value * 60.0).round() as i64))
        }
        _ => bytes::human(value.round() as i64),
    }
}

/// The value of a metric in one of the two runs with its unit, such as `12.3 GiB`, or `unknown`.
pub(super) fn measure(metric: Metric, measure: Option<Measure>) -> String {
    measure.map_or("unknown".to_owned(), |measure| {
        amount(metric, measure.value)
    })
}

/// The change of a metric: `+2.30 GiB (+23 %)`. The text is empty when the value of one of the two
/// runs is unknown.
pub(super) fn change(difference: &Difference) -> String {
    let Some(change) = difference.change() else {
        return String::new();
    };
    let sign = if change > 0.0 { "+" } else { "" };
    let amount = amount(difference.metric, change);
    // The percentage of a rate is not printed, because it is meaningless when the rate is near
    // zero.
    match difference.ratio().filter(|_| !is_rate(difference.metric)) {
        Some(ratio) => format!("{sign}{amount} ({:+.1} %)", ratio * 100.0),
        None => format!("{sign}{amount}"),
    }
}

/// Both values of a metric and the change: `10.0 GiB -> 12.3 GiB, +2.30 GiB (+23 %)`.
fn from_to(difference: &Difference) -> String {
    format!(
        "{base} -> {new}, {change}",
        base = measure(difference.metric, difference.base),
        new = measure(difference.metric, difference.new),
        change = change(difference)
    )
}

/// The words that say whether a metric is higher, lower or unchanged in the new run, with the noise
/// where the change is no larger: `within noise (±12.0 MiB)`.
pub(super) fn verdict(difference: &Difference) -> String {
    match difference.verdict {
        Change::Unchanged => "unchanged".to_owned(),
        Change::WithinNoise => {
            let noise = difference.tolerance().unwrap_or(0.0);
            format!("within noise (±{})", amount(difference.metric, noise))
        }
        Change::TooSmall => "too small to count".to_owned(),
        Change::Lower => "lower".to_owned(),
        Change::Higher => "higher".to_owned(),
        Change::NotComparable => "not comparable".to_owned(),
        Change::NotEnoughEvidence => "not enough data".to_owned(),
    }
}

/// Describes one side of the comparison: `runs/main (job a, 2 ranks, 812 samples)`.
pub(super) fn side(side: &Side) -> String {
    let profile = &side.profile;
    let job = profile.job_id.as_ref();
    let job = job.map_or(String::new(), |job| format!("job {job}, "));
    let ranks: std::collections::BTreeSet<u32> =
        profile.ranks.iter().map(|rank| rank.rank).collect();
    format!(
        "{source} ({job}{ranks}, {samples})",
        source = side.source,
        ranks = counted(ranks.len(), "rank"),
        samples = counted(profile.samples(), "sample"),
    )
}

/// A finding in one line: `allocator_leak on rank 0: sentence`.
pub(super) fn finding(finding: &KnownFinding) -> String {
    format!(
        "{kind} {whose}: {explanation}",
        kind = finding.kind,
        whose = whose(finding),
        explanation = finding.explanation
    )
}

/// The findings of both runs in four lists, each with its title: findings that are new, that are
/// gone, that may be gone (unknown), and that are still there.
pub(super) fn finding_lists(comparison: &Comparison) -> [(&'static str, &[KnownFinding]); 4] {
    let changes = &comparison.findings;
    [
        ("new", &changes.new),
        ("gone", &changes.gone),
        ("unknown whether gone", &changes.unanswered),
        ("still there", &changes.shared),
    ]
}

/// The ranks that a finding concerns: `on rank 0`, `on all ranks`.
pub(super) fn whose(finding: &KnownFinding) -> String {
    match finding.rank {
        Some(rank) => format!("on rank {rank}"),
        None => "on all ranks".to_owned(),
    }
}

/// A gate (a limit that the user set) in the form of its flag: `--max-peak-growth 20%`.
pub(super) fn gate(gate: &GateOutcome) -> String {
    format!("{} {}", gate.kind.flag(), gate.limit)
}

/// The words that say whether a gate (a limit that the user set) holds.
pub(super) fn status(status: GateStatus) -> &'static str {
    match status {
        GateStatus::Passed => "passed",
        GateStatus::Failed => "failed",
        GateStatus::NotJudged => "cannot be evaluated",
    }
}

/// Describes one reason why a gate failed or could not be evaluated: `peak used of rank 0: 10.0 GiB
/// -> 12.3 GiB, +2.30 GiB (+23 %)`.
pub(super) fn miss(miss: &Miss) -> String {
    match miss {
        Miss::Grew {
            rank,
            device_id,
            phase,
            difference,
        } => format!(
            "{metric} of {place}: {change}",
            metric = metric(difference.metric),
            place = place_of(*rank, *device_id, phase.as_deref()),
            change = from_to(difference)
        ),
        Miss::Grows {
            rank,
            device_id,
            metric,
            slope,
        } => format!(
            "{metric} of {place}: {slope}",
            metric = self::metric(*metric),
            place = place_of(*rank, *device_id, None),
            slope = amount(*metric, slope.value)
        ),
        Miss::Found(finding) => format!("new finding {}", self::finding(finding)),
        Miss::TooLittleOf {
            rank,
            device_id,
            samples,
        } => format!(
            "not enough data on {place} ({samples} in the new run)",
            place = place_of(*rank, *device_id, None),
            samples = counted(*samples, "sample")
        ),
        Miss::NoRank => "no rank has samples in both runs".to_owned(),
        Miss::NoDiagnosis => "not enough data in the new run to analyze it".to_owned(),
    }
}

/// The largest number of reasons listed for a failed gate, because in a large run all ranks may
/// fail in the same way.
const LISTED: usize = 10;

/// The reasons why a gate failed or could not be evaluated, one line each. If there are more than
/// [`LISTED`] reasons, a last line states how many are not listed.
pub(super) fn misses(gate: &GateOutcome) -> Vec<String> {
    let mut lines: Vec<String> = gate.misses.iter().take(LISTED).map(miss).collect();
    let more = gate.misses.len().saturating_sub(LISTED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// The gates that could not be evaluated, with their reasons, for an error message.
pub fn unjudged_gates(comparison: &Comparison) -> Vec<String> {
    let gates = comparison.gates.iter();
    let gates = gates.filter(|gate| gate.status == GateStatus::NotJudged);
    gates
        .map(|one| format!("cannot evaluate {}: {}", gate(one), misses(one).join("; ")))
        .collect()
}

/// The notes on the comparison, and sentences about ranks and phases that only one of the two runs
/// has: `only the base has rank 3`.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let mut lines = comparison.notes.clone();
    for (name, ranks) in [
        ("base", &comparison.only_in_base),
        ("new side", &comparison.only_in_new),
    ] {
        if !ranks.is_empty() {
            lines.push(format!("only the {name} has {}", ranks_named(ranks)));
        }
    }
    for rank in &comparison.ranks {
        let place = place(rank, None);
        for (name, phases) in [
            ("base", &rank.phases_only_in_base),
            ("new side", &rank.phases_only_in_new),
        ] {
            if !phases.is_empty() {
                let phases = listed(phases.iter().cloned());
                lines.push(format!("{place}: only the {name} has phase {phases}"));
            }
        }
    }
    lines
}

fn ranks_named(ranks: &[LoneRank]) -> String {
    let several = |rank: u32| ranks.iter().filter(|one| one.rank == rank).count() > 1;
    let name = |one: &LoneRank| {
        if several(one.rank) {
            format!("{} (device {})", one.rank, one.device_id)
        } else {
            one.rank.to_string()
        }
    };
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", listed(ranks.iter().map(name)))
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(LISTED);
    let names: Vec<String> = names.take(LISTED).collect();
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The largest number of ranks that are listed with all metrics. If there are more ranks than this
/// number, the ranks whose metrics changed are listed first.
const RANKS: usize = 16;

/// The ranks to list with all metrics, and the number of ranks that are not listed.
pub(super) fn listed_ranks(comparison: &Comparison) -> (Vec<&RankComparison>, usize) {
    let mut ranks: Vec<&RankComparison> = comparison.ranks.iter().collect();
    if ranks.len() > RANKS {
        ranks.sort_by_key(|rank| (!has_changed(rank), rank.rank, rank.device_id));
        ranks.truncate(RANKS);
    }
    let left_out = comparison.ranks.len() - ranks.len();
    (ranks, left_out)
}

/// Whether a metric of the rank or of one of its phases is higher or lower in the new run.
pub(super) fn has_changed(rank: &RankComparison) -> bool {
    let phases = rank.phases.iter().flat_map(|phase| &phase.differences);
    let mut all = rank.differences.iter().chain(phases);
    all.any(|one| matches!(one.verdict, Change::Higher | Change::Lower))
}
