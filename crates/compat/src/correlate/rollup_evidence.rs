//! Converts the windows of rollups (totals per minute) to evidence.

use stormlog_analysis::query::{Store, path_text};
use stormlog_format::rollup::{SessionRollup, WindowRollup};
use stormlog_format::{Map, Value};

use super::evidence::{Evidence, evidence_id};

pub(super) fn rollup_evidence(store: &Store) -> Vec<Evidence> {
    let mut found = Vec::new();
    for (index, source) in store.catalog().sources.iter().enumerate() {
        let Some(file) = store.rollup_windows(index) else {
            continue;
        };
        for session in &file.sessions {
            let windows = session.windows.iter();
            found.extend(windows.map(|window| Evidence {
                source_path: path_text(&source.path),
                ..of_window(window, session, file.window_duration_ns)
            }));
        }
    }
    found
}

fn of_window(window: &WindowRollup, session: &SessionRollup, duration_ns: i64) -> Evidence {
    let summary = &session.session;
    let parts: [Value; 4] = [
        "rollup".into(),
        summary.session_id.clone().into(),
        window.index.into(),
        window.start_ns.into(),
    ];
    let mut metadata = Map::new();
    metadata.insert("event_count", window.event_count);
    metadata.insert("sample_count", window.sample_count);
    metadata.insert("rank_count", window.rank_count);
    metadata.insert("alert_count", window.alert_count);
    metadata.insert(
        "collector_transition_count",
        window.collector_transition_count,
    );
    metadata.insert("oom_count", window.oom_count);
    metadata.insert("window_duration_ns", duration_ns);
    let title = format!("Rollup window {}", window.index);
    Evidence {
        evidence_id: evidence_id(&parts),
        session_id: Some(summary.session_id.clone()),
        job_id: summary.job_id.clone(),
        world_size: Some(summary.world_size),
        start_ns: Some(window.start_ns),
        end_ns: Some(window.end_ns),
        source_kind: "rollup".into(),
        metadata,
        ..Evidence::new("rollup_window", title)
    }
}
