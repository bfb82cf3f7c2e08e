//! Stormlog 0.3.9's analyses over loaded columns, with its numbers.
//!
//! Scripts and dashboards read these reports today, so thresholds, orders and roundings follow
//! stormlog 0.3.9, its quirks included. The findings for users are made elsewhere, by our own
//! detectors.

pub mod collective;
pub mod cross_rank;
pub mod distributed;
pub mod framework;
pub mod optimization;
