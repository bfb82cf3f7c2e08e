//! A JSON list of records, read record by record so that the list is never in memory.

use std::io::Read;
use std::path::Path;

use stormlog_format::json::{Reader, parse};
use stormlog_format::scan::Scanner;
use stormlog_format::{RecordDefaults, Value, event_from_record};

use super::bytes::{LONGEST_LINE, open};
use super::damage::Damage;
use super::error::LoadError;
use super::{LoadOptions, OnError};
use crate::columns::{Chunk, ChunkBuilder};

/// How many bytes are read at a time.
const BLOCK: usize = 1 << 20;

/// How reading a list went.
pub(crate) enum Outcome {
    /// All of it was read, but for this.
    Read(Vec<Damage>),
    /// The document is no list.
    NotAList,
    /// Something is wrong that the caller finds the words for.
    Surprised,
}

/// Reads the document if it is a list.
pub(crate) fn read(
    file: &Path,
    defaults: &RecordDefaults,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<Outcome, LoadError> {
    let mut input = Input {
        reader: open(file)?.reader,
        buffer: Vec::new(),
        offset: 0,
        lines: 0,
        ended: false,
    };
    if input.first_byte(file)? != Some(b'[') {
        return Ok(Outcome::NotAList);
    }
    let mut records = Records {
        defaults,
        options,
        file,
        index: 0,
        damage: Vec::new(),
    };
    let mut builder = ChunkBuilder::with_capacity(BLOCK / 640);
    let mut state = State::AtStart;
    while state != State::AtEnd {
        let before = input.buffer.len();
        let consumed = {
            let Some(step) = records.step(&input, state, &mut builder) else {
                return Ok(Outcome::Surprised);
            };
            state = step.state;
            step.consumed
        };
        (options.progress)(consumed as u64);
        input.consume(consumed);
        if let Some(chunk) = builder.take_if_full() {
            take(chunk);
        }
        if state != State::AtEnd {
            if input.ended || consumed == 0 && before > LONGEST_LINE {
                return Ok(Outcome::Surprised);
            }
            input.fill(file)?;
        }
    }
    // Only white space may follow.
    loop {
        if input
            .buffer
            .iter()
            .any(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        {
            return Ok(Outcome::Surprised);
        }
        if input.ended {
            break;
        }
        input.consume(input.buffer.len());
        input.fill(file)?;
    }
    if builder.len() > 0 {
        take(builder.finish());
    }
    Ok(Outcome::Read(records.damage))
}

/// Where in the list the next byte is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    AtStart,
    /// Before the first item or the end.
    BeforeFirst,
    /// Before an item, after a comma.
    BeforeItem,
    /// After an item.
    AfterItem,
    AtEnd,
}

/// What was done with the bytes at hand.
struct Step {
    consumed: usize,
    state: State,
}

/// How reading an item went.
enum Item {
    /// It ends here.
    Read(usize),
    /// It goes on past the bytes at hand, or is wrong.
    NotAllThere,
    /// It is wrong whatever follows.
    Wrong,
}

/// The bytes at hand and where they stand in the file.
struct Input {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    offset: u64,
    lines: u64,
    ended: bool,
}

impl Input {
    fn fill(&mut self, file: &Path) -> Result<(), LoadError> {
        let before = self.buffer.len();
        let step = BLOCK.max(before);
        Read::by_ref(&mut self.reader)
            .take(step as u64)
            .read_to_end(&mut self.buffer)
            .map_err(|source| LoadError::Io {
                file: file.into(),
                source,
            })?;
        self.ended = self.buffer.len() == before;
        Ok(())
    }

    fn consume(&mut self, bytes: usize) {
        self.lines += memchr::memchr_iter(b'\n', &self.buffer[..bytes]).count() as u64;
        self.offset += bytes as u64;
        self.buffer.drain(..bytes);
    }

    /// The first byte that is no white space.
    fn first_byte(&mut self, file: &Path) -> Result<Option<u8>, LoadError> {
        loop {
            let first = self
                .buffer
                .iter()
                .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
            if first.is_some() || self.ended {
                return Ok(first.copied());
            }
            self.fill(file)?;
        }
    }
}

/// Turns the items of the list into events.
struct Records<'a> {
    defaults: &'a RecordDefaults,
    options: &'a LoadOptions<'a>,
    file: &'a Path,
    index: u64,
    damage: Vec<Damage>,
}

impl Records<'_> {
    /// Reads as many whole items as there are; nothing when something is wrong.
    fn step(&mut self, input: &Input, state: State, builder: &mut ChunkBuilder) -> Option<Step> {
        let text = input.buffer.as_slice();
        let mut scanner = Scanner::default();
        let mut state = state;
        let mut consumed = 0;
        loop {
            let mut reader = Reader::at(text, consumed);
            reader.skip_space();
            let Some(byte) = reader.peek() else {
                return Some(Step { consumed, state });
            };
            let place = reader.position();
            match (state, byte) {
                (State::AtStart, b'[') => state = State::BeforeFirst,
                (State::AfterItem, b',') => state = State::BeforeItem,
                (State::BeforeFirst | State::AfterItem, b']') => {
                    return Some(Step {
                        consumed: place + 1,
                        state: State::AtEnd,
                    });
                }
                (State::BeforeFirst | State::BeforeItem, b'{') => {
                    match self.item(text, place, &mut scanner, builder, input) {
                        Item::Read(end) => consumed = end,
                        Item::NotAllThere if input.ended => return None,
                        Item::NotAllThere => return Some(Step { consumed, state }),
                        Item::Wrong => return None,
                    }
                    state = State::AfterItem;
                    continue;
                }
                _ => return None,
            }
            consumed = place + 1;
        }
    }

    /// Reads one item.
    fn item<'t>(
        &mut self,
        text: &'t [u8],
        place: usize,
        scanner: &mut Scanner<'t>,
        builder: &mut ChunkBuilder,
        input: &Input,
    ) -> Item {
        if let Some((record, end)) = scanner.scan(text, place)
            && std::str::from_utf8(&text[place..end]).is_ok()
        {
            builder.push_record(&record);
            self.index += 1;
            return Item::Read(end);
        }
        // Wrong or not all there: only more of the file tells.
        let Ok(raw) = Reader::at(text, place).skip_value() else {
            return Item::NotAllThere;
        };
        let end = place + raw.len();
        if std::str::from_utf8(raw).is_err() {
            return Item::Wrong;
        }
        let Ok(Value::Map(record)) = parse(raw) else {
            return Item::Wrong;
        };
        match event_from_record(&record, self.defaults) {
            Ok(event) => builder.push_event(&event),
            Err(_) if self.options.on_error == OnError::Raise => return Item::Wrong,
            Err(error) => {
                let lines = memchr::memchr_iter(b'\n', &text[..place]).count() as u64;
                self.damage.push(Damage {
                    file: self.file.into(),
                    line: Some(input.lines + lines + 1),
                    bytes: Some(input.offset + place as u64..input.offset + end as u64),
                    field: error.field().map(str::to_owned),
                    reason: format!("event {}: {error}", self.index),
                });
            }
        }
        self.index += 1;
        Item::Read(end)
    }
}
