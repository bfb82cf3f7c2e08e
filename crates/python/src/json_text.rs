//! Writes Python objects as one line of JSON with sorted keys, as `json.dumps(…, sort_keys=True)`
//! does, without a tree of Rust values in between. [`crate::record_lines`] handles values that are
//! the same as in the previous line.

use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use stormlog_capture::store::record_lines::Written;
use stormlog_format::json::{Layout, MAX_DEPTH, Writer, push_integer, push_quoted};
use stormlog_format::{Text, Value};

use crate::convert::text_from_python;

/// The JSON text of one record, to which Python values are appended.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) out: String,
    /// The addresses of the containers around the current value, to detect a container inside
    /// itself.
    ancestors: Vec<usize>,
}

impl Line {
    pub(crate) fn value(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Written> {
        if let Ok(integer) = object.cast_exact::<PyInt>() {
            return self.integer(integer);
        }
        if object.is_none() {
            self.out.push_str("null");
            return Ok(Written::Null);
        }
        if let Ok(text) = object.cast::<PyString>() {
            self.string(text)?;
            return Ok(Written::String);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            self.enter(object)?;
            self.dict(dict)?;
            self.leave();
            return Ok(Written::Object);
        }
        if let Ok(flag) = object.cast::<PyBool>() {
            self.out
                .push_str(if flag.is_true() { "true" } else { "false" });
        } else if let Ok(integer) = object.cast::<PyInt>() {
            return self.integer(integer);
        } else if let Ok(number) = object.cast::<PyFloat>() {
            self.scalar(&Value::Float(number.value()));
        } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            self.enter(object)?;
            self.list(object)?;
            self.leave();
        } else {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "Object of type {kind} is not JSON serializable"
            )));
        }
        Ok(Written::Other)
    }

    /// Begins a dictionary, list or tuple; raises an exception if it contains itself or is nested
    /// too deeply. A call of [`leave`](Self::leave) must follow.
    pub(crate) fn enter(&mut self, container: &Bound<'_, PyAny>) -> PyResult<()> {
        let address = container.as_ptr() as usize;
        if self.ancestors.contains(&address) {
            return Err(PyValueError::new_err("Circular reference detected"));
        }
        if self.ancestors.len() >= MAX_DEPTH {
            return Err(PyRecursionError::new_err("record is nested too deep"));
        }
        self.ancestors.push(address);
        Ok(())
    }

    /// Ends the dictionary, list or tuple that was entered last.
    pub(crate) fn leave(&mut self) {
        self.ancestors.pop();
    }

    pub(crate) fn dict(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut entries = Vec::with_capacity(dict.len());
        for (key, value) in dict {
            match key.cast_into::<PyString>() {
                Ok(key) => entries.push((key, value)),
                Err(_) => return self.dict_of_any_keys(dict),
            }
        }
        // Python sorts strings by code point, which is the same order as that of their UTF-8 bytes.
        // If a key has no UTF-8 form, Python itself sorts the keys.
        let mut indices = Vec::with_capacity(entries.len());
        for (index, (key, _)) in entries.iter().enumerate() {
            match key.to_str() {
                Ok(text) => indices.push((text, index)),
                Err(_) => return self.dict_of_any_keys(dict),
            }
        }
        indices.sort_unstable();
        self.out.push('{');
        for (count, (key, index)) in indices.iter().enumerate() {
            self.separate(count);
            push_quoted(&mut self.out, key);
            self.out.push_str(": ");
            self.value(&entries[*index].1)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn dict_of_any_keys(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        let keys = dict.keys();
        keys.sort()?;
        self.out.push('{');
        for (count, key) in keys.iter().enumerate() {
            self.separate(count);
            self.key(&key)?;
            self.out.push_str(": ");
            if let Some(value) = dict.get_item(&key)? {
                self.value(&value)?;
            }
        }
        self.out.push('}');
        Ok(())
    }

    /// Writes a key of a dictionary. A number, a boolean or `None` is written as a string with its
    /// JSON text, such as `"null"`.
    fn key(&mut self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(text) = key.cast::<PyString>() {
            return self.string(text);
        }
        let is_name = key.is_none() || key.is_instance_of::<PyInt>();
        if !is_name && !key.is_instance_of::<PyFloat>() {
            let kind = key.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "keys must be str, int, float, bool or None, not {kind}"
            )));
        }
        // The JSON writer puts quotes around a number that is not finite, so a key that is such a
        // number needs no further quotes.
        let number = key.cast::<PyFloat>();
        let is_finite = number.map_or(true, |number| number.value().is_finite());
        let quote = if is_finite { "\"" } else { "" };
        self.out.push_str(quote);
        self.value(key)?;
        self.out.push_str(quote);
        Ok(())
    }

    fn list(&mut self, items: &Bound<'_, PyAny>) -> PyResult<()> {
        self.out.push('[');
        for (count, item) in items.try_iter()?.enumerate() {
            self.separate(count);
            self.value(&item?)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn separate(&mut self, count: usize) {
        if count > 0 {
            self.out.push_str(", ");
        }
    }

    fn string(&mut self, text: &Bound<'_, PyString>) -> PyResult<()> {
        match text.to_str() {
            Ok(text) => push_quoted(&mut self.out, text),
            Err(_) => self.scalar(&Value::Text(text_from_python(text)?)),
        }
        Ok(())
    }

    fn integer(&mut self, integer: &Bound<'_, PyInt>) -> PyResult<Written> {
        if let Ok(value) = integer.extract::<i64>() {
            push_integer(&mut self.out, value);
            return Ok(Written::Integer(value));
        }
        // For a subclass of `int`, the number is written, not the text that the subclass returns
        // for it.
        let plain = integer.py().get_type::<PyInt>();
        let digits = plain.call_method1("__repr__", (integer,))?;
        self.out.push_str(&digits.extract::<String>()?);
        Ok(Written::Other)
    }

    fn scalar(&mut self, value: &Value) {
        Writer::new(Layout::Line).value(&mut self.out, value, 0);
    }
}

/// The session id in a record; `None` when the record contains no session id.
pub(crate) fn record_session(record: &Bound<'_, PyAny>) -> PyResult<Option<Text>> {
    let session_id = match record.cast_exact::<PyDict>() {
        Ok(dict) => dict.get_item(pyo3::intern!(record.py(), "session_id"))?,
        Err(_) => Some(record.call_method1("get", ("session_id",))?),
    };
    let Some(session_id) = session_id.filter(|session_id| !session_id.is_none()) else {
        return Ok(None);
    };
    // Python's `ValueError` is raised here because stormlog 0.3.9 raises it, too; see
    // `crate::sink`.
    let session_id = session_id
        .cast_into::<PyString>()
        .map_err(|_| PyValueError::new_err("telemetry sink record session_id must be a string"))?;
    text_from_python(&session_id).map(Some)
}
