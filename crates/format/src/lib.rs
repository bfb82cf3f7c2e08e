//! What Stormlog artifacts hold, as types.
//!
//! This crate knows the records, sessions and manifests that are on disk, their
//! versions, their rules and their exact spelling. It opens no file, reads no clock and
//! starts no thread, so a third party can read our artifacts with it alone.

mod byte_text;
pub mod classify;
mod digits;
mod event;
mod event_type;
pub mod file_names;
mod identity;
pub mod json;
pub mod label;
mod manifest;
pub mod metadata_keys;
mod number;
mod python_text;
mod record;
pub mod rollup;
pub mod scan;
mod session;
mod sink_names;
pub mod spreadsheet;
mod text;
mod value;

pub use byte_text::{byte_text, human_bytes};
pub use event::{Counters, Event, FIELDS, IDENTITY_FIELDS, LATEST_VERSION, Version};
pub use event_type::EventType;
pub use identity::{DistributedIdentity, IdentityInput, launcher_variables_incomplete, resolve};
pub use manifest::{MANIFEST_VERSION, Manifest, Pruned, Rewriting, SINK_FORMAT, Segment, Thinned};
pub use number::{integer_of_text, round_to_6};
pub use python_text::python_str;
pub use record::{RecordDefaults, RecordError, event_from_record, validate};
pub use session::{
    ProcessIdentity, SelectionKey, SessionError, SessionSpan, SessionStatus, SessionSummary,
    new_session_id, session_integer, stable_legacy_session_id,
};
pub use sink_names::{SEGMENT_PREFIX, SinkNames};
pub use text::{Text, is_python_space, strip};
pub use value::{Map, Value};
