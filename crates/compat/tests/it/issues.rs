//! Tests the issues that stormlog 0.3.9 finds.

use std::collections::HashMap;
use std::path::Path;

use stormlog_analysis::issue::{Issue, IssueFilter};
use stormlog_analysis::query::Store;
use stormlog_compat::hidden_memory_anomalies;

/// Stormlog's own detectors know that this memory belongs to a neighbour on the same device.
#[test]
fn memory_of_a_neighbour_is_an_anomaly() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let store = Store::open(&[fixtures.join("runs/h200_shared_gpu")]);
    let kinds_of = |issues: Vec<Issue>| -> Vec<String> {
        issues.iter().map(|issue| issue.kind.to_string()).collect()
    };
    let anomalies = || hidden_memory_anomalies(&store);
    assert_eq!(kinds_of(anomalies()), ["hidden_memory_anomaly"]);
    let issues = store.issues_with(anomalies, &IssueFilter::default(), &HashMap::new());
    assert_eq!(kinds_of(issues), ["hidden_memory_anomaly"]);
}
