//! Parses JSON text directly to Python objects, without a tree of Rust values in between.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList};
use stormlog_format::json::{Build, RawNumber, RawString, Reader};
use stormlog_format::{Text, Value};

use crate::convert::text_to_python;

/// Parses JSON text that is known to be valid, such as the metadata of an event, to a Python
/// dictionary.
pub(crate) fn object<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut build = BuildObjects { py, failed: None };
    let value = Reader::new(json).value(&mut build);
    match (build.failed, value) {
        (None, Ok(value)) => Ok(value),
        (Some(error), _) => Err(error),
        // The metadata was validated when it was loaded, so parsing it again cannot fail.
        (None, Err(_)) => Ok(PyDict::new(py).into_any()),
    }
}

struct BuildObjects<'py> {
    py: Python<'py>,
    failed: Option<PyErr>,
}

impl<'py> BuildObjects<'py> {
    fn keep<T>(&mut self, made: PyResult<Bound<'py, T>>) -> Bound<'py, PyAny> {
        match made {
            Ok(made) => made.into_any(),
            Err(error) => {
                self.failed.get_or_insert(error);
                self.py.None().into_bound(self.py)
            }
        }
    }
}

impl<'a, 'py> Build<'a> for BuildObjects<'py> {
    type Key = Bound<'py, PyAny>;
    type Value = Bound<'py, PyAny>;

    fn key(&mut self, key: RawString<'a>) -> Self::Key {
        self.string(key)
    }
    fn null(&mut self) -> Self::Value {
        self.py.None().into_bound(self.py)
    }
    fn boolean(&mut self, value: bool) -> Self::Value {
        pyo3::types::PyBool::new(self.py, value)
            .to_owned()
            .into_any()
    }
    fn number(&mut self, number: RawNumber<'a>) -> Self::Value {
        let made = match number.decode() {
            Value::Int(value) => Ok(PyInt::new(self.py, value).into_any()),
            Value::Float(value) => Ok(PyFloat::new(self.py, value).into_any()),
            _ => self.py.get_type::<PyInt>().call1((number.text,)),
        };
        self.keep(made)
    }
    fn string(&mut self, string: RawString<'a>) -> Self::Value {
        let text: Text = string.decode();
        let made = text_to_python(self.py, &text);
        self.keep(made)
    }
    fn list(&mut self, items: Vec<Self::Value>) -> Self::Value {
        let made = PyList::new(self.py, items);
        self.keep(made)
    }
    fn map(&mut self, entries: Vec<(Self::Key, Self::Value)>) -> Self::Value {
        let dict = PyDict::new(self.py);
        for (key, value) in entries {
            if let Err(error) = dict.set_item(key, value) {
                self.failed.get_or_insert(error);
            }
        }
        dict.into_any()
    }
}
