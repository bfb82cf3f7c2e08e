//! Tests of the program as people and scripts use it: a process, its two streams, its exit code.

mod allocator_snapshots;
mod artifacts;
mod bad_input;
mod convert;
mod defaults;
mod dependencies;
mod empty_gates;
mod help;
mod hostile_files;
mod issues;
mod lake;
mod newest_run;
mod outputs;
mod pack;
mod query;
mod rank_folder;
mod removed;
mod reports;
mod round_trip;
mod services;
mod show;
mod story;
mod streams;
mod support;
mod unusable_home;
mod validate;
