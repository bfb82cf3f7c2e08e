//! The extension module `stormlog._core`: conversions only, no logic of its own.

mod convert;
mod errors;
mod records;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::records::{event_from_record, resolve_identity, validate_record};
}
