//! A source that returns scripted readings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stormlog_capture::collect::{CollectError, Collector, CounterSource, Reading};
use stormlog_capture::record::{RecordOptions, Recorder};
use stormlog_format::{Counters, DistributedIdentity};

/// The next readings: one per call; the last one is repeated.
pub(crate) struct Scripted {
    source: CounterSource,
    script: Arc<Mutex<Vec<Result<Reading, CollectError>>>>,
}

impl Collector for Scripted {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let mut script = self.script.lock().expect("no test panics here");
        let mut next = if script.len() > 1 {
            script.remove(0)
        } else {
            script[0].clone()
        };
        if let Ok(reading) = &mut next {
            reading.timestamp_ns = stormlog_capture::clock::now_ns();
        }
        next
    }
}

/// A reading of a device with 1000 bytes.
pub(crate) fn reading(allocated: i64, reserved: i64) -> Reading {
    Reading {
        counters: Counters {
            allocator_allocated_bytes: Some(allocated),
            allocator_reserved_bytes: Some(reserved),
            device_used_bytes: Some(reserved),
            device_free_bytes: Some(1000 - reserved),
            device_total_bytes: Some(1000),
            ..Counters::default()
        },
        ..Reading::default()
    }
}

pub(crate) fn cuda_source() -> CounterSource {
    CounterSource {
        backend: "cuda".into(),
        collector: "stormlog.cuda_tracker".into(),
        sampling_source: Some("script".into()),
        supports_device_total: true,
        supports_device_free: true,
    }
}

pub(crate) fn cuda(script: Vec<Result<Reading, CollectError>>) -> Box<dyn Collector> {
    Box::new(Scripted {
        source: cuda_source(),
        script: Arc::new(Mutex::new(script)),
    })
}

pub(crate) fn options() -> RecordOptions {
    RecordOptions {
        interval: Duration::from_millis(5),
        max_events: 1000,
        bundle_events: Some(3),
        alerts: true,
        identity: DistributedIdentity {
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
        },
        session_source: "stormlog.tracker".into(),
        host: "h".into(),
        pid: 7,
        sink: None,
        detail: stormlog_capture::record::Detail::Changes,
        start_metadata: stormlog_format::Map::new(),
    }
}

/// Waits until a condition holds, with a generous limit for slow machines.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the recorder has at least this many events of a type.
pub(crate) fn wait_for(recorder: &Recorder, event_type: &str, count: usize) {
    let query = stormlog_capture::record::EventQuery {
        event_type: Some(event_type.into()),
        ..Default::default()
    };
    let what = format!("{count} events of type {event_type}");
    wait_until(&what, || recorder.events(&query).len() >= count);
}

/// Reads partially until it hangs, as a driver may; it continues when the other end is dropped.
pub(crate) struct Hanging {
    pub(crate) readings: usize,
    pub(crate) hangs: Arc<AtomicBool>,
    pub(crate) until: Receiver<()>,
    pub(crate) source: CounterSource,
}

impl Collector for Hanging {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        if self.readings == 0 {
            self.hangs.store(true, Ordering::SeqCst);
            let _ = self.until.recv();
        }
        self.readings = self.readings.saturating_sub(1);
        Ok(Reading {
            partial_fields: vec!["allocator_active_bytes".into()],
            timestamp_ns: stormlog_capture::clock::now_ns(),
            ..reading(5, 9)
        })
    }
}
