//! The extension module `stormlog._core`: conversions only, no logic of its own.

mod arrow;
mod convert;
mod errors;
mod events;
mod json_objects;
mod load;
mod program;
mod records;
mod rows;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::load::{load_events, load_sessions, manifest_path, read_manifest, segment_paths};
    #[pymodule_export]
    use crate::program::main;
    #[pymodule_export]
    use crate::records::{event_from_record, resolve_identity, validate_record};
    #[pymodule_export]
    use crate::rows::{EventRows, rows_from_records};
}
