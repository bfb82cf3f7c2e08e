//! Converts records to lines of JSON, where each line is made by changing the line of the previous
//! record.
//!
//! Records of one program have the same keys in the same order, and most of their values, such as
//! the session and the host, are the same objects as in the previous record. An object of an
//! immutable type that occurs again has the same text, so its text stays in the line, and only the
//! text of changed values is replaced.
//!
//! The values of a record are objects of another language, such as Python, and are accessed through
//! [`Objects`].

use stormlog_format::json::push_quoted;
use stormlog_format::rollup::{MetadataContent, Numbers, Observation};
use stormlog_format::scan::{Values, fields_of};

/// The largest number of keys of an object that is compared with the previous one; an object with
/// more keys is written without a comparison.
pub const MOST_KEYS: usize = 64;

/// The depth down to which nested objects are compared with those of the last record.
const MOST_LEVELS: usize = 3;

/// The type of the JSON value that was written for an object of the other language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// `null`.
    Null,
    /// An integer that fits into 64 bits.
    Integer(i64),
    /// A text.
    String,
    /// A JSON object.
    Object,
    /// A JSON value of another type, such as a list or a floating-point number.
    Other,
}

/// The type in which the keys and values of an object are kept after its record has been written, so
/// that the next object can be compared with them.
pub trait Keeps {
    /// The keys and values of one object, kept for the comparison with the next object.
    type Memory: Default;
}

/// Writes objects of another language as JSON with sorted keys, and detects which of their values
/// are unchanged since the last record.
pub trait Objects<'o>: Keeps {
    /// A mapping from keys to values, such as a Python `dict`.
    type Object;
    /// The type of any value in a mapping.
    type Value;
    /// Why a value cannot be written as JSON.
    type Error;

    /// The buffer to which [`write`](Self::write) and [`write_object`](Self::write_object) append
    /// JSON text.
    fn text(&mut self) -> &mut String;

    /// Appends the JSON text of a value to the buffer, and returns the type of the JSON value.
    fn write(&mut self, value: &Self::Value) -> Result<Written, Self::Error>;

    /// Appends the JSON text of an object, with sorted keys, to the buffer.
    fn write_object(&mut self, object: &Self::Object) -> Result<(), Self::Error>;

    /// Called before the contents of a nested object are written; fails when the object contains
    /// itself or is nested too deeply. A call of [`leave`](Self::leave) must follow.
    fn enter(&mut self, value: &Self::Value) -> Result<(), Self::Error>;

    /// Called when the contents of the nested object that was entered last are written.
    fn leave(&mut self);

    /// The value as an object, when its type is exactly the mapping type of the other language
    /// (Python's `dict`) and not a subtype.
    fn as_object<'v>(&self, value: &'v Self::Value) -> Option<&'v Self::Object>;

    /// The value as an integer, when its type is exactly the type of integers and the number fits
    /// into 64 bits.
    fn as_integer(&self, value: &Self::Value) -> Option<i64>;

    /// The names of an object's keys in sorted order, and a [`Memory`](Keeps::Memory) in which
    /// [`take`](Self::take) stores the object's values in the same order; `None` when further
    /// objects should not be compared with this object. An object to be remembered may have at
    /// most [`MOST_KEYS`] keys.
    fn remember(&self, object: &Self::Object) -> Option<(Vec<String>, Self::Memory)>;

    /// Stores the values of an object in `memory`; returns a mask with a bit for each value, set if
    /// the value is a different object than before, or `None` when the object has different keys.
    fn take(&self, memory: &mut Self::Memory, object: &Self::Object) -> Option<u64>;

    /// The value with the given index, in sorted order of the keys, of the object that was last
    /// passed to [`take`](Self::take).
    fn value<'m>(
        &self,
        memory: &'m Self::Memory,
        object: &Self::Object,
        index: usize,
    ) -> Option<&'m Self::Value>;

    /// Forgets a value whose type is mutable, because the same object may later have a different
    /// text.
    fn settle(&self, memory: &mut Self::Memory, object: &Self::Object, index: usize);
}

/// Converts records to lines of JSON, one after another; each line is made by changing the line of
/// the previous record.
#[derive(Default)]
pub struct Lines<S: Keeps> {
    /// The JSON text of the last record, in ASCII.
    line: Vec<u8>,
    shape: Shape<S::Memory>,
    /// Holds the text of a changed value until it is copied into the line.
    piece: S,
    /// For each key of the record in sorted order, the index of the key in
    /// [`FIELDS`](stormlog_format::FIELDS); `None` when the record's keys are not those of a
    /// telemetry record.
    fields: Option<Vec<usize>>,
    /// The numbers of the last record. For the next record,
    /// [`observe_numbers`](Self::observe_numbers) replaces only the numbers that have changed.
    /// `None` when the next record must be examined as a whole.
    numbers: Option<Numbers>,
    observation: Option<Observation>,
}

/// What the line of a record shows about the record's session.
#[derive(Debug, PartialEq, Eq)]
pub enum Named<'l> {
    /// The record contains no session id, or `null`.
    Nothing,
    /// The line contains this session id. The bytes are encoded like those of a
    /// [`Text`](stormlog_format::Text).
    Session(&'l [u8]),
    /// The line does not show the session id, so the record itself must be read.
    Unclear,
}

impl<S: Keeps + Default> Lines<S> {
    /// Writes the line of a record; if the record has the same keys as the previous one, only
    /// changed values are replaced in the line.
    pub fn take<'o>(&mut self, record: &S::Object) -> Result<(), S::Error>
    where
        S: Objects<'o>,
    {
        let keys = self.write(record);
        self.finish(keys)
    }

    /// Writes the line of a record that is not compared with the next record.
    pub fn take_alone<'o>(&mut self, record: &S::Object) -> Result<(), S::Error>
    where
        S: Objects<'o>,
    {
        self.shape = Shape::default();
        self.fields = None;
        self.piece.text().clear();
        let written = self.piece.write_object(record);
        self.take_piece_as_line();
        self.finish(written.map(|()| Keys::Others))
    }

    fn finish<E>(&mut self, keys: Result<Keys, E>) -> Result<(), E> {
        match keys {
            Ok(keys) => {
                self.observation = self.observe(keys);
                Ok(())
            }
            Err(error) => {
                // After an error the line contains parts of two records, so all state is reset.
                *self = Self::default();
                Err(error)
            }
        }
    }

    /// The JSON text of the record that was last passed to [`take`](Self::take).
    pub fn line(&self) -> &str {
        std::str::from_utf8(&self.line).unwrap_or_default()
    }

    /// What a rollup needs from the record that was last passed to [`take`](Self::take). `None`
    /// when the rollup must parse the line, and when this method is called again for the same
    /// record.
    pub fn observation(&mut self) -> Option<Observation> {
        self.observation.take()
    }

    /// The session of the record that was last passed to [`take`](Self::take).
    pub fn session(&self) -> Named<'_> {
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

    fn write<'o>(&mut self, record: &S::Object) -> Result<Keys, S::Error>
    where
        S: Objects<'o>,
    {
        if let Some(changed) = self.piece.take(&mut self.shape.memory, record) {
            let mut place = Place {
                line: &mut self.line,
                piece: &mut self.piece,
                beginning: 0,
                levels: MOST_LEVELS,
            };
            self.shape.patch(record, changed, &mut place)?;
            return Ok(Keys::Same { changed });
        }
        self.piece.text().clear();
        self.shape = Shape::begin(record, &mut self.piece, MOST_LEVELS)?;
        self.take_piece_as_line();
        self.fields = fields_of(self.shape.keys.iter().map(|key| &*key.name));
        Ok(Keys::Others)
    }

    fn take_piece_as_line<'o>(&mut self)
    where
        S: Objects<'o>,
    {
        self.line.clear();
        self.line.extend_from_slice(self.piece.text().as_bytes());
    }

    fn observe(&mut self, keys: Keys) -> Option<Observation> {
        let seen = match keys {
            Keys::Same { changed } => self.observe_numbers(changed),
            Keys::Others => None,
        };
        seen.or_else(|| {
            // The stored numbers may come from a record with different content, so they are no
            // longer valid.
            self.numbers = None;
            self.observe_all()
        })
    }

    /// What a rollup needs from a record that differs from the last record only in its numbers.
    fn observe_numbers(&mut self, changed: u64) -> Option<Observation> {
        let (numbers, fields) = (self.numbers.as_mut()?, self.fields.as_ref()?);
        let keys = &self.shape.keys;
        let alone = set_bits(changed).all(|index| match keys[index].written {
            Written::Null => numbers.set(fields[index], None),
            Written::Integer(value) => numbers.set(fields[index], Some(value)),
            Written::Object => {
                let inner = keys[index].inner.as_ref();
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

/// The keys of an object and the text that was last written for each key.
#[derive(Default)]
struct Shape<M> {
    /// The keys of the object, in the order in which the line contains them.
    keys: Vec<Key<M>>,
    memory: M,
    content: MetadataContent,
    /// Whether all that a rollup needs from the object is the same as in the previous object, as
    /// `has_same_content` determines it.
    keeps_content: bool,
}

/// Whether an object has the same keys as the previous object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// The keys of both objects are the same; `changed` has a bit for each key with a changed
    /// value, in the order of the line.
    Same {
        changed: u64,
    },
    Others,
}

struct Key<M> {
    name: String,
    /// Where the value of the key begins, counted from the beginning of the object's text.
    start: usize,
    end: usize,
    written: Written,
    /// The keys and texts inside the value, when the value itself is an object.
    inner: Option<Box<Shape<M>>>,
}

/// The position of an object in a line while the values of the object are replaced.
struct Place<'l, S> {
    line: &'l mut Vec<u8>,
    piece: &'l mut S,
    /// Where the object begins in the line.
    beginning: usize,
    /// How many levels of nested objects may still be compared.
    levels: usize,
}

impl<S> Place<'_, S> {
    /// Replaces the bytes from `start` to `end` of the line, counted from the beginning of the
    /// object.
    fn replace(&mut self, start: usize, end: usize, text: &[u8]) {
        let (start, end) = (self.beginning + start, self.beginning + end);
        if text.len() == end - start {
            self.line[start..end].copy_from_slice(text);
        } else {
            self.line.splice(start..end, text.iter().copied());
        }
    }
}

impl<M: Default> Shape<M> {
    /// Writes an object that has different keys than the previous object, and returns its shape,
    /// which is empty when the object should not be remembered.
    fn begin<'o, S>(object: &S::Object, piece: &mut S, levels: usize) -> Result<Self, S::Error>
    where
        S: Objects<'o, Memory = M>,
    {
        let mut shape = Self::of(object, piece).unwrap_or_default();
        match piece.take(&mut shape.memory, object) {
            Some(_) => shape.write_all(object, piece, levels)?,
            None => piece.write_object(object)?,
        }
        Ok(shape)
    }

    /// The shape of an object before its values are written: it has the keys, but no text for them
    /// yet. `None` when the object should not be remembered.
    fn of<'o, S>(object: &S::Object, piece: &S) -> Option<Self>
    where
        S: Objects<'o, Memory = M>,
    {
        let (names, memory) = piece.remember(object)?;
        let content = MetadataContent::of(names.iter().map(|name| &**name));
        let keys = names.into_iter().map(|name| Key {
            name,
            start: 0,
            end: 0,
            written: Written::Other,
            inner: None,
        });
        Some(Self {
            keys: keys.collect(),
            memory,
            content,
            keeps_content: false,
        })
    }

    fn write_all<'o, S>(
        &mut self,
        object: &S::Object,
        piece: &mut S,
        levels: usize,
    ) -> Result<(), S::Error>
    where
        S: Objects<'o, Memory = M>,
    {
        let beginning = piece.text().len();
        for (index, key) in self.keys.iter_mut().enumerate() {
            let out = piece.text();
            out.push_str(if index == 0 { "{" } else { ", " });
            push_quoted(out, &key.name);
            out.push_str(": ");
            if let Some(value) = piece.value(&self.memory, object, index) {
                key.write(value, piece, beginning, levels)?;
            }
            piece.settle(&mut self.memory, object, index);
        }
        piece.text().push('}');
        Ok(())
    }

    /// Replaces the text of the changed values of an object, and returns by how many bytes the
    /// object's text has grown.
    fn patch<'o, S>(
        &mut self,
        object: &S::Object,
        changed: u64,
        place: &mut Place<'_, S>,
    ) -> Result<isize, S::Error>
    where
        S: Objects<'o, Memory = M>,
    {
        self.keeps_content = self.has_same_content(changed);
        let mut grown = 0;
        for index in set_bits(changed) {
            let Some(value) = place.piece.value(&self.memory, object, index) else {
                continue;
            };
            let key = &mut self.keys[index];
            let growth = if let Some(growth) = key.patch_integer(value, place) {
                growth
            } else {
                let growth = key.patch(value, place)?;
                place.piece.settle(&mut self.memory, object, index);
                growth
            };
            if growth != 0 {
                for key in &mut self.keys[index + 1..] {
                    key.start = key.start.saturating_add_signed(growth);
                    key.end = key.end.saturating_add_signed(growth);
                }
                grown += growth;
            }
        }
        Ok(grown)
    }

    /// Whether all that a rollup needs from a metadata object is the same as in the previous
    /// object: the rollup needs nothing from the object, or only the collector's status, which has
    /// not changed. The bits of `changed` mark the values that have changed.
    fn has_same_content(&self, changed: u64) -> bool {
        match self.content {
            MetadataContent::Nothing => !self.keys.is_empty(),
            MetadataContent::Status(index) => changed >> index & 1 == 0,
            MetadataContent::More => false,
        }
    }

    /// The collector's status in a metadata object whose JSON text is in `text`. The status is
    /// empty if the object has none or it is not a string. Returns `None` when the JSON text must
    /// be parsed to find the status.
    fn status<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let key = match self.content {
            MetadataContent::Nothing if self.keys.is_empty() => return None,
            MetadataContent::Nothing => return Some(b""),
            MetadataContent::Status(index) => &self.keys[index],
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

impl<M: Default> Key<M> {
    /// Writes the value of a key when no text of an earlier line can be reused for it.
    fn write<'o, S>(
        &mut self,
        value: &S::Value,
        piece: &mut S,
        beginning: usize,
        levels: usize,
    ) -> Result<(), S::Error>
    where
        S: Objects<'o, Memory = M>,
    {
        self.start = piece.text().len() - beginning;
        self.inner = None;
        self.written = match piece.as_object(value) {
            Some(object) if levels > 0 => {
                piece.enter(value)?;
                self.inner = Some(Box::new(Shape::begin(object, piece, levels - 1)?));
                piece.leave();
                Written::Object
            }
            _ => piece.write(value)?,
        };
        self.end = piece.text().len() - beginning;
        Ok(())
    }

    /// Replaces the text of a value if the new value is an integer, and returns by how many bytes
    /// the text has grown; `None` for another type. Integers have this faster function because most
    /// values that change between records are integers.
    fn patch_integer<'o, S>(&mut self, value: &S::Value, place: &mut Place<'_, S>) -> Option<isize>
    where
        S: Objects<'o, Memory = M>,
    {
        let integer = place.piece.as_integer(value)?;
        let mut digits = itoa::Buffer::new();
        let text = digits.format(integer);
        let (start, end) = (self.start, self.end);
        place.replace(start, end, text.as_bytes());
        self.end = start + text.len();
        self.written = Written::Integer(integer);
        self.inner = None;
        Some(self.end.cast_signed() - end.cast_signed())
    }

    /// Replaces the text of a value, and returns by how many bytes the text has grown.
    fn patch<'o, S>(
        &mut self,
        value: &S::Value,
        place: &mut Place<'_, S>,
    ) -> Result<isize, S::Error>
    where
        S: Objects<'o, Memory = M>,
    {
        let (start, end) = (self.start, self.end);
        if let Some(inner) = &mut self.inner
            && let Some(object) = place.piece.as_object(value)
            && let Some(changed) = place.piece.take(&mut inner.memory, object)
        {
            place.piece.enter(value)?;
            let mut inside = Place {
                line: &mut *place.line,
                piece: &mut *place.piece,
                beginning: place.beginning + start,
                levels: place.levels - 1,
            };
            let growth = inner.patch(object, changed, &mut inside)?;
            place.piece.leave();
            self.end = end.saturating_add_signed(growth);
            return Ok(growth);
        }
        place.piece.text().clear();
        self.write(value, place.piece, 0, place.levels)?;
        let length = self.end;
        let text = std::mem::take(place.piece.text());
        place.replace(start, end, text.as_bytes());
        *place.piece.text() = text;
        (self.start, self.end) = (start, start + length);
        Ok(length.cast_signed() - (end - start).cast_signed())
    }
}

/// The indexes of the bits that are set, the lowest first.
fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (index < u64::BITS).then_some(index as usize)
    })
}

fn unquoted(text: &[u8]) -> &[u8] {
    &text[1..text.len() - 1]
}

#[cfg(test)]
mod tests;
