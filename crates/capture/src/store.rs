//! Stores events in a sink: a directory of segments (`segment-000001.jsonl`, …) with a
//! `manifest.json`, or with the names of a host sink ([`SinkConfig::names`]). The module `store`
//! uses files, the clock and threads, and prints nothing.
//!
//! A sink has two interfaces, which write the same files:
//!
//! - [`BackgroundSink`] is for recorders such as trackers: with a bounded queue and a writing
//!   thread, the caller never waits for a disk and gets no errors.
//! - [`Sink`] is for callers that want errors at once, such as the Python class: every call
//!   completes its work or returns the error.
//!
//! ```no_run
//! use std::time::Duration;
//! use stormlog_capture::store::{BackgroundSink, SinkConfig};
//! use stormlog_format::{Event, SessionStatus, SessionSummary};
//!
//! fn watch(session: SessionSummary, samples: impl Iterator<Item = Event>) {
//!     // `start` never fails: if the directory cannot be created, `status()` says so, the sink
//!     // tries again every second, and events wait in the queue meanwhile.
//!     let sink = BackgroundSink::start(SinkConfig::new("runs/today"), session);
//!     for event in samples {
//!         // `record` returns false when the event was dropped because the queue is full;
//!         // drops are counted in the status and in the manifest's `dropped_event_count`.
//!         sink.record(event);
//!     }
//!     // The sink's log lines, such as "another process records into …" or the reason why the
//!     // directory cannot be written, should be taken from time to time.
//!     for line in sink.take_notices() {
//!         log(&line);
//!     }
//!     // `finish` writes what is queued and ends the session; `Completed` becomes `Incomplete`
//!     // when events are missing. `finish` waits at most the given time, so that it never delays
//!     // the program's exit for longer.
//!     sink.finish(SessionStatus::Completed, Duration::from_secs(5));
//!     for line in sink.take_notices() {
//!         log(&line);
//!     }
//! }
//! # fn log(_: &str) {}
//! ```
//!
//! Guarantees:
//!
//! - Every event's `session_id` must be that of the session given to `start`; events of
//!   another session are dropped and counted.
//! - `status().session_status` is `Running` while all is well and `Incomplete` as soon as events
//!   are missing or cannot be written. The field `problem` of the status describes the reason until
//!   writing works again, and a notice describes it once. The method `session()` returns the session's summary with the same
//!   status.
//! - A sink that is killed at any moment keeps every flushed event (`flush_every_events`,
//!   `flush_every`, or [`BackgroundSink::flush`]). The next sink in the same directory marks a
//!   killed session as interrupted.
//! - When two processes use one directory, the second records into a directory beside it,
//!   `runs/today-pid42`, and adds a notice. When one process opens two sinks on a directory, the
//!   later sink takes the directory over, and the session of the earlier one ends as interrupted.
//! - After a fork the child's copy of a sink records nothing and changes nothing. Call
//!   [`before_fork`] before the fork, [`after_fork_in_parent`] after it, and [`forget_after_fork`]
//!   first in the child, so that the child closes files and locks.

mod background;
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
mod session;
mod sink;
mod thinning;
mod writer;

pub use background::{BackgroundSink, DEFAULT_QUEUE_CAPACITY, SinkStatus};
pub use config::SinkConfig;
pub use diagnostics::Diagnostics;
pub use error::SinkError;
pub use fork::{every_fork_is_announced, forget_after_fork};
pub use lock::{after_fork_in_parent, before_fork};
pub use publish::publish;
pub use rollups::write_rollups;
pub use session::host_name;
pub(crate) use session::new_session;
pub use sink::Sink;
pub use thinning::Thinning;
