//! Records memory while the watched program runs.
//!
//! Collectors read counters, the recorder decides what is worth an event and keeps the last
//! ones at hand, the sink appends them to disk. This crate lives in somebody else's process:
//! it never panics on purpose, never waits for a disk and keeps everything bounded.

pub mod collect;

pub mod oom;
pub mod record;
