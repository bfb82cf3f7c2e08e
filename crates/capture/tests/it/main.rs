//! The crate as its users see it: scripted sources, real files, real threads and processes.

#![expect(clippy::unwrap_used, reason = "a test panics when it cannot continue")]
#![expect(clippy::print_stdout, reason = "a test prints why it is skipped")]

mod background;
mod broken_disk;
mod bundle;
mod crash;
mod events;
mod full_disk;
mod fuzz_corpus;
mod host_sink;
mod hostile_directory;
mod neighbours;
mod no_locks;
mod process;
mod recorder;
mod round_trip;
mod scripted;
mod secrets;
mod sessions;
mod sink;
mod take_over;
mod thinning;
mod thinning_crash;
