//! A source that reads what it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stormlog_capture::collect::{CollectError, Collector, Reading, Source};
use stormlog_capture::record::{RecordOptions, Recorder};
use stormlog_format::{Counters, DistributedIdentity};

/// What the next readings give: one per call, the last one for ever.
pub(crate) struct Scripted {
    source: Source,
    script: Arc<Mutex<Vec<Result<Reading, CollectError>>>>,
}

impl Collector for Scripted {
    fn source(&self) -> &Source {
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
            reading.timestamp_ns = stormlog_capture::record::clock::now_ns();
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

pub(crate) fn cuda(script: Vec<Result<Reading, CollectError>>) -> Box<dyn Collector> {
    Box::new(Scripted {
        source: Source {
            backend: "cuda".into(),
            collector: "stormlog.cuda_tracker".into(),
            sampling_source: Some("script".into()),
            supports_device_total: true,
            supports_device_free: true,
        },
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
    }
}

/// Waits until the recorder has at least this many events of a type.
pub(crate) fn wait_for(recorder: &Recorder, event_type: &str, count: usize) {
    let query = stormlog_capture::record::EventQuery {
        event_type: Some(event_type.into()),
        ..Default::default()
    };
    for _ in 0..1000 {
        if recorder.events(&query).len() >= count {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("no {count} events of type {event_type} in time");
}
