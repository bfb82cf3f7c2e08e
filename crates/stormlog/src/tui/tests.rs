//! Tests every screen of the terminal UI as text, and the keys, without a terminal.

mod mouse;

use std::path::Path;
use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stormlog_analysis::analyze::{AnalyzeOptions, analyze};
use stormlog_analysis::issue::{EvidenceLink, Issue};
use stormlog_analysis::query::{SessionRow, SourceKind};
use stormlog_analysis::{EventRef, Events, LoadOptions, Loaded, LoadedSession, gather};
use stormlog_format::{Counters, Event, Map, SessionStatus, SessionSummary, Version};
use stormlog_report::Story;

use super::effect::Effect;
use super::message::Message;
use super::model::{Loading, Machine, Model, Tab};
use super::outline::Outline;
use super::update::update;
use super::view;

const START: i64 = 1_794_726_520_000_000_000;
const SECOND: i64 = 1_000_000_000;
const GIB: i64 = 1 << 30;

fn event(rank: i64, at_ns: i64, kind: &str, allocated: i64) -> Event {
    Event {
        version: Version::V3,
        session_id: format!("5e55-rank-{rank}").as_str().into(),
        timestamp_ns: START + at_ns,
        event_type: kind.into(),
        collector: "stormlog.cuda_tracker".into(),
        sampling_interval_ms: 100,
        pid: 4242,
        host: "node-7".into(),
        job_id: Some("llama".into()),
        rank,
        local_rank: rank,
        world_size: 2,
        device_id: rank,
        counters: Counters {
            allocator_allocated_bytes: Some(allocated),
            allocator_reserved_bytes: Some(allocated + GIB),
            allocator_change_bytes: Some(0),
            device_used_bytes: Some(allocated + 2 * GIB),
            device_total_bytes: Some(80 * GIB),
            ..Counters::default()
        },
        context: None,
        metadata: Map::new(),
    }
}

fn session(rank: i64) -> LoadedSession {
    let mut events: Vec<Event> = (0..400)
        .map(|step| {
            // From step 200 on, rank 1 keeps a little memory of every step, which is a leak.
            let kept = if rank == 1 { (step - 200).max(0) } else { 0 };
            let breath = (step % 4) * (GIB / 8);
            event(
                rank,
                step * SECOND / 10,
                "sample",
                10 * GIB + breath + kept * (GIB / 16),
            )
        })
        .collect();
    for (index, name) in ["train", "evaluate"].into_iter().enumerate() {
        let index = i64::try_from(index).unwrap();
        let boundary = |action: &str, at_ns: i64| {
            let mut event = event(rank, at_ns, &format!("phase_{action}"), 10 * GIB);
            let scope = format!(
                r#"{{"action": "{action}", "name": "{name}", "path": ["{name}"], "depth": 1,
                "scope_id": "s:{index}", "parent_scope_id": null, "thread_id": 1,
                "thread_name": "MainThread", "sequence": {}}}"#,
                2 * index + i64::from(action == "exit")
            );
            let scope = stormlog_format::json::parse(scope.as_bytes()).unwrap();
            event.metadata.insert("phase_scope", scope);
            event
        };
        events.push(boundary("enter", index * 20 * SECOND));
        events.push(boundary("exit", index * 20 * SECOND + 15 * SECOND));
    }
    events.push(event(rank, 40 * SECOND, "stop", 10 * GIB));
    events.sort_by_key(|event| event.timestamp_ns);
    LoadedSession {
        summary: SessionSummary {
            session_id: events[0].session_id.clone(),
            status: SessionStatus::Completed,
            started_at_ns: START,
            ended_at_ns: Some(START + 40 * SECOND),
            host: "node-7".into(),
            pid: 4242,
            job_id: Some("llama".into()),
            rank,
            local_rank: rank,
            world_size: 2,
            source: "test".into(),
            recorder: None,
        },
        events: Events::from_events(&events),
        sources: Vec::new(),
        damage: Vec::new(),
        thinned_until_ns: None,
    }
}

fn issue() -> Issue {
    Issue {
        fingerprint_id: "issue:876c8d11".into(),
        kind: "alert".into(),
        dimensions: Map::new(),
        state: "open",
        severity: "critical".into(),
        title: "CUDA out of memory\u{1b}[31m".into(),
        first_seen_ns: Some(START),
        last_seen_ns: Some(START + 40 * SECOND),
        affected_sessions: vec!["5e55-rank-1".into()],
        evidence: vec![EvidenceLink {
            timestamp_ns: Some(START + 40 * SECOND),
            rank: Some(1),
            source_path: Some("runs/llama/segment-000001.jsonl".into()),
            ..EvidenceLink::default()
        }],
        details: Map::new(),
        state_info: None,
        former_ids: Vec::new(),
    }
}

/// A model that shows a run with two ranks, built from messages.
fn loaded() -> Model {
    showing(&[session(0), session(1)])
}

/// A model that shows a run with the given sessions.
fn showing(sessions: &[LoadedSession]) -> Model {
    let mut model = Model::new(vec!["runs/llama".into()], START + 60 * SECOND, true);
    let row = |session: &LoadedSession| SessionRow {
        summary: session.summary.clone(),
        effective_status: session.summary.status,
        source_path: "runs/llama".into(),
        source_kind: SourceKind::Sink,
        source_count: 1,
        warning_count: 0,
        event_count: Some(405),
        oom_bundle_count: 0,
    };
    let rows = sessions.iter().map(row).collect();
    let references: Vec<&LoadedSession> = sessions.iter().collect();
    let mut story = Story::of_sessions(&references);
    let artifacts = [Loaded {
        sessions: sessions.to_vec(),
        ..Loaded::default()
    }];
    let report = analyze(&artifacts, &AnalyzeOptions::default()).unwrap();
    let run = &report.runs[0];
    story.add_diagnosis(&run.timeline, &run.diagnosis);
    for message in [
        Message::Machine(Machine {
            host: "node-7".into(),
            gpus: vec!["0 NVIDIA H200 140 GiB".into()],
            no_gpu: None,
        }),
        Message::Sessions(rows),
        Message::Run(Arc::new(report), Box::new(story)),
        Message::Issues(vec![issue()]),
    ] {
        assert!(update(&mut model, message).is_empty());
    }
    model
}

fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            key => KeyCode::Char(key),
        };
        effects.extend(update(model, Message::Key(KeyEvent::from(code))));
    }
    effects
}

fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(model, frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn notes_are_on_the_screen_on_pages_and_in_markdown() {
    let mut evaluates = session(0);
    let mut events: Vec<Event> = evaluates.events.iter().map(EventRef::to_event).collect();
    for event in &mut events {
        if (20 * SECOND..35 * SECOND).contains(&(event.timestamp_ns - START)) {
            event.counters.allocator_allocated_bytes = Some(30 * GIB);
            event.counters.allocator_reserved_bytes = Some(31 * GIB);
            event.counters.device_used_bytes = Some(32 * GIB);
        }
    }
    evaluates.events = Events::from_events(&events);
    let model = showing(&[evaluates]);
    let run = model.run.as_ref().unwrap();
    let note = "Note: phase 'evaluate' needs 2.9 times the memory";
    let shown = screen(&model, 120, 40);
    assert!(shown.contains(note), "{shown}");
    let markdown = stormlog_report::analyze::to_markdown(&run.report);
    assert!(markdown.contains(note), "{markdown}");
    let theme = stormlog_report::Theme::Light;
    let page =
        stormlog_report::html_page(&run.story, stormlog_report::PictureKind::Timeline, theme);
    assert!(page.unwrap().contains(note));
}

fn watching(model: &mut Model) {
    press(model, "2g");
    let mut events: Vec<Event> = (0..60)
        .map(|step| event(0, step * SECOND, "sample", (step + 8) * GIB))
        .collect();
    let mut warning = event(0, 61 * SECOND, "warning", GIB);
    warning.context = Some("High fragmentation: 41.0%".into());
    events.extend([warning.clone(), warning]);
    update(model, Message::Watched(events));
}

#[test]
fn every_tab_at_both_sizes() {
    for (width, height) in [(80, 24), (120, 40)] {
        for tab in Tab::ALL {
            let mut model = loaded();
            if tab == Tab::Monitoring {
                watching(&mut model);
            }
            model.tab = tab;
            let name = format!("{}_{width}x{height}", tab.as_str().to_lowercase());
            insta::assert_snapshot!(name, screen(&model, width, height));
        }
    }
}

#[test]
fn a_run_with_a_running_rank_has_no_end() {
    let mut model = loaded();
    model.now_ns = START + 600 * SECOND;
    assert!(screen(&model, 120, 40).contains("lasting  40.0 s "));
    model.sessions[1].summary.ended_at_ns = None;
    model.sessions[1].effective_status = SessionStatus::Running;
    assert!(screen(&model, 120, 40).contains("lasting  10 min so far"));
}

#[test]
fn what_uses_a_device_is_on_the_first_screen() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
    let paths = [runs.join("h200_ledger")];
    let gathered = gather(&paths, &LoadOptions::default()).unwrap();
    let model = showing(&gathered.loaded[0].sessions);
    for (width, height) in [(80, 24), (120, 40)] {
        let name = format!("ledger_{width}x{height}");
        insta::assert_snapshot!(name, screen(&model, width, height));
    }
}

#[test]
fn help_and_dialogs() {
    let mut model = loaded();
    press(&mut model, "3?");
    insta::assert_snapshot!("help_80x24", screen(&model, 80, 24));
    press(&mut model, "xo");
    update(
        &mut model,
        Message::Listed(
            String::new(),
            vec![super::folder::Entry {
                name: "runs\u{202e}".into(),
                is_folder: true,
            }],
        ),
    );
    insta::assert_snapshot!("open_80x24", screen(&model, 80, 24));
}

#[test]
fn without_anything_open() {
    let model = Model::new(Vec::new(), START, false);
    insta::assert_snapshot!("empty_80x24", screen(&model, 80, 24));
    for (width, height) in [(1, 1), (10, 3), (40, 12), (300, 100)] {
        for tab in Tab::ALL {
            let mut model = loaded();
            model.tab = tab;
            screen(&model, width, height);
        }
    }
}

#[test]
fn loading_tells_how_far_it_is() {
    let mut model = Model::new(vec!["runs/llama".into()], START, true);
    update(&mut model, Message::Progress(3 << 30, 4 << 30));
    assert!(screen(&model, 80, 24).contains("loading 3.00 GiB of 4.00 GiB (75 %)"));
    assert!(model.is_busy());
    update(&mut model, Message::Failed("no such thing".into()));
    assert_eq!(model.loading, Loading::Idle);
    assert!(screen(&model, 80, 24).contains("no such thing"));
}

#[test]
fn nothing_from_an_artifact_moves_the_cursor() {
    for tab in Tab::ALL {
        let mut model = loaded();
        model.tab = tab;
        assert!(!screen(&model, 120, 40).contains('\u{1b}'), "{tab:?}");
    }
}

#[test]
fn ranks_are_filtered() {
    let mut model = loaded();
    press(&mut model, "4");
    assert!(screen(&model, 120, 40).contains("allocator_leak"));
    press(&mut model, "f0\n");
    let shown = screen(&model, 120, 40);
    assert!(
        shown.contains("ranks 0") && !shown.contains("allocator_leak"),
        "{shown}"
    );
    press(&mut model, "f-9\n");
    assert!(model.note.as_ref().is_some_and(|note| note.0));
}

#[test]
fn issues_are_decided_from_the_keyboard() {
    let mut model = loaded();
    for (key, state) in [("r", "Resolved"), ("i", "Ignored"), ("e", "Open")] {
        press(&mut model, "5");
        let effects = press(&mut model, key);
        let texts = format!("{effects:?}");
        assert!(
            texts.contains("876c8d11") && texts.contains(state),
            "{texts}"
        );
    }
}

#[test]
fn sessions_are_sorted_and_filtered_while_typing() {
    let mut model = loaded();
    press(&mut model, "6s");
    let ranks = |model: &Model| -> Vec<i64> {
        model
            .listed_sessions()
            .iter()
            .map(|row| row.summary.rank)
            .collect()
    };
    assert_eq!(ranks(&model), [0, 1]);
    press(&mut model, "/rank 1");
    assert_eq!(ranks(&model), [1]);
    let effects = press(&mut model, "\n\n");
    assert!(matches!(&effects[..], [Effect::OpenSession(id)] if id == "5e55-rank-1"));
    assert_eq!(model.tab, Tab::Diagnostics);
}

#[test]
fn the_plot_zooms_and_reads() {
    let mut model = loaded();
    press(&mut model, "3");
    press(&mut model, "+++");
    let (from, to) = model.plot.part.unwrap();
    assert!(to - from < 10 * SECOND);
    press(&mut model, "0n");
    assert_eq!(model.plot.part, None);
    assert!(model.plot.cursor_ns.is_some());
    let shown = screen(&model, 120, 40);
    assert!(
        shown.contains("device used: ") && shown.contains("has grown by"),
        "{shown}"
    );
    press(&mut model, "r");
    assert!(screen(&model, 120, 40).contains("rank 0 device 0"));
    let effects = press(&mut model, "p");
    assert!(matches!(effects[..], [Effect::SavePlot(..)]));
}

#[test]
fn phases_and_the_way_to_the_timeline() {
    let mut model = loaded();
    press(&mut model, "4v");
    insta::assert_snapshot!("phases_80x24", screen(&model, 80, 24));
    press(&mut model, "v");
    press(&mut model, "j\n");
    assert_eq!(model.tab, Tab::Visualizations);
    let shown = screen(&model, 120, 40);
    assert!(
        shown.contains("rank 1 device 1") && shown.contains("has grown by"),
        "{shown}"
    );
    // For a rank without findings, the timeline shows the rank and no onset of a finding.
    press(&mut model, "4f0\n\n");
    assert!(screen(&model, 120, 40).contains("rank 0 device 0"));
}

#[test]
fn a_finding_is_shown_where_it_began_on_the_shared_clock() {
    let mut model = loaded();
    let ahead = 300 * SECOND;
    let mut late = session(1);
    let mut events: Vec<Event> = late.events.iter().map(EventRef::to_event).collect();
    for event in &mut events {
        event.timestamp_ns += ahead;
    }
    late.events = Events::from_events(&events);
    let sessions = [session(0), late];
    let references: Vec<&LoadedSession> = sessions.iter().collect();
    let mut story = Story::of_sessions(&references);
    let artifacts = [Loaded {
        sessions: sessions.to_vec(),
        ..Loaded::default()
    }];
    let report = analyze(&artifacts, &AnalyzeOptions::default()).unwrap();
    let run = &report.runs[0];
    story.add_diagnosis(&run.timeline, &run.diagnosis);
    update(&mut model, Message::Run(Arc::new(report), Box::new(story)));
    press(&mut model, "4j\n");
    let shown = screen(&model, 120, 40);
    assert!(
        shown.contains("rank 1 device 1") && shown.contains("has grown by"),
        "{shown}"
    );
}

#[test]
fn a_key_right_behind_escape_is_one_of_its_own() {
    let mut model = loaded();
    press(&mut model, "6/rank 1");
    assert_eq!(model.listed_sessions().len(), 1);
    let key = KeyEvent::new(KeyCode::Char('4'), KeyModifiers::ALT);
    update(&mut model, Message::Key(key));
    assert!(model.dialog.is_none() && model.session_filter.is_empty());
    assert_eq!(model.tab, Tab::Diagnostics);
}

#[test]
fn rollups_fill_the_first_screen() {
    let mut model = Model::new(vec!["runs/llama".into()], START, true);
    let curve = (0..90).map(|minute| (START + minute * 60 * SECOND, (minute % 30 + 8) * GIB));
    let outline = Outline {
        peak_allocated: Some(30 * GIB),
        peak_used: Some(37 * GIB),
        peak_rank: Some(3),
        alerts: 12,
        ooms: 1,
        degraded: 2,
        curve: curve.collect(),
        end_ns: START + 90 * 60 * SECOND,
    };
    update(&mut model, Message::Outline(outline));
    update(&mut model, Message::Progress(1 << 28, 1 << 30));
    insta::assert_snapshot!("outline_80x24", screen(&model, 80, 24));
}

#[test]
fn collectors_tell_how_they_are() {
    let mut model = loaded();
    press(&mut model, "2s");
    let mut events = Vec::new();
    for rank in 0..3 {
        let mut event = event(rank, 60 * SECOND, "sample", GIB);
        let status = if rank == 1 { "degraded" } else { "healthy" };
        event.metadata.insert("collector_health_status", status);
        if rank == 1 {
            event
                .metadata
                .insert("collector_last_error", "nvml: lost\u{1b}[2J");
        }
        events.push(event);
    }
    update(&mut model, Message::Watched(events));
    model.now_ns = START + 3600 * SECOND;
    let shown = screen(&model, 120, 40);
    for text in [
        "1 degraded",
        "2 healthy",
        "rank 1: nvml: lost",
        "last event 59 min",
    ] {
        assert!(shown.contains(text), "{text} in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'));
    // The reason of an unhealthy collector is more urgent than that of a degraded one.
    let mut failed = event(2, 61 * SECOND, "sample", GIB);
    failed
        .metadata
        .insert("collector_health_status", "unhealthy");
    failed
        .metadata
        .insert("collector_last_error", "nvml: no driver");
    update(&mut model, Message::Watched(vec![failed]));
    let shown = screen(&model, 120, 40);
    assert!(shown.contains("rank 2: nvml: no driver"), "{shown}");
    // The key `j` selects the next lane (the samples of one device or host), which the timeline
    // then shows.
    press(&mut model, "jj");
    assert_eq!(model.cursor(), 2);
}

#[test]
fn without_colours_curves_are_told_apart_by_dots() {
    let mut model = loaded();
    model.palette.colours = false;
    model.tab = Tab::Visualizations;
    insta::assert_snapshot!("visualizations_plain_80x24", screen(&model, 80, 24));
}

#[test]
fn the_live_view_shows_samples_however_their_type_is_spelled() {
    let mut monitor = crate::tui::monitor::Monitor::default();
    monitor.take(vec![event(0, 0, "Sample", GIB)]);
    assert_eq!(monitor.lanes.len(), 1);
}

#[test]
fn live_alerts_have_the_severity_of_their_metadata() {
    let mut monitor = crate::tui::monitor::Monitor::default();
    let with = |kind: &str, key: &str, word: &str| {
        let mut event = event(0, 0, kind, GIB);
        event.metadata.insert(key, word);
        event
    };
    monitor.take(vec![
        with("collector_recovered", "collector_health_status", "healthy"),
        with("collector_degraded", "collector_health_status", "unhealthy"),
        with("warning", "severity", "critical"),
        with("sample", "severity", "warning"),
    ]);
    let alerts = monitor.alerts.iter();
    let alerts: Vec<_> = alerts
        .map(|one| (one.severity, one.text.as_str()))
        .collect();
    assert_eq!(
        alerts,
        [
            ("warning", "sample"),
            ("critical", "warning"),
            ("critical", "collector_degraded")
        ]
    );
}

#[test]
fn limits_are_edited_and_obeyed() {
    let mut model = loaded();
    press(&mut model, "2l");
    press(&mut model, "10 20\n");
    watching(&mut model);
    let texts: Vec<&str> = model
        .monitor
        .alerts
        .iter()
        .map(|alert| alert.text.as_str())
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("memory at")),
        "{texts:?}"
    );
    let effects = press(&mut model, "e");
    assert!(matches!(effects[..], [Effect::Export(..)]));
}
