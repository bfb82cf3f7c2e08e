//! Compares recordings of real programs. The findings that differ between two runs and the metrics
//! that describe the same memory must say the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stormlog_analysis::LoadOptions;
use stormlog_analysis::analyze::AnalyzeOptions;
use stormlog_analysis::compare::{
    Change, Comparison, FailOn, Gates, KnownFinding, Side, compare, read_side,
};
use stormlog_analysis::detect::Metric;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// Reads each recording only once.
#[derive(Default)]
struct Sides(BTreeMap<&'static str, Side>);

impl Sides {
    fn of(&mut self, name: &'static str) -> Side {
        let read = || {
            let (options, choice) = (LoadOptions::default(), AnalyzeOptions::default());
            let side = read_side(&fixture(name), &choice, &options);
            side.unwrap_or_else(|error| panic!("{name}: {error}")).0
        };
        self.0.entry(name).or_insert_with(read).clone()
    }

    fn compared(&mut self, base: &'static str, new: &'static str) -> Comparison {
        let gates = Gates {
            fail_on: vec![FailOn::Higher],
            ..Gates::default()
        };
        compare(self.of(base), self.of(new), &gates)
    }
}

const CLEAN: &[&str] = &[
    "causes/clean_gpt",
    "causes/clean_serving",
    "recordings/shared_clean_gpt",
    "recordings/compile_model",
    "recordings/load_and_exit",
    "runs/h200_clean_train",
    "runs/v040_clean_gpt",
];

const LEAKING: &[&str] = &[
    "causes/outputs_list",
    "causes/kv_cache",
    "causes/f_host_history",
    "causes/f_lru_cache",
    "causes/f_param_groups_grow",
    "causes/native_malloc",
    "causes/rank_leak",
    "recordings/hook_appends",
    "recordings/leak_starts_late",
    "recordings/losses_to_oom",
    "recordings/pinned_leak",
    "recordings/native_cudamalloc",
    "recordings/shared_outputs_list",
    "recordings/shared_host_leak",
    "recordings/jax_history_leak",
    "runs/h200_leak_graph",
    "runs/h200_hidden_drift",
    "runs/v040_kv_cache",
    "runs/v040_outputs_list",
    "baselines/v040_leak_graph.json",
];

/// The metrics that describe the growth of a finding, on a rank with a device.
fn described_by(finding: &KnownFinding) -> &'static [Metric] {
    match finding.kind.as_str() {
        "allocator_leak" => &[Metric::AllocatedSlope, Metric::LeakPerStep],
        "hidden_drift" => &[Metric::GapSlope],
        "host_leak" => &[Metric::HostSlope],
        _ => &[],
    }
}

/// What contradicts a new (or gone) finding in a comparison.
fn contradictions(comparison: &Comparison) -> Vec<String> {
    let changes = &comparison.findings;
    let new = changes.new.iter().map(|one| (one, "new", Change::Higher));
    let gone = changes.gone.iter().map(|one| (one, "gone", Change::Lower));
    let mut found = Vec::new();
    for (finding, what, expected) in new.chain(gone) {
        let ranks = comparison.ranks.iter();
        for rank in ranks.filter(|rank| finding.rank.is_none_or(|it| it == rank.rank)) {
            let about = |metric: Metric| described_by(finding).contains(&metric);
            let rows = rank.differences.iter().filter(|row| about(row.metric));
            for row in rows.filter(|row| row.base.is_some() && row.new.is_some()) {
                // Loading data is faster than any leak, and is no growth.
                let rises_without_leak = match expected {
                    Change::Higher => row.change() <= Some(0.0),
                    _ => row.change() >= Some(0.0),
                };
                let expected = if rises_without_leak {
                    Change::NotComparable
                } else {
                    expected
                };
                if row.verdict != expected {
                    found.push(format!(
                        "{what} {} on rank {} but {} {} ({:?} -> {:?})",
                        finding.kind,
                        rank.rank,
                        row.metric.as_str(),
                        row.verdict.as_str(),
                        row.base,
                        row.new,
                    ));
                }
            }
        }
    }
    found
}

#[test]
fn findings_and_metrics_agree() {
    let mut sides = Sides::default();
    let mut wrong = Vec::new();
    let mut judged = 0;
    for clean in CLEAN {
        for leaking in LEAKING {
            for (base, new) in [(clean, leaking), (leaking, clean)] {
                let comparison = sides.compared(base, new);
                judged += comparison.findings.new.len() + comparison.findings.gone.len();
                let found = contradictions(&comparison);
                wrong.extend(found.iter().map(|one| format!("{base} -> {new}: {one}")));
            }
        }
    }
    assert!(judged > 200, "{judged}");
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let mut sides = Sides::default();
    for name in CLEAN
        .iter()
        .chain(LEAKING)
        .chain(&["runs/h200_shared_gpu", "runs/h200_oom"])
    {
        let comparison = sides.compared(name, name);
        for (_, _, row) in comparison.differences() {
            assert_eq!(row.verdict, Change::Unchanged, "{name}: {row:?}");
        }
        assert!(comparison.passed(), "{name}: {:?}", comparison.gates);
        assert!(comparison.findings.new.is_empty() && comparison.findings.gone.is_empty());
    }
}

/// Recordings of the same clean program, some of them on a device that other processes used more.
#[test]
fn what_other_processes_use_is_not_higher() {
    let pairs = [
        ("recordings/shared_clean_gpt", "causes/clean_gpt"),
        ("recordings/shared_clean_serving", "causes/clean_serving"),
    ];
    let mut sides = Sides::default();
    for (one, other) in pairs {
        for (base, new) in [(one, other), (other, one)] {
            let comparison = sides.compared(base, new);
            let rows = comparison.differences().map(|(_, _, row)| row);
            let changed = rows.filter(|row| matches!(row.verdict, Change::Higher | Change::Lower));
            let changed: Vec<_> = changed.collect();
            assert!(changed.is_empty(), "{base} -> {new}: {changed:?}");
        }
    }
    let shared = sides.compared("runs/h200_shared_gpu", "runs/h200_shared_gpu");
    let used = [Metric::PeakUsed, Metric::SteadyUsed, Metric::UsedSlope];
    let mut rows = shared.differences();
    assert!(!rows.any(|(_, _, row)| used.contains(&row.metric)));
}
