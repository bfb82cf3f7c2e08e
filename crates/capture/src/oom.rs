//! Records out-of-memory errors: reads what an error says, and writes a bundle of files for each
//! error. `format::classify` decides which exceptions are out-of-memory errors.

mod bundle;
mod request;
mod retention;

pub use bundle::{BundleError, Dump, amend, attach_history, write};
pub use request::requested_bytes;
pub use retention::{Retention, prune};
