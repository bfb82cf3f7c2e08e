//! Records to lines, with what the last one had in common with this one taken from its line.
//!
//! Records of one program have the same keys in the same order, and most of their values are
//! the very objects of the record before: its session, its host, `None`. What is the same
//! object of a type that cannot change has the same text, so whole stretches of the last line
//! are copied and only what is new is written.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyMapping, PyString};
use stormlog_format::json::push_quoted;
use stormlog_format::rollup::{Observation, Telling};
use stormlog_format::scan::{Values, fields_of};

use crate::json_text::{Line, Written};

/// Objects with more keys than this are written without looking at the one before.
const MOST_KEYS: usize = 64;

/// Objects inside of one another that are compared with those of the last record.
const MOST_LEVELS: usize = 3;

/// Turns records into lines.
#[derive(Default)]
pub(crate) struct Lines {
    /// The last line.
    line: String,
    /// Memory for the next one.
    spare: String,
    shape: Shape,
    /// The fields that the sorted keys are, when they are those of a telemetry record.
    fields: Option<Vec<usize>>,
}

impl Lines {
    /// The line of a record, which may be any mapping, and what a rollup needs to know of it
    /// where that is plain to see.
    pub(crate) fn line(
        &mut self,
        record: &Bound<'_, PyAny>,
    ) -> PyResult<(&str, Option<Observation>)> {
        let mut line = Line::reusing(std::mem::take(&mut self.spare));
        let written = self.write(record, &mut line);
        self.spare = std::mem::replace(&mut self.line, line.out);
        if let Err(error) = written {
            self.shape = Shape::default();
            return Err(error);
        }
        Ok((&self.line, self.observation()))
    }

    fn write(&mut self, record: &Bound<'_, PyAny>, line: &mut Line) -> PyResult<()> {
        let Ok(dict) = record.cast_exact::<PyDict>() else {
            let dict = PyDict::new(record.py());
            dict.update(record.cast::<PyMapping>()?)?;
            self.shape = Shape::default();
            self.fields = None;
            return line.dict(&dict);
        };
        if self.shape.write(dict, &self.line, line, MOST_LEVELS)? == Keys::Others {
            self.fields = fields_of(self.shape.keys.iter().map(|key| &*key.name));
        }
        Ok(())
    }

    fn observation(&self) -> Option<Observation> {
        let line = self.line.as_bytes();
        let mut values = Values::default();
        let mut status = None;
        for (key, field) in self.shape.keys.iter().zip(self.fields.as_ref()?) {
            let text = &line[key.start..key.end];
            let is_right = match key.written {
                Written::Null => Values::may_be_null(*field),
                Written::Integer(value) => values.set_integer(*field, value),
                Written::String => values.set_string(*field, unquoted(text)),
                Written::Object => {
                    status = key.inner.as_ref().and_then(|inner| inner.status(text));
                    values.set_object(*field, text)
                }
                Written::Other => false,
            };
            if !is_right {
                return None;
            }
        }
        let record = values.checked()?;
        Some(match status {
            Some(status) => Observation::of_raw_with_status(&record, status),
            None => Observation::of_raw(&record),
        })
    }
}

/// The keys of an object and what was last written for them.
#[derive(Default)]
struct Shape {
    /// In the order in which a line has them.
    keys: Vec<Key>,
    /// In the order in which the object has them.
    entries: Vec<Entry>,
    telling: Telling,
}

/// Whether an object had the keys of the one before it.
#[derive(PartialEq, Eq)]
enum Keys {
    Same,
    Others,
}

struct Entry {
    key: Py<PyString>,
    /// The value when it is of a type that cannot change; letting go of one runs no code.
    value: Option<Py<PyAny>>,
}

struct Key {
    name: String,
    /// What stands before its value.
    lead: String,
    /// Its place in the object.
    place: usize,
    /// Its value, counted from the beginning of the object's text.
    start: usize,
    end: usize,
    written: Written,
    /// When the value is an object itself.
    inner: Option<Box<Shape>>,
}

impl Shape {
    /// Writes an object whose last text was `before`.
    fn write(
        &mut self,
        dict: &Bound<'_, PyDict>,
        before: &str,
        line: &mut Line,
        levels: usize,
    ) -> PyResult<Keys> {
        if let Some((changed, values)) = self.changes(dict) {
            self.write_changes(changed, &values, before, line, levels)?;
            return Ok(Keys::Same);
        }
        *self = Self::of(dict).unwrap_or_default();
        match self.changes(dict) {
            Some((_, values)) => self.write_all(&values, line, levels)?,
            None => line.dict(dict)?,
        }
        Ok(Keys::Others)
    }

    /// The shape of an object, nothing written yet; none when it is not worth it.
    fn of(dict: &Bound<'_, PyDict>) -> Option<Self> {
        if dict.len() > MOST_KEYS {
            return None;
        }
        let mut shape = Self::default();
        for (place, (key, _)) in dict.iter().enumerate() {
            let key = key.cast_into_exact::<PyString>().ok()?;
            let name = key.to_str().ok()?.to_owned();
            shape.keys.push(Key {
                name,
                lead: String::new(),
                place,
                start: 0,
                end: 0,
                written: Written::Other,
                inner: None,
            });
            shape.entries.push(Entry {
                key: key.unbind(),
                value: None,
            });
        }
        shape.keys.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for (count, key) in shape.keys.iter_mut().enumerate() {
            key.lead.push_str(if count == 0 { "{" } else { ", " });
            push_quoted(&mut key.lead, &key.name);
            key.lead.push_str(": ");
        }
        shape.telling = Telling::of(shape.keys.iter().map(|key| &*key.name));
        Some(shape)
    }

    /// Which entries are not the same objects as before, as bits, and what they are now;
    /// nothing when the keys are others.
    fn changes<'py>(&mut self, dict: &Bound<'py, PyDict>) -> Option<(u64, Vec<Bound<'py, PyAny>>)> {
        if self.entries.len() != dict.len() || self.entries.is_empty() {
            return None;
        }
        let mut changed = 0_u64;
        let mut values = Vec::with_capacity(self.entries.len());
        for (place, (entry, (key, value))) in self.entries.iter_mut().zip(dict).enumerate() {
            if !entry.key.is(&key) {
                return None;
            }
            if entry.value.as_ref().is_some_and(|last| last.is(&value)) {
                continue;
            }
            changed |= 1 << place;
            entry.value = cannot_change(&value).then(|| value.clone().unbind());
            values.push(value);
        }
        Some((changed, values))
    }

    fn write_all(
        &mut self,
        values: &[Bound<'_, PyAny>],
        line: &mut Line,
        levels: usize,
    ) -> PyResult<()> {
        let beginning = line.out.len();
        for key in &mut self.keys {
            line.out.push_str(&key.lead);
            key.write(&values[key.place], "", line, beginning, levels)?;
        }
        line.out.push('}');
        Ok(())
    }

    fn write_changes(
        &mut self,
        changed: u64,
        values: &[Bound<'_, PyAny>],
        before: &str,
        line: &mut Line,
        levels: usize,
    ) -> PyResult<()> {
        let beginning = line.out.len();
        // How much of the last text has been copied or replaced.
        let mut done = 0;
        for key in &mut self.keys {
            let (start, end) = (key.start, key.end);
            if changed >> key.place & 1 == 0 {
                key.start = line.out.len() - beginning + (start - done);
                key.end = key.start + (end - start);
                continue;
            }
            line.out.push_str(&before[done..start]);
            // Of the changed values, the one after those that the object has before it.
            let earlier = (changed & ((1 << key.place) - 1)).count_ones() as usize;
            key.write(
                &values[earlier],
                &before[start..end],
                line,
                beginning,
                levels,
            )?;
            done = end;
        }
        line.out.push_str(&before[done..]);
        Ok(())
    }

    /// The status of the collector in the text of the object, blank when there is none;
    /// nothing when the text must be read to know.
    fn status<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let key = match self.telling {
            Telling::Nothing if self.keys.is_empty() => return None,
            Telling::Nothing => return Some(b""),
            Telling::Status(place) => &self.keys[place],
            Telling::More => return None,
        };
        match key.written {
            Written::String => {
                let status = unquoted(&text[key.start..key.end]);
                (!status.contains(&b'\\')).then_some(status)
            }
            _ => Some(b""),
        }
    }
}

impl Key {
    fn write(
        &mut self,
        value: &Bound<'_, PyAny>,
        before: &str,
        line: &mut Line,
        beginning: usize,
        levels: usize,
    ) -> PyResult<()> {
        self.start = line.out.len() - beginning;
        self.written = match value.cast_exact::<PyDict>() {
            Ok(dict) if levels > 0 => {
                line.enter(value)?;
                let inner = self.inner.get_or_insert_default();
                inner.write(dict, before, line, levels - 1)?;
                line.leave();
                Written::Object
            }
            _ => {
                self.inner = None;
                line.value(value)?
            }
        };
        self.end = line.out.len() - beginning;
        Ok(())
    }
}

fn unquoted(text: &[u8]) -> &[u8] {
    &text[1..text.len() - 1]
}

/// Whether an object is of a type whose objects stay what they are.
fn cannot_change(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_none()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
}
