//! Types for the contents of Stormlog artifacts.
//!
//! This crate defines how records, sessions and manifests are stored on disk, with their versions,
//! rules and exact text. The crate opens no file, reads no clock and starts no thread, so third
//! parties can use it alone to read Stormlog's artifacts.

mod byte_text;
pub mod classify;
mod digits;
mod duration;
mod event;
mod event_type;
mod fields;
pub mod file_names;
mod float_repr;
mod identity;
mod integer;
pub mod json;
pub mod label;
mod manifest;
pub mod metadata_keys;
mod names;
mod number;
pub mod part_folders;
mod placeholders;
mod python_file;
mod python_text;
mod record;
mod record_error;
mod retention;
pub mod rollup;
mod sample;
pub mod scan;
mod session;
pub mod session_sources;
mod sink_names;
pub mod skeleton;
pub mod spreadsheet;
mod text;
mod value;

pub use byte_text::{byte_text, counted, grouped, human_bytes, human_rate, parse_bytes};
pub use duration::{human_duration, parse_duration, seconds_of_unit};
pub use event::{
    Counters, Event, FIELDS, IDENTITY_FIELDS, INTEGER_COLUMNS, LATEST_VERSION, Version,
};
pub use event_type::EventType;
pub use identity::{DistributedIdentity, IdentityInput, resolve};
pub use manifest::{MANIFEST_VERSION, Manifest, Pruned, Rewriting, SINK_FORMAT, Segment, Thinned};
pub use number::{
    IntegerError, integer_of_text, parse_integer, plain_decimal, round_to_6, signed, truncate,
    whole, whole_count,
};
pub use placeholders::Placeholders;
pub use python_file::{is_library_file, is_torch_file};
pub use python_text::python_str;
pub use record::{RECORD_KEYS, RecordDefaults, event_from_record, validate};
pub use record_error::RecordError;
pub use retention::{LineRole, Retention};
pub use sample::{
    Place, ProcessMemory, Sample, SampleNumber, SampleNumbers, SampleReader, other_processes,
};
pub use session::{
    LONGEST_RECORDER_MARK, ProcessIdentity, RECORDER_MARK, SelectionKey, SessionError, SessionSpan,
    SessionStatus, SessionSummary, apply_recorder_mark, new_session_id, recorder_mark,
    session_integer, stable_legacy_session_id,
};
pub use sink_names::{SEGMENT_PREFIX, SinkNames};
pub use text::{Text, is_python_space, strip};
pub use value::{Map, Value};
