//! Reads a JSON document with events: a list, an object with a list, or one record.

use std::path::Path;

use stormlog_format::json::{JsonError, RawString, Reader, parse, parse_record};
use stormlog_format::scan::Scanner;
use stormlog_format::{RECORD_KEYS, RecordDefaults, Value, event_from_record};

use super::list::{self, Outcome};
use super::sessions::ReadParts;
use super::{LoadOptions, OnError};
use crate::bytes::{LONGEST_DOCUMENT, read_document};
use crate::columns::{Chunk, ChunkBuilder};
use crate::damage::{Damage, DamageList, LineCounter};
use crate::load_error::LoadError;

/// Largest initial capacity of a chunk (a block of event columns), in rows.
const ROOM: usize = 1 << 16;

/// The offset at which a JSON value starts in the text.
type Place = usize;

/// Reads a JSON document with events: a list is read record by record, any other document at once.
pub(crate) fn read(
    path: &Path,
    file: &Path,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    let key = options.events_key.as_deref().filter(|key| !key.is_empty());
    let defaults = options.defaults_of(path, key.unwrap_or("json"));
    let damage = match list::read(file, &defaults, options, take)? {
        Outcome::Read(damage) => damage,
        Outcome::NotAList => whole(file, &defaults, options, take)?,
        // The list has a syntax error. The document is read again as a whole, so that the error
        // message is the same as for a document that is not a list.
        Outcome::Surprised(reason) => {
            if file
                .metadata()
                .is_ok_and(|facts| facts.len() > LONGEST_DOCUMENT)
            {
                let source = std::io::Error::other(reason);
                let file = file.into();
                return Err(LoadError::Io { file, source });
            }
            whole(file, &defaults, options, &mut |_| {})?;
            let source = std::io::Error::other("the file changed while it was read");
            return Err(LoadError::Io {
                file: file.into(),
                source,
            });
        }
    };
    Ok(ReadParts::of_file(path, damage))
}

fn whole(
    file: &Path,
    defaults: &RecordDefaults,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<Vec<Damage>, LoadError> {
    let text = read_document(file)?;
    (options.progress)(text.len() as u64);
    let document = Document { file, text: &text };
    let places = document.records(options)?;
    let mut damage = DamageList::with_most(options.most_damage);
    let mut lines = LineCounter::default();
    let mut builder = ChunkBuilder::with_capacity(places.len().min(ROOM));
    let mut scanner = Scanner::default();
    for (index, place) in places.into_iter().enumerate() {
        builder.pass_if_full(take);
        if let Some((record, _)) = scanner.scan(&text, place) {
            builder.push_record(&record, scanner.metadata_numbers());
            scanner.took(&record);
            continue;
        }
        match document.general(index as u64, place, defaults) {
            Ok(event) => builder.push_event(&event),
            Err(error) if options.on_error == OnError::Raise => return Err(error),
            Err(error) => {
                let line = lines.before(&text, place) + 1;
                damage.push(|| document.damage(index, place, line, &error));
            }
        }
    }
    builder.pass_rest(take);
    Ok(damage.finish(file))
}

struct Document<'a> {
    file: &'a Path,
    text: &'a [u8],
}

impl<'a> Document<'a> {
    /// The offsets of the event records, after the syntax of the whole document has been checked.
    fn records(&self, options: &LoadOptions<'_>) -> Result<Vec<Place>, LoadError> {
        let json = |source| LoadError::json(self.file, source);
        let mut reader = Reader::new(self.text);
        reader.skip_space();
        let start = reader.position();
        match reader.peek() {
            Some(b'[') => {
                let items = self.items(start).map_err(json)?;
                self.objects(items, options)
            }
            Some(b'{') => {
                let entries = self.entries(start).map_err(json)?;
                self.records_of_object(start, &entries, options)
            }
            _ => {
                parse(self.text).map_err(json)?;
                Err(LoadError::Scalar {
                    file: self.file.into(),
                })
            }
        }
    }

    fn records_of_object(
        &self,
        start: Place,
        entries: &[(RawString<'a>, Place)],
        options: &LoadOptions<'_>,
    ) -> Result<Vec<Place>, LoadError> {
        let list_at = |key: &str| {
            let entry = entries.iter().rfind(|(name, _)| name.decode() == key);
            entry
                .map(|(_, index)| *index)
                .filter(|index| self.text[*index] == b'[')
        };
        let json = |source| LoadError::json(self.file, source);
        if let Some(key) = options.events_key.as_deref() {
            let missing = || LoadError::NotAListOfEvents {
                file: self.file.into(),
                key: key.into(),
            };
            let index = list_at(key).ok_or_else(missing)?;
            return self.objects(self.list_items(index).map_err(json)?, options);
        }
        if let Some(index) = list_at("events") {
            return self.objects(self.list_items(index).map_err(json)?, options);
        }
        let is_record = entries
            .iter()
            .any(|(name, _)| RECORD_KEYS.contains(&name.decode().as_bytes()));
        if is_record {
            Ok(vec![start])
        } else {
            Err(LoadError::NoEvents {
                file: self.file.into(),
            })
        }
    }

    /// Checks that all items of a list are objects, and returns their offsets unchanged. The check
    /// is omitted if the options skip invalid records.
    fn objects(
        &self,
        places: Vec<Place>,
        options: &LoadOptions<'_>,
    ) -> Result<Vec<Place>, LoadError> {
        let odd = places.iter().position(|place| self.text[*place] != b'{');
        match odd.filter(|_| options.on_error == OnError::Raise) {
            None => Ok(places),
            Some(index) => Err(LoadError::NotAnObject {
                file: self.file.into(),
                index: index as u64,
            }),
        }
    }

    /// The offsets of the items of a list that is the whole document.
    fn items(&self, start: Place) -> Result<Vec<Place>, JsonError> {
        let (places, end) = self.walk_list(start)?;
        Reader::at(self.text, end).finish()?;
        Ok(places)
    }

    fn list_items(&self, start: Place) -> Result<Vec<Place>, JsonError> {
        Ok(self.walk_list(start)?.0)
    }

    fn walk_list(&self, start: Place) -> Result<(Vec<Place>, Place), JsonError> {
        let mut reader = Reader::at(self.text, start + 1);
        let mut places = Vec::new();
        reader.skip_space();
        if reader.eat(b']') {
            return Ok((places, reader.position()));
        }
        loop {
            reader.skip_space();
            places.push(reader.position());
            reader.skip_value()?;
            if !reader.more(b']')? {
                return Ok((places, reader.position()));
            }
        }
    }

    /// The entries of an object that is the whole document.
    fn entries(&self, start: Place) -> Result<Vec<(RawString<'a>, Place)>, JsonError> {
        let mut reader = Reader::at(self.text, start + 1);
        let mut entries = Vec::new();
        reader.skip_space();
        if !reader.eat(b'}') {
            loop {
                let key = reader.key()?;
                reader.skip_space();
                entries.push((key, reader.position()));
                reader.skip_value()?;
                if !reader.more(b'}')? {
                    break;
                }
            }
        }
        reader.finish()?;
        Ok(entries)
    }

    fn general(
        &self,
        index: u64,
        place: Place,
        defaults: &RecordDefaults,
    ) -> Result<stormlog_format::Event, LoadError> {
        let json = |source| LoadError::json(self.file, source);
        let raw = Reader::at(self.text, place).skip_value().map_err(json)?;
        let Value::Map(record) = parse_record(raw).map_err(json)? else {
            return Err(LoadError::NotAnObject {
                file: self.file.into(),
                index,
            });
        };
        event_from_record(&record, defaults)
            .map_err(|source| LoadError::bad_event(self.file, index, source))
    }

    fn damage(&self, index: usize, place: Place, line: u64, error: &LoadError) -> Damage {
        let length = Reader::at(self.text, place)
            .skip_value()
            .map_or(0, <[u8]>::len);
        let reason = match error {
            LoadError::NotAnObject { .. } => "not an object".to_owned(),
            error => error.to_string(),
        };
        Damage {
            file: self.file.into(),
            line: Some(line),
            bytes: Some(place as u64..(place + length) as u64),
            field: error.field().map(str::to_owned),
            reason: format!("event {index}: {reason}"),
        }
    }
}
