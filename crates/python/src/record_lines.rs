//! Records to lines, each written over the line of the record before it.
//!
//! Records of one program have the same keys in the same order, and most of their values are
//! the very objects of the record before: its session, its host, `None`. What is the same
//! object of a type that cannot change has the same text, so it stays in the line, and only
//! what is new is put in the place of what was there.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyMapping, PyString};
use stormlog_format::json::push_quoted;
use stormlog_format::rollup::{MetadataContent, Numbers, Observation};
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
    /// The last line, in ASCII.
    line: Vec<u8>,
    shape: Shape,
    /// Where the text of a value is made that is not in the line yet.
    piece: Line,
    /// The fields that the sorted keys are, when they are those of a telemetry record.
    fields: Option<Vec<usize>>,
    /// Of the last record, when the next may differ in its numbers alone.
    numbers: Option<Numbers>,
    observation: Option<Observation>,
}

/// The session of a record, as far as its line names it.
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
        match self.write(record) {
            Ok(keys) => {
                self.observation = self.observe(keys);
                Ok(())
            }
            Err(error) => {
                // The line is part of one record and part of another now.
                *self = Self::default();
                Err(error)
            }
        }
    }

    /// The line of the record taken last.
    pub(crate) fn line(&self) -> &str {
        std::str::from_utf8(&self.line).unwrap_or_default()
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
        let text = &self.line[key.start..key.end];
        match key.written {
            Written::Null => Named::Nothing,
            Written::String if !text.contains(&b'\\') => Named::Session(unquoted(text)),
            _ => Named::Unclear,
        }
    }

    fn write(&mut self, record: &Bound<'_, PyAny>) -> PyResult<Keys> {
        let Ok(dict) = record.cast_exact::<PyDict>() else {
            let dict = PyDict::new(record.py());
            dict.update(record.cast::<PyMapping>()?)?;
            self.shape = Shape::default();
            self.fields = None;
            self.piece.clear();
            self.piece.dict(&dict)?;
            self.take_piece_as_line();
            return Ok(Keys::Others);
        };
        if let Some(changed) = self.shape.entries.take(dict) {
            let mut place = Place {
                line: &mut self.line,
                piece: &mut self.piece,
                beginning: 0,
                levels: MOST_LEVELS,
            };
            self.shape.patch(dict.py(), changed, &mut place)?;
            return Ok(Keys::Same { changed });
        }
        self.piece.clear();
        self.shape = Shape::begin(dict, &mut self.piece, MOST_LEVELS)?;
        self.take_piece_as_line();
        self.fields = fields_of(self.shape.keys.iter().map(|key| &*key.name));
        Ok(Keys::Others)
    }

    fn take_piece_as_line(&mut self) {
        self.line.clear();
        self.line.extend_from_slice(self.piece.out.as_bytes());
    }

    fn observe(&mut self, keys: Keys) -> Option<Observation> {
        let seen = match keys {
            Keys::Same { changed } => self.observe_numbers(changed),
            Keys::Others => None,
        };
        seen.or_else(|| {
            // Some of them may have been taken from a record with more content.
            self.numbers = None;
            self.observe_all()
        })
    }

    /// The observation of a record that differs from the last one only in its numbers.
    fn observe_numbers(&mut self, changed: u64) -> Option<Observation> {
        let (numbers, fields) = (self.numbers.as_mut()?, self.fields.as_ref()?);
        let keys = &self.shape.keys;
        let alone = places(changed).all(|place| match keys[place].written {
            Written::Null => numbers.set(fields[place], None),
            Written::Integer(value) => numbers.set(fields[place], Some(value)),
            Written::Object => {
                let inner = keys[place].inner.as_ref();
                inner.is_some_and(|inner| inner.keeps_content)
            }
            _ => false,
        });
        numbers.observation().filter(|_| alone)
    }

    fn observe_all(&mut self) -> Option<Observation> {
        let mut values = Values::default();
        let mut status = None;
        for (key, field) in self.shape.keys.iter().zip(self.fields.as_ref()?) {
            let text = &self.line[key.start..key.end];
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
    entries: Entries,
    content: MetadataContent,
    /// Whether the last object has the same content for a rollup as the one before it.
    keeps_content: bool,
}

/// Whether an object had the keys of the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// It had, and the values of these keys, as bits in the order of the line, are others.
    Same {
        changed: u64,
    },
    Others,
}

struct Key {
    name: String,
    /// Its value, counted from the beginning of the object's text.
    start: usize,
    end: usize,
    written: Written,
    /// When the value is an object itself.
    inner: Option<Box<Shape>>,
}

/// An object in a line that is being changed.
struct Place<'l> {
    line: &'l mut Vec<u8>,
    piece: &'l mut Line,
    /// Where the object begins in the line.
    beginning: usize,
    /// How many objects inside of one another may still be compared.
    levels: usize,
}

impl Place<'_> {
    /// Puts a text in the place of what the object has from `start` to `end`.
    fn replace(&mut self, start: usize, end: usize, text: &[u8]) {
        let (start, end) = (self.beginning + start, self.beginning + end);
        if text.len() == end - start {
            self.line[start..end].copy_from_slice(text);
        } else {
            self.line.splice(start..end, text.iter().copied());
        }
    }
}

impl Shape {
    /// Writes an object that has other keys than the one before it, and gives its shape: a
    /// blank one when remembering it is not worth it.
    fn begin(dict: &Bound<'_, PyDict>, line: &mut Line, levels: usize) -> PyResult<Self> {
        let mut shape = Self::of(dict).unwrap_or_default();
        match shape.entries.take(dict) {
            Some(_) => shape.write_all(dict.py(), line, levels)?,
            None => line.dict(dict)?,
        }
        Ok(shape)
    }

    /// The shape of an object, nothing written yet; none when it is not worth it.
    fn of(dict: &Bound<'_, PyDict>) -> Option<Self> {
        if dict.len() > MOST_KEYS {
            return None;
        }
        let mut names = Vec::with_capacity(dict.len());
        for (count, (key, _)) in dict.iter().enumerate() {
            let key = key.cast_into_exact::<PyString>().ok()?;
            names.push((key.to_str().ok()?.to_owned(), count, key));
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut shape = Self {
            entries: Entries::of(names.iter().map(|(_, count, key)| (*count, key))),
            content: MetadataContent::of(names.iter().map(|(name, ..)| &**name)),
            ..Self::default()
        };
        shape.keys.extend(names.into_iter().map(|(name, ..)| Key {
            name,
            start: 0,
            end: 0,
            written: Written::Other,
            inner: None,
        }));
        Some(shape)
    }

    fn write_all(&mut self, py: Python<'_>, line: &mut Line, levels: usize) -> PyResult<()> {
        let beginning = line.out.len();
        for (place, key) in self.keys.iter_mut().enumerate() {
            line.out.push_str(if place == 0 { "{" } else { ", " });
            push_quoted(&mut line.out, &key.name);
            line.out.push_str(": ");
            if let Some(value) = self.entries.value(py, place) {
                key.write(value, line, beginning, levels)?;
            }
            self.entries.settle(py, place);
        }
        line.out.push('}');
        Ok(())
    }

    /// Writes the values that changed over the last object's, and returns by how much the text
    /// has grown.
    fn patch(&mut self, py: Python<'_>, changed: u64, place: &mut Place<'_>) -> PyResult<isize> {
        self.keeps_content = self.has_same_content(changed);
        let mut grown = 0;
        for number in places(changed) {
            let Some(value) = self.entries.value(py, number) else {
                continue;
            };
            let key = &mut self.keys[number];
            let growth = if let Some(growth) = key.patch_integer(value, place) {
                growth
            } else {
                let growth = key.patch(value, place)?;
                self.entries.settle(py, number);
                growth
            };
            if growth != 0 {
                for key in &mut self.keys[number + 1..] {
                    key.start = key.start.saturating_add_signed(growth);
                    key.end = key.end.saturating_add_signed(growth);
                }
                grown += growth;
            }
        }
        Ok(grown)
    }

    /// Whether an object with these changes has the same content for a rollup as the one before it.
    fn has_same_content(&self, changed: u64) -> bool {
        match self.content {
            MetadataContent::Nothing => !self.keys.is_empty(),
            MetadataContent::Status(place) => changed >> place & 1 == 0,
            MetadataContent::More => false,
        }
    }

    /// The status of the collector in the text of the object, blank when there is none;
    /// nothing when the text must be read to know.
    fn status<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let key = match self.content {
            MetadataContent::Nothing if self.keys.is_empty() => return None,
            MetadataContent::Nothing => return Some(b""),
            MetadataContent::Status(place) => &self.keys[place],
            MetadataContent::More => return None,
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
    /// Writes the value of a key that the line had no value for.
    fn write(
        &mut self,
        value: &Bound<'_, PyAny>,
        line: &mut Line,
        beginning: usize,
        levels: usize,
    ) -> PyResult<()> {
        self.start = line.out.len() - beginning;
        self.inner = None;
        self.written = match value.cast_exact::<PyDict>() {
            Ok(dict) if levels > 0 => {
                line.enter(value)?;
                self.inner = Some(Box::new(Shape::begin(dict, line, levels - 1)?));
                line.leave();
                Written::Object
            }
            _ => line.value(value)?,
        };
        self.end = line.out.len() - beginning;
        Ok(())
    }

    /// Writes an integer over the last value, and returns by how much the text has grown. Most
    /// of what changes from record to record are integers, which never change themselves.
    fn patch_integer(&mut self, value: &Bound<'_, PyAny>, place: &mut Place<'_>) -> Option<isize> {
        let integer = value.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()?;
        let mut digits = itoa::Buffer::new();
        let text = digits.format(integer);
        let (start, end) = (self.start, self.end);
        place.replace(start, end, text.as_bytes());
        self.end = start + text.len();
        self.written = Written::Integer(integer);
        self.inner = None;
        Some(self.end.cast_signed() - end.cast_signed())
    }

    /// Writes the value over the last one, and returns by how much the text has grown.
    fn patch(&mut self, value: &Bound<'_, PyAny>, place: &mut Place<'_>) -> PyResult<isize> {
        let (start, end) = (self.start, self.end);
        if let Some(inner) = &mut self.inner
            && let Ok(dict) = value.cast_exact::<PyDict>()
            && let Some(changed) = inner.entries.take(dict)
        {
            place.piece.enter(value)?;
            let mut inside = Place {
                line: &mut *place.line,
                piece: &mut *place.piece,
                beginning: place.beginning + start,
                levels: place.levels - 1,
            };
            let growth = inner.patch(value.py(), changed, &mut inside)?;
            place.piece.leave();
            self.end = end.saturating_add_signed(growth);
            return Ok(growth);
        }
        place.piece.clear();
        self.write(value, place.piece, 0, place.levels)?;
        let length = self.end;
        let text = std::mem::take(&mut place.piece.out);
        place.replace(start, end, text.as_bytes());
        place.piece.out = text;
        (self.start, self.end) = (start, start + length);
        Ok(length.cast_signed() - (end - start).cast_signed())
    }
}

/// The numbers of the bits that are set, the lowest first.
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (place < u64::BITS).then_some(place as usize)
    })
}

fn unquoted(text: &[u8]) -> &[u8] {
    &text[1..text.len() - 1]
}
