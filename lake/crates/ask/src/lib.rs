//! Queries over the tables of a lake: SQL, the queries of `stormlog query`, queries about fleets,
//! and the detectors as aggregate functions.
//!
//! The engine is `DataFusion`. The data for a query are selected in SQL; the result rows are made
//! and sorted by the code of `stormlog query`, so that a query gives the same rows over a lake as
//! over files.

mod asker;
mod cluster;
mod columns;
mod diagnose;
mod error;
mod event_rows;
mod fleet;
mod functions;
mod questions;
mod recorded;
mod summary;
mod values;
mod views;

pub use asker::Asker;
pub use cluster::{Cluster, serve};
pub use diagnose::{DiagnoseOptions, RunDiagnosis};
pub use error::AskError;
pub use fleet::{Filter, FleetQuestion, OomGroup};
pub use values::rows_of;
pub use views::VIEWS;
