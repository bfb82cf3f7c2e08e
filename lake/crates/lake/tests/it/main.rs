//! The program as a whole, on real files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generated;
mod lost_worker;
mod questions;
mod workers;
