//! What lives in the watched process: collectors read counters, the recorder decides what is
//! worth an event and keeps the last ones at hand, the store appends them to disk. It must not
//! panic, block or fill the disk of the run that it watches, and it never writes to the
//! terminal.

pub mod collect;
pub mod driver;
pub mod files;
mod kept_file;
pub mod launcher;
pub mod memory;
pub mod oom;
pub mod process;
pub mod record;
pub mod redact;
pub mod store;
mod thread;
