//! The tables of a lake: their names, columns and location.
//!
//! A lake is a directory or a prefix of an object store with one Delta table per [`Table`]. An
//! unknown value is NULL in the tables, never zero. All times in the tables are Unix nanoseconds.

mod error;
mod files;
mod lake;
mod ledger;
mod metadata;
mod properties;
mod schema;
mod store;

pub use error::{LakeError, delta_error};
pub use files::{PARTITION, single_files};
pub use lake::{Lake, register_table};
pub use ledger::{Ledger, read_ledger};
pub use metadata::{Splitter, covered, join_metadata};
pub use properties::writer_properties;
pub use schema::Table;
