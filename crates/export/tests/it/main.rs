//! Tests of alerts and metrics with receivers that behave well and badly.
#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

mod alerts;
mod delivery;
mod https;
mod metrics;
mod receiver;
mod replay;
