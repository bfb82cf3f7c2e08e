//! The tables of a lake: their columns, and where they lie.
//!
//! A lake is a directory or a prefix of an object store with one Delta table per [`Table`]. Unknown is
//! NULL, never zero. All times are Unix nanoseconds.

mod error;
mod files;
mod lake;
mod ledger;
mod metadata;
mod properties;
mod schema;
mod store;

pub use error::LakeError;
pub use lake::{Lake, delta_error, register_table};
pub use ledger::{Ledger, read_ledger};
pub use metadata::{COVERED, Covered, join_metadata, split_metadata};
pub use properties::writer_properties;
pub use schema::{COUNTERS, Table};
