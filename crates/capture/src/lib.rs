//! The part of Stormlog that runs in the watched process. Collectors read counters, the recorder
//! turns the readings into events and keeps the last events in memory, and the store appends all
//! events to files. This crate must not panic, must not block the watched program or fill its disk,
//! and never writes to the terminal.

pub mod clock;
pub mod collect;
pub mod files;
mod kept_file;
pub mod launcher;
pub mod memory;
mod mutex;
pub mod oom;
pub mod process;
pub mod record;
pub mod store;
mod thread;
