//! The same comparison on many sessions of a generated fleet.

use std::fmt::Write as _;
use std::path::Path;

use stormlog_analysis::query::{EventFilter, SessionFilter, Store};
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Counters, Event, Map, Text, Value, Version};

use crate::questions::{askers, compare_questions, ingested};

/// Events of each session.
const EVENTS: i64 = 40;

/// Sessions of the fleet: enough for every case in CI; the environment may ask for more.
fn sessions() -> u64 {
    let asked = std::env::var("STORMLOG_LAKE_SESSIONS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % most).unwrap()
    }
}

/// One session: samples of a rank, of which some counters are unknown, with alerts and degradations.
fn write_session(folder: &Path, number: u64) {
    let mut numbers = Numbers(number);
    let begin = 1_762_000_000_000_000_000 + numbers.below(1_000) * 1_000_000_000;
    let mut text = String::new();
    let types = [
        "sample",
        "sample",
        "sample",
        "warning",
        "collector_degraded",
        "error",
    ];
    for index in 0..EVENTS {
        let kind = match index {
            0 => "start",
            last if last == EVENTS - 1 && number.is_multiple_of(3) => "stop",
            _ => types[usize::try_from(numbers.below(6)).unwrap()],
        };
        let mut metadata = Map::new();
        metadata.insert("backend", "cuda");
        // Records with unknown counters state what can be measured.
        metadata.insert("memory_capabilities", Value::Map(Map::new()));
        if kind == "error" && numbers.below(2) == 0 {
            metadata.insert("oom_reason", "cuda_oom");
        }
        if kind == "sample" && numbers.below(20) == 0 {
            metadata.insert("severity", "warning");
        }
        let is_unknown = numbers.below(7) == 0;
        let reserved = (4 << 30) + numbers.below(64) * (1 << 20);
        let event = Event {
            version: Version::V4,
            session_id: format!("session-{number:05}").as_str().into(),
            // Some events happen together.
            timestamp_ns: begin + (index / 2) * 1_000_000_000,
            event_type: kind.into(),
            collector: "stormlog.cuda".into(),
            sampling_interval_ms: 1000,
            pid: 1000 + i64::try_from(number).unwrap(),
            host: format!("node-{}", number % 8).as_str().into(),
            job_id: number
                .is_multiple_of(2)
                .then(|| Text::from(format!("job-{}", number / 4).as_str())),
            rank: i64::try_from(number % 4).unwrap(),
            local_rank: i64::try_from(number % 4).unwrap(),
            world_size: 4,
            device_id: i64::try_from(number % 4).unwrap(),
            counters: Counters {
                allocator_allocated_bytes: Some(reserved - numbers.below(1 << 30)),
                allocator_reserved_bytes: (!is_unknown).then_some(reserved),
                device_used_bytes: (!is_unknown).then(|| reserved + numbers.below(1 << 28)),
                device_total_bytes: Some(80 << 30),
                ..Counters::default()
            },
            context: (kind == "warning").then(|| "memory pressure".into()),
            metadata,
        };
        let line = Writer::new(Layout::Line).map_to_string(&event.to_record());
        let _ = writeln!(text, "{line}");
    }
    std::fs::write(folder.join(format!("events-{number:05}.jsonl")), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_fleet_has_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..sessions() {
        write_session(folder.path(), number);
    }
    let paths = [folder.path().canonicalize().unwrap()];
    let lake = ingested(&paths);
    let (askers, _workers) = askers(lake.path()).await;
    let store = Store::open(&paths);
    let recorded = store.sessions(&SessionFilter::default(), None);
    assert_eq!(recorded.len() as u64, sessions());
    let filter = EventFilter::default();
    assert_eq!(
        store.events(&filter).len() as u64,
        sessions() * EVENTS.unsigned_abs(),
        "every event is read"
    );
    for (name, asker) in &askers {
        compare_questions(name, asker, &store).await;
    }
}
