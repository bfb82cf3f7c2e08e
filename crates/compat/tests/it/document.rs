//! Tests the JSON document of `analyze`.

use std::path::Path;

use stormlog_analysis::analyze::{AnalyzeOptions, Report, analyze};
use stormlog_analysis::{LoadOptions, gather};
use stormlog_compat::{Analyses, lines, to_json};

fn report_on(recording: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(recording);
    let gathered = gather(&[path], &LoadOptions::default()).expect("the fixture loads");
    analyze(&gathered.loaded, &AnalyzeOptions::default()).expect("a session")
}

#[test]
fn ranks_are_compared_under_the_keys_of_stormlog_0_3_9() {
    let report = report_on("recordings/ddp_two_ranks");
    let analyses = Analyses::of(&report.selected_run);
    let document = to_json(&report, &analyses);
    assert_eq!(document["cross_rank_analysis"]["world_size"], 2);
    let session = &document["session"]["selected_session_id"];
    let selected = report.selected.as_ref().unwrap().session_id.to_string();
    assert_eq!(*session, selected);
    assert_eq!(document["optimization_score"]["score"], 100);
    let lines = lines(&analyses);
    assert!(lines.contains(&"Participating ranks: 0, 1".to_owned()));
}

#[test]
fn our_own_keys_stand_beside_those_of_stormlog_0_3_9() {
    let report = report_on("recordings/ddp_two_ranks");
    let ours = stormlog_report::analyze::to_json(&report);
    let document = to_json(&report, &Analyses::of(&report.selected_run));
    for (key, value) in &ours {
        assert_eq!(document[key], *value, "{key}");
    }
    for key in ["gap_analysis", "collective_attribution", "summary"] {
        assert!(
            !ours.contains_key(key) && document.get(key).is_some(),
            "{key}"
        );
    }
}
