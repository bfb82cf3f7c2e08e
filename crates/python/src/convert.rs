//! Converts Python objects to the values of the format crate and back. Python objects that the
//! format crate need not look into are converted to handles (indices), and a handle is converted
//! back to the same object.

use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use serde::Serialize;
use stormlog_format::{Map, Text, Value, json, metadata_keys};

use crate::errors::{invalid_value, raise};

/// A key that is not a string is converted to a text: this prefix and the number of the key's
/// handle. No real key starts with these two unpaired surrogates.
const KEY_HANDLE: &[u8] = b"\xed\xbf\xbf\xed\xbf\xbe";

/// Converts seconds to a duration; negative seconds become zero, and seconds that exceed the longest
/// duration become that duration.
pub(crate) fn seconds(value: f64) -> Duration {
    let longest = Duration::from_secs(u64::from(u32::MAX));
    if value < 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(value).map_or(longest, |time| time.min(longest))
}

/// The Python objects that were not converted. The number in a [`Value::Opaque`] is the index of
/// such an object.
#[derive(Default)]
pub(crate) struct Objects<'py>(Vec<Bound<'py, PyAny>>);

impl<'py> Objects<'py> {
    /// Converts `None`, a boolean, a number or a string to a value; any other object becomes a
    /// handle.
    pub(crate) fn shallow(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Value> {
        match scalar(object)? {
            Some(value) => Ok(value),
            None => Ok(Value::Opaque(self.keep(object))),
        }
    }

    /// Converts a record one level deep: its scalars and its metadata are converted, and other
    /// objects become handles. The converted record is `None` when the object is not a mapping.
    pub(crate) fn record(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<Map>> {
        let Some(entries) = entries(object)? else {
            return Ok(None);
        };
        // In a record with a `schema_version`, the metadata must be a real dictionary.
        let versioned = entries.iter().any(|(key, _)| {
            key.cast::<PyString>()
                .is_ok_and(|key| key == "schema_version")
        });
        self.map(&entries, |objects, key, value| {
            let opens = *key == "metadata"
                && (value.is_instance_of::<PyDict>()
                    || !versioned && value.cast::<PyMapping>().is_ok());
            if opens {
                objects.metadata(value)
            } else {
                objects.shallow(value)
            }
        })
        .map(Some)
    }

    /// Converts metadata one level deep; keys may be of any type. The value of
    /// `memory_capabilities` is converted one level deeper, because record version 4 has rules for
    /// its entries.
    fn metadata(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Value> {
        let mut metadata = Vec::new();
        for (key, value) in entries(object)?.unwrap_or_default() {
            let key = match key.cast::<PyString>() {
                Ok(text) => text_from_python(text)?,
                Err(_) => self.key_handle(&key),
            };
            let value = if key == "memory_capabilities" {
                self.opened(&value)?
            } else {
                self.shallow(&value)?
            };
            metadata.push((key, value));
        }
        Ok(Value::Map(Map::from_entries(metadata)))
    }

    /// Converts a record with its metadata and its phase, as [`crate::projection`] needs it. The
    /// converted record is `None` when the object is not a mapping.
    pub(crate) fn projected(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<Map>> {
        let Some(record) = entries(object)? else {
            return Ok(None);
        };
        self.map(&record, |objects, key, value| match entries(value)? {
            Some(metadata) if *key == "metadata" => objects
                .map(&metadata, |objects, key, value| match entries(value)? {
                    Some(scope) if *key == metadata_keys::PHASE_SCOPE => {
                        objects.map(&scope, Self::phase_part).map(Value::Map)
                    }
                    _ => objects.shallow(value),
                })
                .map(Value::Map),
            _ => objects.shallow(value),
        })
        .map(Some)
    }

    /// Converts an entry of a phase: the path of the phase is converted as a list, other entries
    /// are not converted further.
    fn phase_part(&mut self, key: &Text, value: &Bound<'py, PyAny>) -> PyResult<Value> {
        match value.cast::<PyList>() {
            Ok(path) if *key == "path" => {
                let path = path.iter().map(|part| self.shallow(&part));
                Ok(Value::List(path.collect::<PyResult<_>>()?))
            }
            _ => self.shallow(value),
        }
    }

    /// Converts a mapping one level deep; `None` when the object is not a mapping.
    pub(crate) fn flat(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<Map>> {
        match entries(object)? {
            Some(entries) => self
                .map(&entries, |objects, _, value| objects.shallow(value))
                .map(Some),
            None => Ok(None),
        }
    }

    /// Converts a mapping one level deep; an object that is not a mapping becomes a scalar or a
    /// handle.
    fn opened(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Value> {
        match self.flat(object)? {
            Some(map) => Ok(Value::Map(map)),
            None => self.shallow(object),
        }
    }

    fn map(
        &mut self,
        entries: &[Entry<'py>],
        mut convert: impl FnMut(&mut Self, &Text, &Bound<'py, PyAny>) -> PyResult<Value>,
    ) -> PyResult<Map> {
        let mut map = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = key_text(key)?;
            let value = convert(self, &key, value)?;
            map.push((key, value));
        }
        Ok(Map::from_entries(map))
    }

    fn keep(&mut self, object: &Bound<'py, PyAny>) -> u32 {
        self.0.push(object.clone());
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }

    fn key_handle(&mut self, key: &Bound<'py, PyAny>) -> Text {
        let mut name = KEY_HANDLE.to_vec();
        name.extend_from_slice(self.keep(key).to_string().as_bytes());
        Text::from_bytes(&name)
    }

    /// The Python object that a handle stands for.
    pub(crate) fn object(&self, handle: u32) -> Option<&Bound<'py, PyAny>> {
        self.0.get(handle as usize)
    }

    /// The Python object of a value; a handle becomes the object that it stands for.
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
            Value::Opaque(handle) => match self.object(*handle) {
                Some(object) => object.clone(),
                None => py.None().into_bound(py),
            },
        })
    }

    /// A new Python dictionary with the entries of a JSON object.
    pub(crate) fn map_to_python(&self, py: Python<'py>, map: &Map) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in map.iter() {
            dict.set_item(self.key_to_python(py, key)?, self.to_python(py, value)?)?;
        }
        Ok(dict)
    }

    fn key_to_python(&self, py: Python<'py>, key: &Text) -> PyResult<Bound<'py, PyAny>> {
        let handle = key.as_bytes().strip_prefix(KEY_HANDLE);
        let handle = handle.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        match handle.and_then(|handle| self.object(handle)) {
            Some(object) => Ok(object.clone()),
            None => Ok(text_to_python(py, key)?.into_any()),
        }
    }
}

/// Converts a serializable struct or map to a new Python dictionary.
pub(crate) fn dict_of<'py>(
    py: Python<'py>,
    document: &impl Serialize,
) -> PyResult<Bound<'py, PyDict>> {
    Objects::default().map_to_python(py, &json::map_of(document))
}

/// Converts serializable structs or maps to new Python dictionaries.
pub(crate) fn dicts_of(
    py: Python<'_>,
    documents: impl IntoIterator<Item = impl Serialize>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let dicts = documents.into_iter();
    dicts.map(|document| dict_of(py, &document)).collect()
}

/// How [`deep_map`](Self::deep_map) converts what JSON cannot express, such as sets, and keys of
/// another type than string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The conversion for the id of a record, which is a hash of the record: keys that are not
    /// strings, and sets, become the text that Python's `str` returns.
    Record,
    /// The conversion for the dimensions of a fingerprint (the properties that distinguish issues
    /// of one kind): sets become lists, and keys that are not strings become an empty text.
    Dimensions,
}

impl Reading {
    /// Converts a mapping at every depth to JSON values; objects without a JSON form become their
    /// text. The converted mapping is `None` when the object is not a mapping.
    pub(crate) fn deep_map(self, object: &Bound<'_, PyAny>) -> PyResult<Option<Map>> {
        self.map(object, 0, Container::Map)
    }

    fn at_depth(
        self,
        object: &Bound<'_, PyAny>,
        depth: usize,
        container: Container,
    ) -> PyResult<Value> {
        if let Some(value) = scalar(object)? {
            return Ok(value);
        }
        if depth > json::MAX_DEPTH {
            let message = format!("the value is nested deeper than {} levels", json::MAX_DEPTH);
            return Err(invalid_value(object.py(), message));
        }
        // With `Record`, a mapping inside a list is converted to a JSON object only if it is a
        // `dict`; any other mapping inside a list becomes its text.
        let opens = container == Container::Map
            || self == Self::Dimensions
            || object.is_instance_of::<PyDict>();
        if opens && let Some(map) = self.map(object, depth + 1, container)? {
            return Ok(Value::Map(map));
        }
        if self.is_list(object) {
            let items = object.try_iter()?;
            let in_tuple = object.is_instance_of::<PyTuple>();
            let container = if in_tuple { container } else { Container::List };
            let items = items.map(|item| self.at_depth(&item?, depth + 1, container));
            return Ok(Value::List(items.collect::<PyResult<_>>()?));
        }
        Ok(Value::Text(text_from_python(&object.str()?)?))
    }

    fn map(
        self,
        object: &Bound<'_, PyAny>,
        depth: usize,
        container: Container,
    ) -> PyResult<Option<Map>> {
        let Some(entries) = entries(object)? else {
            return Ok(None);
        };
        let mut map = Vec::with_capacity(entries.len());
        for (key, value) in &entries {
            let key = match self {
                Self::Record => key_text(key)?,
                Self::Dimensions if key.is_instance_of::<PyString>() => key_text(key)?,
                Self::Dimensions => Text::default(),
            };
            map.push((key, self.at_depth(value, depth, container)?));
        }
        Ok(Some(Map::from_entries(map)))
    }

    fn is_list(self, object: &Bound<'_, PyAny>) -> bool {
        let sequence = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        let set = || {
            object.is_instance_of::<pyo3::types::PySet>()
                || object.is_instance_of::<pyo3::types::PyFrozenSet>()
        };
        sequence || self == Self::Dimensions && set()
    }
}

/// Whether a value that is being converted is inside a list, directly or at any depth; tuples do
/// not count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Map,
    List,
}

/// Converts a Python mapping at every depth; objects that JSON cannot express become their text.
pub(crate) fn whole_map(object: &Bound<'_, PyAny>) -> PyResult<Map> {
    let map = Reading::Record.deep_map(object)?;
    map.ok_or_else(|| {
        let message = format!("expected a mapping, not {}", object.get_type());
        raise(object.py(), "InvalidTypeError", message)
    })
}

/// Converts `None`, booleans, numbers and strings; returns `None` for other objects.
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

/// The text of an object, as Python's `str` returns it.
pub(crate) fn text_of(object: &Bound<'_, PyAny>) -> PyResult<Text> {
    text_from_python(&object.str()?)
}

/// Converts a Python string to a text, including lone surrogates.
pub(crate) fn text_from_python(text: &Bound<'_, PyString>) -> PyResult<Text> {
    if let Ok(plain) = text.to_cow() {
        return Ok(Text::from(&*plain));
    }
    let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
    Ok(Text::from_bytes(bytes.cast::<PyBytes>()?.as_bytes()))
}

/// Converts a text to a Python string, including lone surrogates.
pub(crate) fn text_to_python<'py>(py: Python<'py>, text: &Text) -> PyResult<Bound<'py, PyString>> {
    bytes_to_python(py, text.as_bytes())
}

/// Converts a text or `None` to a Python string or `None`.
pub(crate) fn optional_to_python<'py>(
    py: Python<'py>,
    text: Option<&Text>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    text.map(|text| text_to_python(py, text)).transpose()
}

/// Converts texts to Python strings.
pub(crate) fn texts_to_python<'py>(
    py: Python<'py>,
    texts: &[Text],
) -> PyResult<Vec<Bound<'py, PyString>>> {
    texts.iter().map(|text| text_to_python(py, text)).collect()
}

/// Converts the bytes of a text, which may contain lone surrogates, to a Python string.
pub(crate) fn bytes_to_python<'py>(
    py: Python<'py>,
    bytes: &[u8],
) -> PyResult<Bound<'py, PyString>> {
    if let Ok(plain) = std::str::from_utf8(bytes) {
        return Ok(PyString::new(py, plain));
    }
    let bytes = PyBytes::new(py, bytes);
    let text = bytes.call_method1(intern!(py, "decode"), ("utf-8", "surrogatepass"))?;
    Ok(text.cast_into::<PyString>()?)
}

type Entry<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The keys and values of a mapping; `None` when the object is not a mapping.
fn entries<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Entry<'py>>>> {
    if let Ok(dict) = object.cast::<PyDict>() {
        return Ok(Some(dict.iter().collect()));
    }
    match object.cast::<PyMapping>() {
        Ok(mapping) => {
            let items = mapping.items()?;
            let items = items.iter().map(|item| item.extract());
            items.collect::<PyResult<_>>().map(Some)
        }
        Err(_) => Ok(None),
    }
}

/// The key of a mapping as text; a key that is not a string becomes its `str`.
fn key_text(key: &Bound<'_, PyAny>) -> PyResult<Text> {
    match key.cast::<PyString>() {
        Ok(text) => text_from_python(text),
        Err(_) => text_of(key),
    }
}
