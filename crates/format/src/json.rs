//! JSON in the dialect that Python's `json` module reads and writes.
//!
//! Python programs write the records, so the JSON may contain what Python allows but standard JSON
//! does not: `NaN` and `Infinity`, integers of any size, lone surrogates and repeated keys. General
//! JSON parsers reject some of these values and change others. A changed value would change query
//! results and record ids (hashes of records), so this module has its own parser and writer.

mod of;
mod read;
mod write;

pub use of::{by_name, map_of, value_of};
pub use read::{
    Build, JsonError, JsonErrorKind, MAX_DEPTH, RawNumber, RawString, Reader, parse, parse_object,
    parse_record,
};
pub use write::{Layout, NonFinite, Writer, push_integer, push_quoted, push_text};
