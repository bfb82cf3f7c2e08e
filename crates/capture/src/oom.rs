//! Records out-of-memory errors: which exceptions count as one, and the bundle of files that is
//! written for each.

mod bundle;
mod classify;
mod retention;

pub use bundle::{BundleError, Dump, amend, attach_history, write};
pub use classify::{ExceptionFacts, TORCH_REASON, classify, classify_any, requested_bytes};
pub use retention::{Retention, prune};
