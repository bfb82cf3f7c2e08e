//! Produces the events of the live view on a background thread: it samples the GPUs, a process or
//! the machine, or reads the events that are appended to sinks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use stormlog_analysis::catalog::{FollowFrom, Follower};
use stormlog_capture::collect::cgroup::{Roots, machine_room};
use stormlog_capture::collect::nvml::Share;
use stormlog_capture::collect::tree::TreeCollector;
use stormlog_capture::collect::{Collector, Reading};
use stormlog_format::{Counters, Event, EventType, Map, Text, Version, new_session_id};

use super::message::Message;
use crate::machine::now_ns;
use crate::recording::gpu_collectors;

/// The time between two samples of the target.
const INTERVAL: Duration = Duration::from_millis(500);

/// The target that the live view samples: the GPUs, a process, the machine or sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Gpus,
    Process(u32),
    Host,
    Sinks(Vec<PathBuf>),
}

/// Starts and stops the thread that samples the target of the live view; only one target is sampled
/// at a time.
pub(crate) struct Sampler {
    sender: Sender<Message>,
    stop: Arc<AtomicBool>,
}

impl Sampler {
    pub(crate) fn new(sender: Sender<Message>) -> Self {
        Self {
            sender,
            stop: Arc::default(),
        }
    }

    /// Starts to sample a target and stops sampling the previous one.
    pub(crate) fn watch(&mut self, target: Target) {
        self.stop();
        let stop = Arc::new(AtomicBool::new(false));
        self.stop = Arc::clone(&stop);
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let mut source = match Source::of(target) {
                Ok(source) => source,
                Err(reason) => {
                    let _ = sender.send(Message::WatchFailed(reason));
                    return;
                }
            };
            while !stop.load(Ordering::Relaxed) {
                let message = match source.read() {
                    Ok(events) if events.is_empty() => None,
                    Ok(events) => Some(Message::Watched(events)),
                    Err(reason) => Some(Message::WatchFailed(reason)),
                };
                if let Some(message) = message
                    && (stop.load(Ordering::Relaxed) || sender.send(message).is_err())
                {
                    return;
                }
                std::thread::sleep(INTERVAL);
            }
        });
    }

    /// Makes the sampling thread end soon, without waiting for it.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The source of the live view's events: collectors, or the events that are appended to a sink.
enum Source {
    Collectors(Vec<Box<dyn Collector>>, Text),
    Machine(Text),
    Follower(Box<Follower>),
}

impl Source {
    fn of(target: Target) -> Result<Self, String> {
        match target {
            Target::Gpus => {
                let collectors = gpu_collectors(&[], Share::NotRecorded)?;
                Ok(Self::Collectors(collectors, new_session_id()))
            }
            Target::Process(pid) => {
                let collector = Box::new(TreeCollector::new(pid));
                Ok(Self::Collectors(vec![collector], new_session_id()))
            }
            Target::Host => Ok(Self::Machine(new_session_id())),
            Target::Sinks(paths) => {
                let follower = Follower::new(paths, FollowFrom::Recent);
                Ok(Self::Follower(Box::new(follower)))
            }
        }
    }

    fn read(&mut self) -> Result<Vec<Event>, String> {
        match self {
            Self::Collectors(collectors, session_id) => collectors
                .iter_mut()
                .map(|collector| {
                    let reading = collector.read().map_err(|error| error.to_string())?;
                    let name = collector.source().collector.clone();
                    Ok(event(&reading, &name, session_id))
                })
                .collect(),
            Self::Machine(session_id) => {
                let room = machine_room(&Roots::default());
                let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
                let reading = Reading {
                    timestamp_ns: now_ns(),
                    device_id: -1,
                    counters: Counters {
                        device_total_bytes: room.total.map(signed),
                        device_free_bytes: room.free.map(signed),
                        device_used_bytes: room
                            .total
                            .zip(room.free)
                            .map(|(total, free)| signed(total.saturating_sub(free))),
                        ..Counters::default()
                    },
                    ..Reading::default()
                };
                Ok(vec![event(&reading, "stormlog.machine", session_id)])
            }
            Self::Follower(follower) => {
                let mut events = Vec::new();
                follower.poll(&mut |_, event| events.push(event));
                events.sort_by_key(|event| event.timestamp_ns);
                Ok(events)
            }
        }
    }
}

fn event(reading: &Reading, collector: &str, session_id: &Text) -> Event {
    let host = rustix::system::uname();
    Event {
        version: Version::V4,
        session_id: session_id.clone(),
        timestamp_ns: if reading.timestamp_ns > 0 {
            reading.timestamp_ns
        } else {
            now_ns()
        },
        event_type: EventType::Sample.into(),
        collector: collector.into(),
        sampling_interval_ms: i64::try_from(INTERVAL.as_millis()).unwrap_or(0),
        pid: i64::from(std::process::id()),
        host: (&*host.nodename().to_string_lossy()).into(),
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        device_id: reading.device_id,
        counters: reading.counters,
        context: None,
        metadata: Map::new(),
    }
}
