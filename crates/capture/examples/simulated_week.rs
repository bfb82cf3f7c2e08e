//! Appends the samples of a simulated week, 10 a second, to a sink on disk. The program prints how
//! large the sink became, how many samples the sink kept and removed, whether it kept the lowest
//! and the highest sample of each day, and how long appends took. With `complete` as the last
//! argument nothing is thinned, which shows how long appends take without thinning. With
//! `background` as the last argument the events go through a queue, as in the trackers.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::path::Path;
use std::time::{Duration, Instant};

use stormlog_analysis::{EventRef, LoadOptions, Loaded, load_sessions};
use stormlog_capture::store::{
    BackgroundSink, Sink, SinkConfig, Thinning, every_fork_is_announced,
};
use stormlog_format::{Counters, Event, Map, SessionStatus, SessionSummary, Value, Version};

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_762_000_000 * SECOND_NS;
const DAYS: i64 = 7;
const SAMPLES_PER_DAY: i64 = 864_000;
const MIB: i64 = 1 << 20;

/// The number of the sample at which the simulated leak begins: at 06:00:00 on the first day.
const LEAK_FROM: i64 = 216_000;
/// The number of the sample at which the leak ends, a day later.
const LEAK_UNTIL: i64 = LEAK_FROM + SAMPLES_PER_DAY;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments
        .next()
        .ok_or("usage: simulated_week DIRECTORY [DAYS [complete|background]]")?;
    let days: i64 = arguments.next().map_or(Ok(DAYS), |days| days.parse())?;
    let mode = arguments.next().unwrap_or_default();
    let is_complete = mode == "complete";
    // The sink would otherwise read the pid from the system for every event, to notice a fork. This
    // program never forks.
    every_fork_is_announced();
    let thinning = Thinning::DEFAULT;
    let config = SinkConfig {
        thinning: (!is_complete).then_some(thinning),
        retention_max_files: 1_000_000,
        retention_max_total_bytes: 1 << 40,
        ..SinkConfig::new(&directory)
    };
    let sink = if mode == "background" {
        Store::Background(BackgroundSink::start(config, session()))
    } else {
        let sink = Sink::open(config)?;
        sink.start_session(Some(session()))?;
        Store::Direct(sink)
    };
    let samples = days * SAMPLES_PER_DAY;
    let mut week = Week::new(samples);
    let started = Instant::now();
    for number in 0..samples {
        week.append(&sink, number)?;
        if number % 500 == 0 {
            let budget = if is_complete {
                u64::MAX
            } else {
                thinning.budget_bytes
            };
            week.catch_up(&sink, budget, Path::new(&directory))?;
        }
    }
    sink.close()?;
    let took = started.elapsed();
    // After closing, the sink may still be thinning the last segments.
    std::thread::sleep(Duration::from_secs(1));
    drop(sink);
    println!("peak memory of this program: {}", peak_memory());
    let loaded = load_sessions(Path::new(&directory), &LoadOptions::default())?;
    week.report(&loaded, thinning.budget_bytes, took);
    Ok(())
}

/// The sink that gets the events: used directly, or through a queue as by the trackers.
enum Store {
    Direct(Sink),
    Background(BackgroundSink),
}

impl Store {
    /// Appends an event; false when the queue of the sink is full and the event was dropped.
    fn append(&self, event: &Event) -> Result<bool, Failure> {
        match self {
            Self::Direct(sink) => sink.append(event).map(|()| true).map_err(Into::into),
            Self::Background(sink) => Ok(sink.record(event.clone())),
        }
    }

    fn retained_bytes(&self) -> u64 {
        match self {
            Self::Direct(sink) => sink.diagnostics().final_retained_bytes,
            Self::Background(sink) => {
                // A real recording of 10 samples a second leaves the queue empty most of the time,
                // so the queue is emptied here too.
                sink.flush(Duration::from_mins(1));
                sink.diagnostics().final_retained_bytes
            }
        }
    }

    fn close(&self) -> Result<(), Failure> {
        match self {
            Self::Direct(sink) => sink.close(SessionStatus::Completed).map_err(Into::into),
            Self::Background(sink) => {
                let end = sink.finish(SessionStatus::Completed, Duration::from_mins(1));
                end.problem.map_or(Ok(()), |problem| Err(problem.into()))
            }
        }
    }
}

/// The peak memory of this process, including the list of the times that the appends took, which
/// has six million entries for a week.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}

/// The level at a sample, without memory that a step holds for a moment.
fn floor(number: i64) -> i64 {
    let leaked = (number.clamp(LEAK_FROM, LEAK_UNTIL) - LEAK_FROM) * 4096;
    2048 * MIB + leaked
}

fn allocated(number: i64) -> i64 {
    // Half of the samples are taken at the end of a step. Two optimizers take the steps in turn.
    let busy = if number % 2 == 0 {
        (number * 7919 % 1009) * MIB
    } else {
        number / 2 % 2 * 16 * MIB
    };
    match number % SAMPLES_PER_DAY {
        // Each day has one highest and one lowest sample.
        345_679 => floor(number) + 30_000 * MIB,
        600_001 => 100 * MIB + number / SAMPLES_PER_DAY,
        _ => floor(number) + busy,
    }
}

struct Week {
    event: Event,
    waits_ns: Vec<u32>,
    highest_bytes: u64,
    other_events: i64,
    samples: i64,
}

impl Week {
    fn new(samples: i64) -> Self {
        Self {
            event: first_event(),
            waits_ns: Vec::with_capacity(usize::try_from(samples).unwrap_or(0)),
            highest_bytes: 0,
            other_events: 0,
            samples,
        }
    }

    fn append(&mut self, sink: &Store, number: i64) -> Result<(), Failure> {
        let event = &mut self.event;
        let level = allocated(number);
        event.timestamp_ns = START_NS + number * SECOND_NS / 10;
        let counters = &mut event.counters;
        counters.allocator_allocated_bytes = Some(level);
        counters.allocator_active_bytes = Some(level);
        counters.device_used_bytes = Some(level + 900 * MIB);
        let metadata = &mut event.metadata;
        metadata.insert("allocator_read_ns", event.timestamp_ns - 40_000);
        metadata.insert("step_count", number / 2);
        if number % 2 == 1 {
            metadata.insert("step", number / 2);
            metadata.insert("optimizer", number / 2 % 2);
        } else {
            metadata.remove("step");
            metadata.remove("optimizer");
        }
        let began = Instant::now();
        if !sink.append(event)? {
            return Err("the queue is full".into());
        }
        let nanoseconds = began.elapsed().as_nanos();
        self.waits_ns
            .push(u32::try_from(nanoseconds).unwrap_or(u32::MAX));
        // Every ten minutes, an event that enters a phase is appended too.
        if number % 6000 == 0 {
            let mut phase = event.clone();
            phase.event_type = "phase_enter".into();
            self.other_events += i64::from(sink.append(&phase)?);
        }
        Ok(())
    }

    /// Waits until thinning has reduced the sink to 15/16 of `budget` bytes, then measures the size
    /// of the directory. The wait is needed only here, because samples are appended faster than the
    /// 10 a second of a real recording.
    fn catch_up(&mut self, sink: &Store, budget: u64, directory: &Path) -> Result<(), Failure> {
        while sink.retained_bytes() > budget - budget / 16 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut bytes = 0;
        for entry in std::fs::read_dir(directory)? {
            // A file that is renamed meanwhile is counted under its new name.
            bytes += entry?.metadata().map_or(0, |facts| facts.len());
        }
        self.highest_bytes = self.highest_bytes.max(bytes);
        Ok(())
    }

    fn report(&mut self, loaded: &Loaded, budget: u64, took: Duration) {
        let events: Vec<EventRef<'_>> = loaded
            .sessions
            .iter()
            .flat_map(|session| session.events.iter())
            .collect();
        let is_sample = |event: &&EventRef<'_>| event.event_type() == b"sample";
        let kept = events.iter().filter(is_sample).count();
        let removed = &loaded.removed;
        let thinned = removed.thinned.unwrap_or_default();
        let counted = i64::try_from(kept).unwrap_or(0) + thinned.samples_dropped;
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        println!(
            "recorded: {} samples, {} other events",
            self.samples, self.other_events
        );
        println!(
            "largest size of the directory, with manifest and temporary files: {:.1} MiB; limit of \
             the sink: {:.0} MiB",
            mib(self.highest_bytes),
            mib(budget)
        );
        println!(
            "kept: {kept} samples, {} other events; samples removed by thinning: {}; removed by \
             retention: {:?}; dropped events: {}; samples neither kept nor counted as removed: {}",
            events.len() - kept,
            thinned.samples_dropped,
            removed.pruned,
            removed.dropped_events,
            self.samples - counted
        );
        let last_ns = events.last().map_or(0, |event| event.timestamp_ns());
        println!(
            "all samples of the last {:.1} h were kept",
            (last_ns - thinned.until_ns) as f64 / SECOND_NS as f64 / 3600.0
        );
        self.report_days(&events);
        report_onset(&events);
        self.waits_ns.sort_unstable();
        let microseconds = |parts: usize| {
            let index = self.waits_ns.len() * parts / 10_000;
            let wait = self.waits_ns.get(index).or(self.waits_ns.last());
            f64::from(wait.copied().unwrap_or(0)) / 1000.0
        };
        println!(
            "append: median {:.1} us, p99 {:.1} us, p99.99 {:.1} us, longest {:.1} us",
            microseconds(5000),
            microseconds(9900),
            microseconds(9999),
            microseconds(10_000)
        );
        println!("took {:.0} s", took.as_secs_f64());
    }

    fn report_days(&self, events: &[EventRef<'_>]) {
        let mut right = 0;
        let days = self.samples / SAMPLES_PER_DAY;
        for day in 0..days {
            let all = day * SAMPLES_PER_DAY..(day + 1) * SAMPLES_PER_DAY;
            let expected = (
                all.clone().map(allocated).min(),
                all.clone().map(allocated).max(),
            );
            let levels = || {
                events
                    .iter()
                    .filter(|event| event.event_type() == b"sample")
                    .filter(|event| all.contains(&number_of(event)))
                    .filter_map(|event| event.allocated_bytes())
            };
            right += i64::from(expected == (levels().min(), levels().max()));
        }
        println!("days whose lowest and highest value were kept: {right} of {days}");
    }
}

fn number_of(event: &EventRef<'_>) -> i64 {
    (event.timestamp_ns() - START_NS) / (SECOND_NS / 10)
}

/// Prints the times of two kept samples relative to the start of the leak: of the last sample
/// before the start, and of the first sample after it. Only samples at the ends of steps of the
/// first optimizer count: they are on the floor.
fn report_onset(events: &[EventRef<'_>]) {
    let steps = || {
        let numbers = events
            .iter()
            .filter(|event| event.event_type() == b"sample")
            .map(number_of);
        numbers.filter(|number| number % 4 == 1)
    };
    let before = steps().filter(|number| *number <= LEAK_FROM).max();
    let after = steps().filter(|number| *number > LEAK_FROM).min();
    let seconds = |number: i64| (number - LEAK_FROM) as f64 / 10.0;
    println!(
        "kept samples next to the start of the leak (06:00:00 on day one): the last one before it \
         at {:+.1} s, the first one after it at {:+.1} s",
        before.map_or(f64::NAN, seconds),
        after.map_or(f64::NAN, seconds)
    );
}

fn session() -> SessionSummary {
    SessionSummary {
        session_id: "week".into(),
        status: SessionStatus::Running,
        started_at_ns: START_NS,
        ended_at_ns: None,
        host: "node-1".into(),
        pid: 4711,
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        source: "stormlog.run".into(),
        recorder: None,
    }
}

fn first_event() -> Event {
    let mut metadata = Map::new();
    metadata.insert("backend", "cuda");
    metadata.insert("collector_health_status", "healthy");
    metadata.insert("process_device_used_bytes", Value::Int(2_915_919_104));
    metadata.insert("allocator_peak_bytes", Value::Int(2_915_919_104));
    metadata.insert("num_alloc_retries", Value::Int(0));
    metadata.insert("num_ooms", Value::Int(0));
    metadata.insert("pinned_bytes", Value::Int(0));
    Event {
        version: Version::V3,
        session_id: "week".into(),
        timestamp_ns: START_NS,
        event_type: "sample".into(),
        collector: "stormlog.cuda_tracker".into(),
        sampling_interval_ms: 100,
        pid: 4711,
        host: "node-1".into(),
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        device_id: 0,
        counters: Counters {
            allocator_allocated_bytes: Some(0),
            allocator_reserved_bytes: Some(80_000 * MIB),
            allocator_active_bytes: Some(0),
            allocator_inactive_bytes: Some(MIB),
            allocator_change_bytes: Some(4096),
            device_used_bytes: Some(0),
            device_free_bytes: Some(60_000 * MIB),
            device_total_bytes: Some(143_771 * MIB),
        },
        context: Some("training".into()),
        metadata,
    }
}
