//! The tables of a lake: their columns, where they lie, and how rows become events again.
//!
//! A lake is a directory or a prefix of an object store with one Delta table per [`Table`]. Unknown is
//! NULL, never zero. All times are Unix nanoseconds.

mod error;
mod event_rows;
mod lake;
mod ledger;
mod metadata;
mod properties;
mod schema;

pub use error::LakeError;
pub use event_rows::events_of;
pub use lake::{Lake, delta_error};
pub use ledger::{Ledger, read_ledger};
pub use metadata::{COVERED, Covered, join_metadata, split_metadata};
pub use properties::writer_properties;
pub use schema::{COUNTERS, Table};
