//! Writes Python records as lines of JSON. Values that are the same objects as in the previous
//! record are found here; [`stormlog_capture::store::record_lines`] writes their text again without
//! converting them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyMapping, PyString};
use stormlog_capture::store::record_lines::{self, Keeps, MOST_KEYS, Objects, Written};

use crate::dict_entries::Entries;
use crate::json_text::Line;

/// Converts Python dictionaries one after another to lines of JSON, reusing text of the previous
/// line.
pub(crate) type Lines = record_lines::Lines<Line>;

/// Converts a record, which may be any Python mapping, to the next line.
pub(crate) fn take(lines: &mut Lines, record: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(dict) = record.cast_exact::<PyDict>() {
        return lines.take(dict);
    }
    let dict = PyDict::new(record.py());
    dict.update(record.cast::<PyMapping>()?)?;
    lines.take_alone(&dict)
}

impl Keeps for Line {
    type Memory = Entries;
}

impl<'py> Objects<'py> for Line {
    type Object = Bound<'py, PyDict>;
    type Value = Bound<'py, PyAny>;
    type Error = PyErr;

    fn text(&mut self) -> &mut String {
        &mut self.out
    }

    fn write(&mut self, value: &Bound<'py, PyAny>) -> PyResult<Written> {
        self.value(value)
    }

    fn write_object(&mut self, object: &Bound<'py, PyDict>) -> PyResult<()> {
        self.dict(object)
    }

    fn enter(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        Line::enter(self, value)
    }

    fn leave(&mut self) {
        Line::leave(self);
    }

    fn as_object<'v>(&self, value: &'v Bound<'py, PyAny>) -> Option<&'v Bound<'py, PyDict>> {
        value.cast_exact::<PyDict>().ok()
    }

    fn as_integer(&self, value: &Bound<'py, PyAny>) -> Option<i64> {
        value.cast_exact::<PyInt>().ok()?.extract().ok()
    }

    fn remember(&self, object: &Bound<'py, PyDict>) -> Option<(Vec<String>, Entries)> {
        if object.len() > MOST_KEYS {
            return None;
        }
        let mut names = Vec::with_capacity(object.len());
        for (count, (key, _)) in object.iter().enumerate() {
            let key = key.cast_into_exact::<PyString>().ok()?;
            names.push((key.to_str().ok()?.to_owned(), count, key));
        }
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let entries = Entries::of(names.iter().map(|(_, count, key)| (*count, key)));
        Some((names.into_iter().map(|(name, ..)| name).collect(), entries))
    }

    fn take(&self, memory: &mut Entries, object: &Bound<'py, PyDict>) -> Option<u64> {
        memory.take(object)
    }

    fn value<'m>(
        &self,
        memory: &'m Entries,
        object: &Bound<'py, PyDict>,
        index: usize,
    ) -> Option<&'m Bound<'py, PyAny>> {
        memory.value(object.py(), index)
    }

    fn settle(&self, memory: &mut Entries, object: &Bound<'py, PyDict>, index: usize) {
        memory.settle(object.py(), index);
    }
}
