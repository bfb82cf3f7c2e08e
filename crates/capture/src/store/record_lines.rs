//! Records to lines, each written over the line of the record before it.
//!
//! Records of one program have the same keys in the same order, and most of their values are
//! the very objects of the record before: its session, its host, nothing. What is the same
//! object of a type that cannot change has the same text, so it stays in the line, and only
//! what is new is put in the place of what was there.
//!
//! The objects are those of another language, behind [`Objects`].

use stormlog_format::json::push_quoted;
use stormlog_format::rollup::{MetadataContent, Numbers, Observation};
use stormlog_format::scan::{Values, fields_of};

/// Objects with more keys than this are written without looking at the one before.
pub const MOST_KEYS: usize = 64;

/// Objects inside of one another that are compared with those of the last record.
const MOST_LEVELS: usize = 3;

/// What was written for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// `null`.
    Null,
    /// An integer that fits.
    Integer(i64),
    /// A text.
    String,
    /// An object.
    Object,
    /// Anything else.
    Other,
}

/// What is kept of an object when its record is gone: its keys and its values.
pub trait Keeps {
    /// One object's.
    type Memory: Default;
}

/// Writes objects of another language as JSON with sorted keys, and knows which of their values are
/// the same as before.
pub trait Objects<'o>: Keeps {
    /// A mapping.
    type Object;
    /// Anything that a mapping holds.
    type Value;
    /// Why something cannot be written.
    type Error;

    /// The text that is being written.
    fn text(&mut self) -> &mut String;

    /// Writes a value.
    fn write(&mut self, value: &Self::Value) -> Result<Written, Self::Error>;

    /// Writes an object.
    fn write_object(&mut self, object: &Self::Object) -> Result<(), Self::Error>;

    /// Goes into a value that is an object; [`leave`](Self::leave) must follow.
    fn enter(&mut self, value: &Self::Value) -> Result<(), Self::Error>;

    /// Comes out of the object entered last.
    fn leave(&mut self);

    /// The value as an object, when it is exactly one.
    fn as_object<'v>(&self, value: &'v Self::Value) -> Option<&'v Self::Object>;

    /// The value as an integer, when it is exactly one and fits.
    fn as_integer(&self, value: &Self::Value) -> Option<i64>;

    /// The names of an object's keys in sorted order, and memory for its values by their index in
    /// that order; nothing when comparing further objects with it is not worth it. At most
    /// [`MOST_KEYS`].
    fn remember(&self, object: &Self::Object) -> Option<(Vec<String>, Self::Memory)>;

    /// Takes the values of an object; gives those that are not the very values of before as bits, or
    /// nothing when its keys are others.
    fn take(&self, memory: &mut Self::Memory, object: &Self::Object) -> Option<u64>;

    /// A value of the object taken last that has changed.
    fn value<'m>(
        &self,
        memory: &'m Self::Memory,
        object: &Self::Object,
        index: usize,
    ) -> Option<&'m Self::Value>;

    /// Forgets a value when a later one may be the same and yet have another text.
    fn settle(&self, memory: &mut Self::Memory, object: &Self::Object, index: usize);
}

/// Turns records into lines.
pub struct Lines<S: Keeps> {
    /// The last line, in ASCII.
    line: Vec<u8>,
    shape: Shape<S::Memory>,
    /// Where the text of a value is made that is not in the line yet.
    piece: S,
    /// The fields that the sorted keys are, when they are those of a telemetry record.
    fields: Option<Vec<usize>>,
    /// Of the last record, when the next may differ in its numbers alone.
    numbers: Option<Numbers>,
    observation: Option<Observation>,
}

impl<S: Keeps + Default> Default for Lines<S> {
    fn default() -> Self {
        Self {
            line: Vec::new(),
            shape: Shape::default(),
            piece: S::default(),
            fields: None,
            numbers: None,
            observation: None,
        }
    }
}

/// The session of a record, as far as its line names it.
#[derive(Debug, PartialEq, Eq)]
pub enum Named<'l> {
    /// None.
    Nothing,
    /// This one, as the bytes of [`Text`](stormlog_format::Text).
    Session(&'l [u8]),
    /// The record must be asked.
    Unclear,
}

impl<S: Keeps + Default> Lines<S> {
    /// Writes the line of a record, over that of the record before where their keys are the same.
    pub fn take<'o>(&mut self, record: &S::Object) -> Result<(), S::Error>
    where
        S: Objects<'o>,
    {
        let keys = self.write(record);
        self.finish(keys)
    }

    /// Writes the line of a record that the next one is not compared with.
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
                // The line is part of one record and part of another now.
                *self = Self::default();
                Err(error)
            }
        }
    }

    /// The line of the record taken last.
    pub fn line(&self) -> &str {
        std::str::from_utf8(&self.line).unwrap_or_default()
    }

    /// What a rollup needs to know of that record, where it is plain to see.
    pub fn observation(&mut self) -> Option<Observation> {
        self.observation.take()
    }

    /// The session that it names.
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
            // Some of them may have been taken from a record with more content.
            self.numbers = None;
            self.observe_all()
        })
    }

    /// The observation of a record that differs from the last one only in its numbers.
    fn observe_numbers(&mut self, changed: u64) -> Option<Observation> {
        let (numbers, fields) = (self.numbers.as_mut()?, self.fields.as_ref()?);
        let keys = &self.shape.keys;
        let alone = places(changed).all(|index| match keys[index].written {
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

/// The keys of an object and what was last written for them.
struct Shape<M> {
    /// In the order in which a line has them.
    keys: Vec<Key<M>>,
    memory: M,
    content: MetadataContent,
    /// Whether the last object has the same content for a rollup as the one before it.
    keeps_content: bool,
}

impl<M: Default> Default for Shape<M> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            memory: M::default(),
            content: MetadataContent::default(),
            keeps_content: false,
        }
    }
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

struct Key<M> {
    name: String,
    /// Its value, counted from the beginning of the object's text.
    start: usize,
    end: usize,
    written: Written,
    /// When the value is an object itself.
    inner: Option<Box<Shape<M>>>,
}

/// An object in a line that is being changed.
struct Place<'l, S> {
    line: &'l mut Vec<u8>,
    piece: &'l mut S,
    /// Where the object begins in the line.
    beginning: usize,
    /// How many objects inside of one another may still be compared.
    levels: usize,
}

impl<S> Place<'_, S> {
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

impl<M: Default> Shape<M> {
    /// Writes an object that has other keys than the one before it, and gives its shape: a
    /// blank one when remembering it is not worth it.
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

    /// The shape of an object, nothing written yet; none when it is not worth it.
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

    /// Writes the values that changed over the last object's, and returns by how much the text
    /// has grown.
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
        for index in places(changed) {
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

impl<M: Default> Key<M> {
    /// Writes the value of a key that the line had no value for.
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

    /// Writes an integer over the last value, and returns by how much the text has grown. Most
    /// of what changes from record to record are integers, which never change themselves.
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

    /// Writes the value over the last one, and returns by how much the text has grown.
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

/// The numbers of the bits that are set, the lowest first.
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
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
