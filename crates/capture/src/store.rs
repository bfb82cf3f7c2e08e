//! Stores events in a sink: a directory of segments (`segment-000001.jsonl`, …) with a
//! `manifest.json`, or under the names of a host sink ([`SinkConfig::names`]). Touches files and the clock, starts threads; prints nothing.
//!
//! Two ways in, with the same files behind them:
//!
//! - [`BackgroundSink`] is for whoever samples (trackers): a bounded queue and a writing
//!   thread. Nothing waits for a disk and nothing fails in the caller's face.
//! - [`Sink`] is for whoever wants to know at once (the Python class): every call does its
//!   work or gives the error.
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
//! What holds:
//!
//! - Every event's `session_id` must be that of the session given to `start`; others are
//!   dropped and counted.
//! - `status().session_status` is `Running` while all is well and `Incomplete` as soon as
//!   events are missing or cannot be written; `problem` says why in words, and goes away
//!   when writing works again. `session()` is the summary with that status.
//! - A sink killed at any moment keeps every event that was flushed (`flush_every_events`,
//!   `flush_every`, or [`BackgroundSink::flush`]); the next sink on the directory marks the
//!   session interrupted.
//! - Two processes on one directory: the second records into a sibling, `runs/today-pid42`,
//!   and says so in a notice. Two sinks of one process: the later takes over.
//! - After a fork the child's copy records nothing and touches nothing; call [`before_fork`]
//!   ahead of it, [`after_fork_in_parent`] behind it and [`forget_after_fork`] first thing in
//!   the child, so that the child closes files and locks.

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
