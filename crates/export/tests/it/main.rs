//! What leaves the machine, against receivers that behave well and badly.

mod alerts;
mod delivery;
mod metrics;
mod receiver;
mod replay;
