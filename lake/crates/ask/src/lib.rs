//! Questions over the tables of a lake: SQL, the questions of `stormlog query`, questions about fleets,
//! and the detectors as aggregates.
//!
//! The engine is `DataFusion`. What a question needs is selected in SQL; rows are made and sorted by the
//! code that answers `stormlog query`, so that both give the same rows.

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
