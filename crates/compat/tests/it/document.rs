//! Tests the JSON document of `gpumemprof analyze`.

use std::path::Path;

use stormlog_analysis::analyze::{AnalyzeOptions, Report};
use stormlog_analysis::{LoadOptions, gather};
use stormlog_compat::{Analyses, ReportDocument, lines};
use stormlog_report::analyze;
use stormlog_report::document::to_value;

fn analysis_of(recording: &str) -> (Report, Analyses) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(recording);
    let gathered = gather(&[path], &LoadOptions::default()).expect("the fixture loads");
    Analyses::with_report(&gathered.loaded, &AnalyzeOptions::default()).expect("a session")
}

#[test]
fn ranks_are_compared_under_the_keys_of_stormlog_0_3_9() {
    let (report, analyses) = analysis_of("recordings/ddp_two_ranks");
    let document = to_value(&ReportDocument::of(&report, &analyses));
    assert_eq!(document["cross_rank_analysis"]["world_size"], 2);
    let session = &document["session"]["selected_session_id"];
    let selected = analyses.selected.as_ref().unwrap().session_id.to_string();
    assert_eq!(*session, selected);
    assert_eq!(document["optimization_score"]["score"], 100);
    let lines = lines(&analyses);
    assert!(lines.contains(&"Participating ranks: 0, 1".to_owned()));
}

#[test]
fn our_own_keys_stand_beside_those_of_stormlog_0_3_9() {
    let (report, analyses) = analysis_of("recordings/ddp_two_ranks");
    let ours = to_value(&analyze::Document::of(&report));
    let document = to_value(&ReportDocument::of(&report, &analyses));
    for (key, value) in ours.as_object().unwrap() {
        assert_eq!(document[key], *value, "{key}");
    }
    for key in ["gap_analysis", "collective_attribution", "summary"] {
        assert!(
            ours.get(key).is_none() && document.get(key).is_some(),
            "{key}"
        );
    }
}
