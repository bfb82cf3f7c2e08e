//! Records to lines, with what the last one had in common with this one taken from its line.
//!
//! Records of one program have the same keys in the same order, and most of their values are
//! the very objects of the record before: its session, its host, `None`. What is the same
//! object of a type that cannot change has the same text, so whole stretches of the last line
//! are copied and only what is new is written.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use stormlog_format::json::push_quoted;
use stormlog_format::rollup::{Numbers, Observation, Telling};
use stormlog_format::scan::{Values, fields_of};

use crate::dict_entries::Entries;
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
    /// Of the last record, when the next may differ in its numbers alone.
    numbers: Option<Numbers>,
    observation: Option<Observation>,
}

/// The session that a record names, as far as its line tells.
pub(crate) enum Named<'l> {
    /// None.
    Nothing,
    /// This one, as the bytes of [`Text`](stormlog_format::Text).
    Session(&'l [u8]),
    /// The record must be asked.
    Unclear,
}

impl Lines {
    /// Writes the line of a record, which may be any mapping.
    pub(crate) fn take(&mut self, record: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut line = Line::reusing(std::mem::take(&mut self.spare));
        let written = self.write(record, &mut line);
        self.spare = std::mem::replace(&mut self.line, line.out);
        match written {
            Ok(keys) => {
                self.observation = self.observe(keys);
                Ok(())
            }
            Err(error) => {
                self.shape = Shape::default();
                Err(error)
            }
        }
    }

    /// The line of the record taken last.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// What a rollup needs to know of that record, where it is plain to see.
    pub(crate) fn observation(&mut self) -> Option<Observation> {
        self.observation.take()
    }

    /// The session that it names.
    pub(crate) fn session(&self) -> Named<'_> {
        if self.shape.keys.is_empty() {
            return Named::Unclear;
        }
        let mut keys = self.shape.keys.iter();
        let Some(key) = keys.rfind(|key| key.name == "session_id") else {
            return Named::Nothing;
        };
        let text = &self.line.as_bytes()[key.start..key.end];
        match key.written {
            Written::Null => Named::Nothing,
            Written::String if !text.contains(&b'\\') => Named::Session(unquoted(text)),
            _ => Named::Unclear,
        }
    }

    fn write(&mut self, record: &Bound<'_, PyAny>, line: &mut Line) -> PyResult<Keys> {
        let Ok(dict) = record.cast_exact::<PyDict>() else {
            let dict = PyDict::new(record.py());
            dict.update(record.cast::<PyMapping>()?)?;
            self.shape = Shape::default();
            self.fields = None;
            line.dict(&dict)?;
            return Ok(Keys::Others);
        };
        let keys = self.shape.write(dict, &self.line, line, MOST_LEVELS)?;
        if keys == Keys::Others {
            self.fields = fields_of(self.shape.keys.iter().map(|key| &*key.name));
        }
        Ok(keys)
    }

    fn observe(&mut self, keys: Keys) -> Option<Observation> {
        if let (Keys::Same { changed }, Some(mut numbers)) = (keys, self.numbers.take())
            && self.changes_numbers_alone(changed, &mut numbers)
            && let Some(observation) = numbers.observation()
        {
            self.numbers = Some(numbers);
            return Some(observation);
        }
        self.observe_all()
    }

    /// Whether nothing else changed that a rollup looks at; the numbers are taken.
    fn changes_numbers_alone(&self, changed: u64, numbers: &mut Numbers) -> bool {
        let mut entries = self.shape.keys.iter().zip(self.fields.iter().flatten());
        entries.all(|(key, field)| match key.written {
            _ if changed >> key.place & 1 == 0 => true,
            Written::Null => numbers.set(*field, None),
            Written::Integer(value) => numbers.set(*field, Some(value)),
            Written::Object => key.inner.as_ref().is_some_and(|inner| inner.keeps_telling),
            _ => false,
        })
    }

    fn observe_all(&mut self) -> Option<Observation> {
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
        let observation = match status {
            Some(status) => Observation::of_raw_with_status(&record, status),
            None => Observation::of_raw(&record),
        };
        let may_repeat = status.is_some() && observation.incident.is_none();
        self.numbers = may_repeat.then(|| Numbers::of(&record, &observation));
        Some(observation)
    }
}

/// The keys of an object and what was last written for them.
#[derive(Default)]
struct Shape {
    /// In the order in which a line has them.
    keys: Vec<Key>,
    /// In the order in which the object has them.
    entries: Entries,
    telling: Telling,
    /// Whether what the last object told a rollup is what the one before it told.
    keeps_telling: bool,
}

/// Whether an object had the keys of the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// It had, and the entries at these places, as bits, are others.
    Same {
        changed: u64,
    },
    Others,
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
        if let Some(changed) = self.entries.take(dict) {
            self.keeps_telling = self.keeps_what_it_tells(changed);
            self.write_changes(dict.py(), changed, before, line, levels)?;
            return Ok(Keys::Same { changed });
        }
        *self = Self::of(dict).unwrap_or_default();
        match self.entries.take(dict) {
            Some(_) => self.write_all(dict.py(), line, levels)?,
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
            shape.entries.expect(key);
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

    fn write_all(&mut self, py: Python<'_>, line: &mut Line, levels: usize) -> PyResult<()> {
        let beginning = line.out.len();
        for key in &mut self.keys {
            line.out.push_str(&key.lead);
            if let Some(value) = self.entries.value(py, key.place) {
                key.write(value, "", line, beginning, levels)?;
            }
            self.entries.settle(py, key.place);
        }
        line.out.push('}');
        Ok(())
    }

    fn write_changes(
        &mut self,
        py: Python<'_>,
        changed: u64,
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
            if let Some(value) = self.entries.value(py, key.place) {
                key.write(value, &before[start..end], line, beginning, levels)?;
            }
            self.entries.settle(py, key.place);
            done = end;
        }
        line.out.push_str(&before[done..]);
        Ok(())
    }

    /// Whether an object with these changes tells a rollup what the one before it told.
    fn keeps_what_it_tells(&self, changed: u64) -> bool {
        match self.telling {
            Telling::Nothing => !self.keys.is_empty(),
            Telling::Status(place) => changed >> self.keys[place].place & 1 == 0,
            Telling::More => false,
        }
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
