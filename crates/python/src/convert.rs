//! Python objects to format values and back. What no rule looks into passes through untouched.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use stormlog_format::json::MAX_DEPTH;
use stormlog_format::{Map, Text, Value};

/// Objects of the caller's that stand behind [`Value::Opaque`] handles.
#[derive(Default)]
pub(crate) struct Objects<'py>(Vec<Bound<'py, PyAny>>);

impl<'py> Objects<'py> {
    /// A scalar as itself, everything else as a handle.
    pub(crate) fn shallow(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Value> {
        if let Some(value) = scalar(object)? {
            return Ok(value);
        }
        let handle = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(object.clone());
        Ok(Value::Opaque(handle))
    }

    /// A record: scalars as themselves, its metadata one level deep, the rest as handles.
    /// `None` when the object is no mapping.
    pub(crate) fn record(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<Map>> {
        self.mapping(object, |objects, key, value| {
            if key == "metadata" && value.is_instance_of::<PyDict>() {
                return Ok(objects.flat(value)?.map_or(Value::Null, Value::Map));
            }
            objects.shallow(value)
        })
    }

    /// A mapping one level deep. `None` when the object is no mapping.
    pub(crate) fn flat(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<Map>> {
        self.mapping(object, |objects, _, value| objects.shallow(value))
    }

    fn mapping(
        &mut self,
        object: &Bound<'py, PyAny>,
        mut convert: impl FnMut(&mut Self, &Text, &Bound<'py, PyAny>) -> PyResult<Value>,
    ) -> PyResult<Option<Map>> {
        let mut entries = Vec::new();
        let mut put = |objects: &mut Self, key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>| {
            let key = key_text(key)?;
            let value = convert(objects, &key, value)?;
            entries.push((key, value));
            PyResult::Ok(())
        };
        if let Ok(dict) = object.cast::<PyDict>() {
            for (key, value) in dict {
                put(self, &key, &value)?;
            }
        } else if let Ok(mapping) = object.cast::<PyMapping>() {
            for item in mapping.items()? {
                let (key, value) = item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
                put(self, &key, &value)?;
            }
        } else {
            return Ok(None);
        }
        Ok(Some(Map::from_entries(entries)))
    }

    /// The Python object of a value; handles give back the object they stand for.
    pub(crate) fn to_python(&self, py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Value::Null => py.None().into_bound(py),
            Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
            Value::Int(value) => value.into_pyobject(py)?.into_any(),
            Value::Big(digits) => py.get_type::<PyInt>().call1((&**digits,))?,
            Value::Float(value) => PyFloat::new(py, *value).into_any(),
            Value::Text(text) => text_to_python(py, text)?.into_any(),
            Value::List(items) => {
                let list = PyList::empty(py);
                for item in items {
                    list.append(self.to_python(py, item)?)?;
                }
                list.into_any()
            }
            Value::Map(map) => self.map_to_python(py, map)?.into_any(),
            Value::Opaque(handle) => match self.0.get(*handle as usize) {
                Some(object) => object.clone(),
                None => py.None().into_bound(py),
            },
        })
    }

    /// A fresh dictionary of the entries.
    pub(crate) fn map_to_python(&self, py: Python<'py>, map: &Map) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in map.iter() {
            dict.set_item(text_to_python(py, key)?, self.to_python(py, value)?)?;
        }
        Ok(dict)
    }
}

/// `None`, booleans, numbers and strings; nothing for other objects.
pub(crate) fn scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if object.is_none() {
        return Ok(Some(Value::Null));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Some(Value::Text(text_from_python(text)?)));
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Some(Value::Bool(flag.is_true())));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Some(match object.extract::<i64>() {
            Ok(value) => Value::Int(value),
            Err(_) => Value::Big(object.str()?.to_cow()?.into()),
        }));
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Ok(Some(Value::Float(number.value())));
    }
    Ok(None)
}

/// A record with everything in it as values; objects that JSON has no word for become their text.
pub(crate) fn deep_record(object: &Bound<'_, PyAny>) -> PyResult<Map> {
    match deep(object, 0)? {
        Value::Map(map) => Ok(map),
        _ => Err(pyo3::exceptions::PyTypeError::new_err(
            "record must be a mapping",
        )),
    }
}

fn deep(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if let Some(value) = scalar(object)? {
        return Ok(value);
    }
    if depth > MAX_DEPTH {
        return Err(pyo3::exceptions::PyRecursionError::new_err(
            "record is nested too deep",
        ));
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let mut entries = Vec::new();
        for item in mapping.items()? {
            let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            entries.push((key_text(&key)?, deep(&value, depth + 1)?));
        }
        return Ok(Value::Map(Map::from_entries(entries)));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.map(|item| deep(&item?, depth + 1));
        return Ok(Value::List(items.collect::<PyResult<_>>()?));
    }
    Ok(Value::Text(text_from_python(&object.str()?)?))
}

/// A string, lone surrogates included.
pub(crate) fn text_from_python(text: &Bound<'_, PyString>) -> PyResult<Text> {
    if let Ok(plain) = text.to_cow() {
        return Ok(Text::from(&*plain));
    }
    let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
    Ok(Text::from_bytes(bytes.cast::<PyBytes>()?.as_bytes()))
}

/// A string, lone surrogates included.
pub(crate) fn text_to_python<'py>(py: Python<'py>, text: &Text) -> PyResult<Bound<'py, PyString>> {
    if let Some(plain) = text.as_str() {
        return Ok(PyString::new(py, plain));
    }
    let bytes = PyBytes::new(py, text.as_bytes());
    Ok(bytes
        .call_method1("decode", ("utf-8", "surrogatepass"))?
        .cast_into::<PyString>()?)
}

/// A mapping's key as text; keys that are no strings take part only in messages.
fn key_text(key: &Bound<'_, PyAny>) -> PyResult<Text> {
    match key.cast::<PyString>() {
        Ok(text) => text_from_python(text),
        Err(_) => text_from_python(&key.str()?),
    }
}
