//! JSON in the dialect that Python's `json` module reads and writes.
//!
//! Python programs write the records, so the JSON may contain what Python allows but standard JSON
//! does not: `NaN` and `Infinity`, integers of any size, lone surrogates and repeated keys. General
//! JSON parsers reject or change some of Python's forms, but results and record ids depend on all
//! of them.

mod of;
mod read;
mod write;

pub(crate) use of::{BIG, OPAQUE};
pub use of::{by_name, map_of, value_of};
pub use read::{Build, JsonError, JsonErrorKind, MAX_DEPTH, RawNumber, RawString, Reader, parse};
pub use write::{Layout, NonFinite, Writer, float_repr, push_integer, push_quoted, push_text};
