//! The program as people and scripts meet it: a process, its two streams, its exit code.

mod convert;
mod help;
mod round_trip;
mod show;
mod streams;
mod support;
mod validate;
