//! What Stormlog artifacts hold, as types.
//!
//! This crate knows the records, sessions and manifests that are on disk, their
//! versions, their rules and their exact spelling. It opens no file, reads no clock and
//! starts no thread, so a third party can read our artifacts with it alone.

mod event;
mod identity;
pub mod json;
mod manifest;
mod number;
mod record;
mod session;
mod text;
mod value;

pub use event::{Counters, Event, FIELDS, IDENTITY_FIELDS, LATEST_VERSION, Version};
pub use identity::{DistributedIdentity, IdentityInput, launcher_variables_incomplete, resolve};
pub use manifest::{MANIFEST_VERSION, Manifest, SINK_FORMAT, Segment};
pub use record::{RecordDefaults, RecordError, event_from_record, validate};
pub use session::{
    SessionError, SessionStatus, SessionSummary, new_session_id, session_integer,
    stable_legacy_session_id,
};
pub use text::{Text, is_python_space, strip};
pub use value::{Map, Value};
