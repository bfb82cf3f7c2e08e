//! JSON in the dialect that Python's `json` module reads and writes.
//!
//! Records are written by Python programs, so their JSON holds what Python allows and
//! the standard does not: `NaN` and `Infinity`, integers of any size, lone surrogates,
//! repeated keys. General parsers refuse or change some of these; verdicts and record
//! ids depend on every one of them.

mod read;
mod write;

pub use read::{Build, JsonError, JsonErrorKind, MAX_DEPTH, RawNumber, RawString, Reader, parse};
pub use write::{Layout, NonFinite, Writer, float_repr, push_integer, push_quoted, push_text};
