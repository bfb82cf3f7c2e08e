//! Tests loading bundles of `diagnose` and of the OOM flight recorder.

use stormlog_analysis::LoadError;
use stormlog_format::SessionStatus;

use crate::support::{events, fixture, folder, load, load_around_damage, refused, write};

#[test]
fn an_oom_bundle_is_its_session_with_the_ring_buffers_events() {
    let path = fixture("oom_bundle/oom_dump_20261115T070544Z_962_cuda_1");
    let loaded = load(&path);
    assert_eq!(loaded.sessions.len(), 1);
    let session = &loaded.sessions[0];
    assert_eq!(session.summary.status, SessionStatus::Running);
    assert_eq!(session.events.len(), 25);
    let all = events(&loaded);
    let last = all.last().expect("events");
    assert_eq!(last.event_type, "error");
    assert_eq!(last.collector, "stormlog.cuda_tracker");
    // The ring buffer has its own names for the device's counters.
    assert!(
        all.iter()
            .any(|event| event.counters.device_total_bytes == Some(150_109_880_320))
    );
    assert!(
        all.iter()
            .any(|event| event.counters.allocator_active_bytes.is_some())
    );
    let by_manifest = load(&path.join("manifest.json"));
    assert_eq!(events(&by_manifest), all);
}

#[test]
fn a_diagnose_bundle_is_its_timeline() {
    for bundle in ["diagnose_bundle", "diagnose_bundle/telemetry_timeline.json"] {
        let loaded = load(&fixture(bundle));
        let session = &loaded.sessions[0];
        assert_eq!(session.summary.status, SessionStatus::Completed);
        assert_eq!(session.summary.source, "gpumemprof diagnose");
        let all = events(&loaded);
        assert_eq!(all.len(), 6);
        assert_eq!(all[1].sampling_interval_ms, 500);
        assert_eq!(all[1].counters.allocator_change_bytes, Some(1 << 20));
        assert_eq!(all[0].host, "node-01");
        assert_eq!(all[0].counters.device_total_bytes, None);
    }
}

#[test]
fn a_diagnose_bundle_without_a_manifest_still_gives_its_samples() {
    let loaded = load(&fixture("diagnose_without_manifest"));
    assert_eq!(events(&loaded).len(), 6);
    assert_eq!(loaded.sessions[0].summary.status, SessionStatus::Incomplete);
}

#[test]
fn a_diagnose_bundle_that_was_interrupted_tells_so() {
    let folder = folder();
    let manifest = std::fs::read(fixture("diagnose_bundle/manifest.json")).expect("readable");
    write(&folder, "manifest.json", manifest);
    let loaded = load(folder.path());
    assert_eq!(loaded.sessions.len(), 1);
    assert_eq!(events(&loaded), []);
    assert!(loaded.damage[0].reason.contains("no timeline"));
}

#[test]
fn points_of_a_timeline_that_are_unknown_are_left_out_and_reported() {
    let folder = folder();
    let path = write(
        &folder,
        "telemetry_timeline.json",
        r#"{"timestamps": [1, 2, null, 4, 5], "allocated": [1, NaN, 3, 4, 5],
            "reserved": [1, 2, 3, "x", 5]}"#,
    );
    let loaded = load(&path);
    let times: Vec<i64> = events(&loaded)
        .iter()
        .map(|event| event.timestamp_ns)
        .collect();
    assert_eq!(times, [1_000_000_000, 5_000_000_000]);
    assert_eq!(loaded.damage.len(), 1);
    assert!(
        loaded.damage[0].reason.starts_with("3 points"),
        "{}",
        loaded.damage[0]
    );
}

#[test]
fn points_that_break_a_rule_are_errors_or_skipped() {
    let folder = folder();
    let text = r#"{"timestamps": [1, -2, 3], "allocated": [1, 2, -3], "reserved": [1, 2, 3]}"#;
    let path = write(&folder, "telemetry_timeline.json", text);
    assert!(matches!(
        refused(&path),
        LoadError::BadRecord { index: Some(1), .. }
    ));
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 1);
    assert_eq!(loaded.damage.len(), 2);
}

#[test]
fn lists_of_different_length_give_their_common_part() {
    let folder = folder();
    let text = r#"{"timestamps": [1, 2, 3], "allocated": [1, 2], "reserved": [1, 2, 3]}"#;
    let path = write(&folder, "telemetry_timeline.json", text);
    let loaded = load(&path);
    assert_eq!(events(&loaded).len(), 2);
    assert!(loaded.damage[0].reason.contains("differ in length"));
}

#[test]
fn ranks_beyond_all_sense_are_errors() {
    let folder = folder();
    let text = format!(
        r#"{{"timestamps": [1], "allocated": [1], "reserved": [1], "rank": {}}}"#,
        i64::MAX
    );
    let path = write(&folder, "telemetry_timeline.json", text);
    assert!(matches!(refused(&path), LoadError::BadRecord { .. }));
}

#[test]
fn bundles_that_are_no_text_are_refused() {
    let folder = folder();
    let manifest = br#"{"bundle_name": "b", "reason": "r", "backend": "cuda", "event_count": 1}"#;
    write(&folder, "manifest.json", manifest);
    write(
        &folder,
        "events.json",
        b"[{\"timestamp\": 1, \"context\": \"\xff\"}]",
    );
    assert!(matches!(refused(folder.path()), LoadError::NotUtf8 { .. }));
    let timeline = b"{\"timestamps\": [], \"allocated\": [], \"reserved\": [], \"x\": \"\xff\"}";
    let path = write(&folder, "telemetry_timeline.json", timeline);
    assert!(matches!(refused(&path), LoadError::NotUtf8 { .. }));
}
