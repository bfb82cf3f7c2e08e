//! Stores events in a sink: a directory of segments (`segment-000001.jsonl`, …) with a
//! `manifest.json`, or with the names of a host sink ([`SinkConfig::names`]). It uses files, the
//! clock and threads, and prints nothing.
//!
//! There are two interfaces to the same files:
//!
//! - [`BackgroundSink`] is for recorders such as trackers. It has a bounded queue and a writing
//!   thread. The caller never waits for a disk and gets no errors.
//! - [`Sink`] is for callers that want errors at once, such as the Python class. Every call does
//!   its work or returns the error.
//!
//! ```no_run
//! use std::time::Duration;
//! use stormlog_capture::store::{BackgroundSink, SinkConfig};
//! use stormlog_format::{Event, SessionStatus, SessionSummary};
//!
//! fn watch(session: SessionSummary, samples: impl Iterator<Item = Event>) {
//!     // Never fails: a directory that cannot be made shows in `status()`, is tried again
//!     // every second, and events wait in the queue meanwhile.
//!     let sink = BackgroundSink::start(SinkConfig::new("runs/today"), session);
//!     for event in samples {
//!         // False when the event was dropped (queue full); drops are counted in the
//!         // status and in the manifest's `dropped_event_count`.
//!         sink.record(event);
//!     }
//!     // Log lines such as "another process records into …": ask now and then.
//!     for line in sink.take_notices() {
//!         log(&line);
//!     }
//!     // Writes what is queued and ends the session; `Completed` becomes `Incomplete` when
//!     // events are missing. Waits at most so long; the program's end never hangs on it.
//!     let end = sink.finish(SessionStatus::Completed, Duration::from_secs(5));
//!     if let Some(problem) = end.problem {
//!         log(&problem);
//!     }
//! }
//! # fn log(_: &str) {}
//! ```
//!
//! Guarantees:
//!
//! - Every event's `session_id` must be that of the session given to `start`; others are
//!   dropped and counted.
//! - `status().session_status` is `Running` while all is well and `Incomplete` as soon as events
//!   are missing or cannot be written. `problem` describes the reason until writing works again.
//!   `session()` is the summary with that status.
//! - A sink that is killed at any moment keeps every flushed event (`flush_every_events`,
//!   `flush_every`, or [`BackgroundSink::flush`]). The next sink on the directory marks the session
//!   as interrupted.
//! - When two processes use one directory, the second records into a sibling, `runs/today-pid42`,
//!   and adds a notice. When one process opens two sinks, the later one takes over.
//! - After a fork the child's copy records nothing and changes nothing. Call [`before_fork`] before
//!   the fork, [`after_fork_in_parent`] after it, and [`forget_after_fork`] first in the child, so
//!   that the child closes files and locks.

mod background;
mod clock;
mod config;
mod diagnostics;
mod error;
mod fork;
mod lock;
mod manifest;
mod owner;
mod publish;
pub mod record_lines;
mod recorder_mark;
mod recover;
mod reserve;
mod rollups;
mod segment;
mod sink;
mod thinning;
mod writer;

pub use background::{BackgroundSink, DEFAULT_QUEUE_CAPACITY, SinkStatus};
pub use clock::{host_name, now_ns};
pub use config::SinkConfig;
pub use diagnostics::Diagnostics;
pub use error::SinkError;
pub use fork::{after_fork_in_parent, before_fork, every_fork_is_announced, forget_after_fork};
pub use manifest::MANIFEST_FILENAME;
pub use publish::publish;
pub use rollups::write_rollups;
pub use sink::Sink;
pub use thinning::Thinning;
