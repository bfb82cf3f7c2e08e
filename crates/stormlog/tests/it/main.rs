//! The program as people and scripts meet it: a process, its two streams, its exit code.

mod allocator_snapshots;
mod artifacts;
mod bad_input;
mod convert;
mod help;
mod issues;
mod query;
mod rank_folder;
mod removed;
mod reports;
mod round_trip;
mod schema;
mod services;
mod show;
mod story;
mod streams;
mod support;
mod validate;
