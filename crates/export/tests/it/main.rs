//! What leaves the machine, against receivers that behave well and badly.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod alerts;
mod delivery;
mod https;
mod metrics;
mod receiver;
mod replay;
