use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stormlog_capture::collect::CollectError;
use stormlog_capture::collect::host::{Detail, HostCollector, Target};
use stormlog_capture::record::event::{Origin, TrackedEvent};
use stormlog_capture::record::phases::{PhaseError, PhaseThread};
use stormlog_capture::record::timeline::timeline;
use stormlog_capture::record::{AlertListener, EventQuery, Recorder};
use stormlog_capture::store::SinkConfig;
use stormlog_format::{Map, SessionStatus, Value, Version, validate};

use crate::no_locks;
use crate::process::{child, given_directory};
use crate::scripted::{Hanging, cuda, cuda_source, options, reading, wait_for, wait_until};

fn types(recorder: &Recorder) -> Vec<String> {
    let events = recorder.events(&EventQuery::default());
    events
        .iter()
        .map(|event| event.event_type.to_str_lossy().into_owned())
        .collect()
}

#[test]
fn a_session_from_start_to_stop() {
    let script = vec![
        Ok(reading(100, 200)),
        Ok(reading(150, 200)),
        Ok(reading(120, 200)),
    ];
    let recorder = Recorder::new(options(), vec![cuda(script)], None);
    recorder.start().unwrap();
    recorder.start().unwrap();
    wait_for(&recorder, "sample", 3);
    recorder.stop(SessionStatus::Completed);
    let types = types(&recorder);
    assert_eq!(
        types[..7],
        [
            "start",
            "peak",
            "allocation",
            "sample",
            "deallocation",
            "sample",
            "sample"
        ]
    );
    assert_eq!(types.last().unwrap(), "stop");
    let session = recorder.session().unwrap();
    assert_eq!(session.status, SessionStatus::Completed);
    assert!(session.ended_at_ns > Some(session.started_at_ns));
    for record in recorder.records() {
        validate(&record.to_record()).unwrap();
        assert_eq!(record.version, Version::V3);
    }
    let statistics = recorder.device_statistics(None);
    assert_eq!(statistics.get("total_allocations"), Some(&Value::Int(1)));
    assert_eq!(statistics.get("peak_memory"), Some(&Value::Int(150)));
    let duration = statistics.get("tracking_duration_seconds").cloned();
    std::thread::sleep(Duration::from_millis(20));
    let later = recorder.device_statistics(None);
    assert_eq!(later.get("tracking_duration_seconds").cloned(), duration);
}

#[test]
fn what_is_there_at_the_start_is_no_allocation() {
    let recorder = Recorder::new(options(), vec![cuda(vec![Ok(reading(900, 900))])], None);
    recorder.start().unwrap();
    wait_for(&recorder, "sample", 2);
    recorder.stop(SessionStatus::Completed);
    assert!(!types(&recorder).contains(&"allocation".to_owned()));
}

#[test]
fn a_source_that_fails_degrades_once_and_unknown_is_named() {
    let broken = || Err(CollectError::Failed("boom".into()));
    let recorder = Recorder::new(options(), vec![cuda(vec![broken(), broken()])], None);
    recorder.start().unwrap();
    wait_for(&recorder, "collector_degraded", 1);
    std::thread::sleep(Duration::from_millis(40));
    recorder.stop(SessionStatus::Completed);
    assert_eq!(types(&recorder), ["start", "collector_degraded", "stop"]);
    let record = &recorder.records()[1];
    assert_eq!(record.counters.allocator_allocated_bytes, Some(0));
    assert_eq!(
        record.metadata.get("telemetry_partial"),
        Some(&Value::Bool(true))
    );
    let statistics = recorder.device_statistics(None);
    assert_eq!(
        statistics.get("current_memory_allocated"),
        Some(&Value::Null)
    );
}

#[test]
fn a_source_that_hangs_is_as_healthy_as_it_was() {
    let hangs = Arc::new(AtomicBool::new(false));
    let (go_on, until) = channel();
    let source = Hanging {
        readings: 2,
        hangs: hangs.clone(),
        until,
        source: cuda_source(),
    };
    let recorder = Recorder::new(options(), vec![Box::new(source)], None);
    recorder.start().unwrap();
    wait_until("it hangs", || hangs.load(Ordering::SeqCst));
    let statistics = recorder.device_statistics(None);
    let text = |key: &str| statistics.get(key).and_then(Value::as_text).cloned();
    assert_eq!(text("collector_health_status"), Some("degraded".into()));
    assert_eq!(text("backend"), Some("cuda".into()));
    assert_eq!(
        statistics.get("current_memory_allocated"),
        Some(&Value::Null)
    );
    drop(go_on);
    recorder.stop(SessionStatus::Completed);
}

#[test]
fn from_outside_the_allocator_stays_unknown() {
    let mut outside = reading(0, 500);
    outside.counters.allocator_allocated_bytes = None;
    outside.counters.allocator_reserved_bytes = None;
    let recorder = Recorder::new(options(), vec![cuda(vec![Ok(outside)])], None);
    recorder.start().unwrap();
    wait_for(&recorder, "sample", 1);
    recorder.stop(SessionStatus::Completed);
    for record in recorder.records() {
        assert_eq!(record.version, Version::V4);
        assert_eq!(record.counters.allocator_allocated_bytes, None);
        validate(&record.to_record()).unwrap();
    }
}

#[test]
fn a_source_that_is_gone_ends_the_sampling() {
    let script = vec![Ok(reading(1, 1)), Err(CollectError::Gone("ended".into()))];
    let recorder = Recorder::new(options(), vec![cuda(script)], None);
    recorder.start().unwrap();
    wait_until("the source is gone", || recorder.sources_are_gone());
    recorder.stop(SessionStatus::Interrupted);
    assert_eq!(
        recorder.session().unwrap().status,
        SessionStatus::Interrupted
    );
}

#[test]
fn a_bundle_ends_with_its_out_of_memory_also_beside_a_busy_sampler() {
    let mut options = options();
    options.interval = Duration::from_micros(20);
    let recorder = Recorder::new(options, vec![cuda(vec![Ok(reading(1, 1))])], None);
    recorder.start().unwrap();
    for _ in 0..500 {
        let events = recorder.record_oom("MemoryError", stormlog_format::Map::new());
        let last = events.last().unwrap().get("metadata").unwrap();
        let Value::Map(metadata) = last else {
            panic!("{last:?}");
        };
        assert!(metadata.contains("oom_reason"), "{metadata:?}");
    }
    recorder.stop(SessionStatus::Completed);
}

/// A process that records on a slow disk. A flush that waits for the disk blocks no other thread.
#[test]
fn recorder_on_a_slow_disk() {
    let Some(directory) = given_directory() else {
        return;
    };
    let mut options = options();
    options.sink = Some(SinkConfig::new(directory));
    let recorder = Recorder::new(options, vec![cuda(vec![Ok(reading(1, 1))])], None);
    recorder.start().unwrap();
    wait_until("the sink is open", || recorder.sink_directory().is_some());
    let (patience, begun) = (no_locks::DISK / 2, Instant::now());
    let flushed = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| recorder.flush(patience));
        while !waiting.is_finished() {
            let asked = Instant::now();
            recorder.record("note", 0, "meanwhile", Map::new());
            assert!(asked.elapsed() < patience, "it waited for the disk");
            std::thread::sleep(Duration::from_millis(5));
        }
        waiting.join().unwrap()
    });
    assert!(!flushed, "the disk takes longer than that");
    assert!(begun.elapsed() >= patience);
}

#[test]
fn nobody_waits_while_another_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = no_locks::library(folder.path(), "no_locks") else {
        println!("skipped: there is no C compiler");
        return;
    };
    let directory = folder.path().join("sink");
    let mut recorder = child("recorder::recorder_on_a_slow_disk", &directory);
    let ended = recorder.env("LD_PRELOAD", library).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}");
    assert!(directory.join("manifest.json").exists(), "{said}");
}

#[test]
fn the_history_is_bounded_and_counts_what_it_dropped() {
    let mut options = options();
    options.max_events = 4;
    let recorder = Recorder::new(options, vec![cuda(vec![Ok(reading(1, 1))])], None);
    recorder.start().unwrap();
    let dropped = |recorder: &Recorder| {
        let statistics = recorder.device_statistics(None);
        statistics.get("history_dropped_events").unwrap().as_int()
    };
    wait_until("four are dropped", || dropped(&recorder) > Some(3));
    recorder.stop(SessionStatus::Completed);
    let statistics = recorder.device_statistics(None);
    assert_eq!(
        statistics.get("history_retained_events"),
        Some(&Value::Int(4))
    );
    assert!(dropped(&recorder) > Some(3));
    assert_eq!(
        recorder
            .record_oom("MemoryError", stormlog_format::Map::new())
            .len(),
        3
    );
    let last_two = EventQuery {
        last: Some(2),
        ..EventQuery::default()
    };
    assert_eq!(recorder.events(&last_two).len(), 2);
}

#[test]
fn phases_are_events_with_counters() {
    let recorder = Recorder::new(options(), vec![cuda(vec![Ok(reading(5, 9))])], None);
    let thread = PhaseThread {
        id: 1,
        name: "main".into(),
    };
    assert!(
        recorder
            .enter_phase(&"early".into(), &thread, None)
            .is_none()
    );
    recorder.start().unwrap();
    let entered = recorder
        .enter_phase(&"train".into(), &thread, None)
        .unwrap()
        .unwrap();
    let left = recorder.exit_phase(&entered.scope_id, 1, None).unwrap();
    assert!(left.is_ok());
    let open = recorder
        .enter_phase(&"open".into(), &thread, None)
        .unwrap()
        .unwrap();
    recorder.stop(SessionStatus::Completed);
    let after = recorder.exit_phase(&open.scope_id, 1, None).unwrap();
    assert_eq!(after, Err(PhaseError::NoStack));
    let phases = EventQuery {
        event_type: Some("phase_exit".into()),
        ..EventQuery::default()
    };
    let exits = recorder.events(&phases);
    assert_eq!(exits[0].counters.allocator_allocated_bytes, Some(5));
    assert_eq!(exits[0].context.as_ref().unwrap(), &"Phase exited: train");
}

#[test]
fn alerts_are_heard_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let texts = heard.clone();
    let listener: AlertListener = Box::new(move |event: &TrackedEvent, _: &Origin| {
        let context = event.context.as_ref();
        let context = context.map(|text| text.to_str_lossy().into_owned());
        texts.lock().expect("no test panics here").extend(context);
    });
    let source = cuda(vec![Ok(reading(960, 960))]);
    let recorder = Recorder::new(options(), vec![source], Some(listener));
    recorder.start().unwrap();
    wait_for(&recorder, "sample", 10);
    recorder.record("error", 0, "trouble", Map::new());
    recorder.stop(SessionStatus::Completed);
    assert_eq!(
        *heard.lock().unwrap(),
        ["CRITICAL: Memory usage at 96.0%", "trouble"]
    );
    let statistics = recorder.device_statistics(None);
    assert_eq!(statistics.get("alert_count"), Some(&Value::Int(2)));
}

#[test]
fn everything_reaches_the_sink_and_its_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options();
    options.sink = Some(SinkConfig::new(folder.path().join("sink")));
    let recorder = Recorder::new(options, vec![cuda(vec![Ok(reading(5, 9))])], None);
    recorder.start().unwrap();
    for _ in 0..20 {
        recorder.record("note", 0, "x", Map::new());
    }
    recorder.stop(SessionStatus::Completed);
    let segment = folder.path().join("sink/segment-000001.jsonl");
    let lines = std::fs::read_to_string(segment).unwrap();
    assert_eq!(lines.matches("\"note\"").count(), 20);
    assert!(
        lines
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("\"stop\"")
    );
    assert_eq!(recorder.session().unwrap().status, SessionStatus::Completed);
    let statistics = recorder.device_statistics(None);
    assert_eq!(statistics.get("final_retained_files"), Some(&Value::Int(1)));
}

#[test]
fn a_sink_that_cannot_be_written_makes_the_session_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let mut options = options();
    options.sink = Some(SinkConfig::new(file.join("sink")));
    let recorder = Recorder::new(options, vec![cuda(vec![Ok(reading(5, 9))])], None);
    recorder.start().unwrap();
    wait_for(&recorder, "sample", 2);
    recorder.stop(SessionStatus::Completed);
    assert_eq!(
        recorder.session().unwrap().status,
        SessionStatus::Incomplete
    );
}

#[test]
fn the_host_has_the_keys_that_users_know() {
    let host = HostCollector::new(Target::ThisProcess, Detail::Resident);
    let recorder = Recorder::new(options(), vec![Box::new(host)], None);
    recorder.start().unwrap();
    wait_for(&recorder, "sample", 2);
    recorder.stop(SessionStatus::Completed);
    let statistics = recorder.host_statistics();
    for key in [
        "tracking_duration_seconds",
        "total_events",
        "peak_memory",
        "alert_count",
        "total_allocations",
        "total_deallocations",
    ] {
        assert!(statistics.contains(key), "{key}");
    }
    assert!(statistics.get("peak_memory").unwrap().as_int() > Some(1 << 16));
    let events = recorder.events(&EventQuery::default());
    assert!(events.iter().all(|event| event.full_metadata().is_empty()));
}

#[test]
fn buckets_count_from_the_first_event() {
    let recorder = Recorder::new(options(), vec![cuda(vec![Ok(reading(5, 9))])], None);
    recorder.start().unwrap();
    recorder.stop(SessionStatus::Completed);
    let first = TrackedEvent::clone(&recorder.events(&EventQuery::default())[0]);
    let at = |milliseconds: i64| TrackedEvent {
        timestamp_ns: first.timestamp_ns + milliseconds * 1_000_000,
        ..first.clone()
    };
    let events = [0, 20, 40, 60, 90, 160].map(at);
    let buckets = timeline(&events, 0.05);
    let starts: Vec<f64> = buckets
        .timestamps
        .iter()
        .map(|start| start - buckets.timestamps[0])
        .collect();
    assert_eq!(starts.len(), 3, "{buckets:?}");
    for (start, expected) in starts.iter().zip([0.0, 0.05, 0.15]) {
        assert!((start - expected).abs() < 1e-6, "{buckets:?}");
    }
    assert_eq!(buckets.allocated, [5, 5, 5]);
    let none = std::iter::empty::<&TrackedEvent>();
    assert!(timeline(none, 1.0).timestamps.is_empty());
}
