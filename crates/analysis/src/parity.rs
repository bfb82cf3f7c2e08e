//! The reference's analyses over loaded columns, with its numbers.
//!
//! Scripts and dashboards read these reports today, so thresholds, orders and roundings follow
//! the reference, its quirks included. What users are told is decided elsewhere, by our own
//! detectors.

pub mod collective;
pub mod cross_rank;
pub mod distributed;
pub mod framework;
pub mod gap;
pub mod loose;
pub mod markers;
pub mod optimization;
pub mod phases;
mod regression;
mod rounding;
mod samples;
