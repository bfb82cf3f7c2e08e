//! Records out-of-memory errors: decides which exceptions are out-of-memory errors, and writes a
//! bundle of files for each such error.

mod bundle;
mod classify;
mod retention;

pub use bundle::{BundleError, Dump, amend, attach_history, write};
pub use classify::{
    ExceptionFacts, ExhaustedMemory, TORCH_REASON, classify, classify_any, classify_device,
    exhausted_memory, requested_bytes,
};
pub use retention::{Retention, prune};
