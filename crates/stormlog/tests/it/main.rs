//! The program as people and scripts meet it: a process, its two streams, its exit code.

mod artifacts;
mod convert;
mod help;
mod issues;
mod query;
mod round_trip;
mod schema;
mod show;
mod story;
mod streams;
mod support;
mod validate;
