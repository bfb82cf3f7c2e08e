//! The recorder from outside: scripted sources, real threads, real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bundle;
mod recorder;
mod scripted;
