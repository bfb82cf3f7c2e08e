//! Appends events to a sink as trackers do, for `benches/speed/compare_append.py`. The program prints two
//! rates in events per second: of the appends alone, and including the time to open and close the
//! sink.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Instant;

use stormlog_capture::store::{Sink, SinkConfig, every_fork_is_announced};
use stormlog_format::{Counters, Event, Map, SessionStatus, Value, Version};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: append_events DIRECTORY COUNT";
    let directory = arguments.next().ok_or(usage)?;
    let count: i64 = arguments.next().ok_or(usage)?.parse()?;
    // The sink would otherwise read the pid from the system for every event, to notice a fork. This
    // program never forks.
    every_fork_is_announced();
    let mut event = first_event();
    let started = Instant::now();
    let sink = Sink::open(SinkConfig::new(directory))?;
    let opened = Instant::now();
    for number in 0..count {
        event.timestamp_ns += 1;
        event.counters.allocator_allocated_bytes = Some(2_147_483_648 + number * 512);
        event.counters.allocator_active_bytes = Some(2_147_483_648 + number * 512);
        event.counters.allocator_change_bytes = Some(512 * number);
        event.counters.device_used_bytes = Some(2_915_919_104 + number);
        event.counters.device_free_bytes = Some(82_983_426_816 - number);
        event.metadata.insert("step", number);
        sink.append(&event)?;
    }
    let appended = opened.elapsed().as_secs_f64();
    sink.close(SessionStatus::Completed)?;
    let whole = started.elapsed().as_secs_f64();
    let count = count as f64;
    println!("[{}, {}]", count / appended, count / whole);
    Ok(())
}

fn first_event() -> Event {
    let mut metadata = Map::new();
    metadata.insert("backend", "cuda");
    metadata.insert("collector_health_status", "healthy");
    metadata.insert("step", Value::Int(0));
    Event {
        version: Version::V3,
        session_id: "run".into(),
        timestamp_ns: 1_762_000_000_000_000_000,
        event_type: "sample".into(),
        collector: "stormlog.cuda_tracker".into(),
        sampling_interval_ms: 100,
        pid: 4711,
        host: "node-1".into(),
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 8,
        device_id: 0,
        counters: Counters {
            allocator_allocated_bytes: Some(2_147_483_648),
            allocator_reserved_bytes: Some(2_415_919_104),
            allocator_active_bytes: Some(2_147_483_648),
            allocator_inactive_bytes: Some(1_048_576),
            allocator_change_bytes: Some(4096),
            device_used_bytes: Some(2_915_919_104),
            device_free_bytes: Some(82_983_426_816),
            device_total_bytes: Some(85_899_345_920),
        },
        context: Some("training".into()),
        metadata,
    }
}
