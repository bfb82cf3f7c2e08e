//! Reads a JSON list record by record, so that the whole list is never in memory.

use std::io::Read;
use std::path::Path;

use stormlog_format::json::{Reader, parse_record};
use stormlog_format::scan::Scanner;
use stormlog_format::{Event, RecordDefaults, Value, event_from_record};

use super::{LoadOptions, OnError};
use crate::bytes::{open, read_error};
use crate::columns::{Chunk, ChunkBuilder};
use crate::damage::{Damage, DamageList, LineCounter};
use crate::load_error::LONGEST_LINE;
use crate::load_error::LoadError;

/// Number of bytes read at a time.
const BLOCK: usize = 1 << 20;

/// The result of reading a JSON list.
pub(crate) enum Outcome {
    /// The list was read, with this damage.
    Read(Vec<Damage>),
    /// The document is not a list.
    NotAList,
    /// The list has a syntax error, which is described; the caller reads the whole document to
    /// produce the same error message as for other documents.
    Surprised(String),
}

/// Reads the document if it is a list.
pub(crate) fn read(
    file: &Path,
    defaults: &RecordDefaults,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<Outcome, LoadError> {
    read_blocks(file, BLOCK, defaults, options, take)
}

/// Like [`read`], but with a given block size in bytes.
fn read_blocks(
    file: &Path,
    block: usize,
    defaults: &RecordDefaults,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<Outcome, LoadError> {
    let mut input = Input::new(open(file)?.reader, block);
    let mut records = Records {
        defaults,
        options,
        file,
        index: 0,
        damage: DamageList::with_most(options.most_damage),
    };
    let first = input.first_byte();
    if let Some(error) = input.broken.take_if(|_| first.is_none()) {
        if options.on_error == OnError::Raise {
            return Err(read_error(file, error));
        }
        records.give_up(&mut input, &format!("the file ends too early: {error}"));
        return Ok(Outcome::Read(records.damage.finish(file)));
    }
    if first != Some(b'[') {
        return Ok(Outcome::NotAList);
    }
    let mut builder = ChunkBuilder::with_capacity(block / 640);
    let mut state = State::AtStart;
    loop {
        let before = input.buffer.len();
        let step = records.step(&input, state, &mut builder);
        state = step.state;
        (options.progress)(step.consumed as u64);
        input.consume(step.consumed);
        builder.pass_if_full(take);
        let too_long = step.consumed == 0 && before > LONGEST_LINE;
        if !step.wrong && !too_long && !input.ended {
            input.fill();
            continue;
        }
        if let Some(error) = input.broken.take() {
            if options.on_error == OnError::Raise {
                return Err(read_error(file, error));
            }
            records.give_up(&mut input, &format!("the file ends too early: {error}"));
        } else if step.wrong || too_long || state != State::AtEnd {
            if options.on_error == OnError::Raise {
                return if too_long && !step.wrong {
                    let (file, index) = (file.into(), records.index);
                    Err(LoadError::EventTooLong { file, index })
                } else {
                    Ok(Outcome::Surprised(what_is_wrong(&input, state)))
                };
            }
            let reason = what_is_wrong(&input, state);
            records.give_up(&mut input, &reason);
        }
        break;
    }
    builder.pass_rest(take);
    Ok(Outcome::Read(records.damage.finish(file)))
}

/// The reason why the rest of the JSON list cannot be read.
fn what_is_wrong(input: &Input, state: State) -> String {
    let mut reader = Reader::new(&input.buffer);
    reader.skip_space();
    let outcome = match state {
        State::AtStart | State::AfterItem => reader.more(b']').map(drop),
        State::BeforeFirst | State::BeforeItem => reader.skip_value().map(drop),
        State::AtEnd => reader.finish(),
    };
    match outcome {
        Err(error) => {
            let offset = input.offset + error.offset as u64;
            format!("not JSON: {} at byte {offset}", error.kind)
        }
        Ok(()) => format!("an event is longer than {LONGEST_LINE} bytes"),
    }
}

/// The position of the parser within the JSON list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    AtStart,
    /// Before the first item of the list, or before its end.
    BeforeFirst,
    /// Before an item of the list, after a comma.
    BeforeItem,
    /// After an item of the list.
    AfterItem,
    AtEnd,
}

/// The result of parsing the buffered bytes.
struct Step {
    consumed: usize,
    state: State,
    /// Whether the next bytes are invalid JSON, no matter which bytes of the file follow the
    /// buffer.
    wrong: bool,
}

/// The result of parsing one item of the list.
enum Item {
    /// The item was read and ends at this offset.
    Read(usize),
    /// The item is invalid, or continues after the buffered bytes; more bytes are needed to decide.
    NotAllThere,
    /// The item is invalid JSON, no matter which bytes of the file follow the buffer.
    Wrong,
}

/// The buffered bytes of the file, with their position in the file.
struct Input {
    reader: Box<dyn Read + Send>,
    block: usize,
    buffer: Vec<u8>,
    offset: u64,
    lines: u64,
    ended: bool,
    /// The read error that ended the file early, if any.
    broken: Option<std::io::Error>,
}

impl Input {
    fn new(reader: Box<dyn Read + Send>, block: usize) -> Self {
        Self {
            reader,
            block,
            buffer: Vec::new(),
            offset: 0,
            lines: 0,
            ended: false,
            broken: None,
        }
    }

    fn fill(&mut self) {
        let before = self.buffer.len();
        // The buffer doubles each time an item does not fit, so that a long item is not parsed too
        // often.
        let step = self.block.max(before);
        let outcome = Read::by_ref(&mut self.reader)
            .take(step as u64)
            .read_to_end(&mut self.buffer);
        self.broken = outcome.err();
        self.ended = self.buffer.len() == before || self.broken.is_some();
    }

    fn consume(&mut self, bytes: usize) {
        self.lines += memchr::memchr_iter(b'\n', &self.buffer[..bytes]).count() as u64;
        self.offset += bytes as u64;
        self.buffer.drain(..bytes);
    }

    /// The first byte of the file that is not white space.
    fn first_byte(&mut self) -> Option<u8> {
        loop {
            let mut reader = Reader::new(&self.buffer);
            reader.skip_space();
            let (first, space) = (reader.peek(), reader.position());
            if first.is_some() || self.ended {
                return first;
            }
            self.consume(space);
            self.fill();
        }
    }
}

/// Converts the items of a JSON list to events.
struct Records<'a> {
    defaults: &'a RecordDefaults,
    options: &'a LoadOptions<'a>,
    file: &'a Path,
    index: u64,
    damage: DamageList,
}

impl Records<'_> {
    /// Reads as many complete items as the buffer contains.
    fn step(&mut self, input: &Input, mut state: State, builder: &mut ChunkBuilder) -> Step {
        let text = input.buffer.as_slice();
        let mut items = Items {
            text,
            scanner: Scanner::default(),
            lines: LineCounter::default(),
        };
        let mut consumed = 0;
        loop {
            let mut reader = Reader::at(text, consumed);
            reader.skip_space();
            consumed = reader.position();
            let done = |wrong| Step {
                consumed,
                state,
                wrong,
            };
            let Some(byte) = reader.peek() else {
                return done(false);
            };
            match (state, byte) {
                (State::AtStart, b'[') => state = State::BeforeFirst,
                (State::AfterItem, b',') => state = State::BeforeItem,
                (State::BeforeFirst | State::AfterItem, b']') => state = State::AtEnd,
                (State::BeforeFirst | State::BeforeItem, _) => {
                    match self.item(&mut items, consumed, builder, input) {
                        Item::Read(end) => consumed = end,
                        Item::NotAllThere => return done(input.ended),
                        Item::Wrong => return done(true),
                    }
                    state = State::AfterItem;
                    continue;
                }
                _ => return done(true),
            }
            consumed += 1;
        }
    }

    /// Parses one item of the list and adds its event.
    fn item(
        &mut self,
        items: &mut Items<'_>,
        place: usize,
        builder: &mut ChunkBuilder,
        input: &Input,
    ) -> Item {
        let text = items.text;
        if let Some((record, end)) = items.scanner.scan(text, place)
            && std::str::from_utf8(&text[place..end]).is_ok()
        {
            builder.push_record(&record, items.scanner.metadata_numbers());
            items.scanner.took(&record);
            self.index += 1;
            return Item::Read(end);
        }
        // The item is invalid or incomplete, and more of the file is needed to decide which.
        let Ok(raw) = Reader::at(text, place).skip_value() else {
            return Item::NotAllThere;
        };
        let end = place + raw.len();
        // A number at the end of the buffer may continue in the next block.
        if end == text.len() && !input.ended {
            return Item::NotAllThere;
        }
        let problem = match self.event(raw) {
            Ok(event) => {
                builder.push_event(&event);
                None
            }
            Err(_) if self.options.on_error == OnError::Raise => return Item::Wrong,
            Err(problem) => Some(problem),
        };
        if let Some((reason, field)) = problem {
            let line = input.lines + items.lines.before(text, place) + 1;
            self.damage.push(|| Damage {
                file: self.file.into(),
                line: Some(line),
                bytes: Some(input.offset + place as u64..input.offset + end as u64),
                field,
                reason: format!("event {}: {reason}", self.index),
            });
        }
        self.index += 1;
        Item::Read(end)
    }

    /// The event in an item of the list, or the reason why it is invalid together with the invalid
    /// field.
    fn event(&self, raw: &[u8]) -> Result<Event, (String, Option<String>)> {
        if let Err(error) = std::str::from_utf8(raw) {
            return Err((format!("not UTF-8: {error}"), None));
        }
        match parse_record(raw) {
            Ok(Value::Map(record)) => event_from_record(&record, self.defaults)
                .map_err(|error| (error.to_string(), error.field().map(str::to_owned))),
            Ok(_) => Err(("not an object".into(), None)),
            Err(error) => Err((format!("not JSON: {error}"), None)),
        }
    }

    /// Records as damage that the rest of the file is skipped.
    fn give_up(&mut self, input: &mut Input, reason: &str) {
        let (line, start) = (input.lines + 1, input.offset);
        input.consume(input.buffer.len());
        while !input.ended {
            input.fill();
            input.consume(input.buffer.len());
        }
        let end = input.offset;
        self.damage.push(|| Damage {
            file: self.file.into(),
            line: Some(line),
            bytes: (start < end).then_some(start..end),
            field: None,
            reason: format!("{reason}; the rest of the list of events is skipped"),
        });
    }
}

/// The buffered bytes of the list, with the state for parsing them.
struct Items<'t> {
    text: &'t [u8],
    scanner: Scanner<'t>,
    lines: LineCounter,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a document in blocks of a given size; returns its events as lines, and its damage as
    /// text.
    fn read_in(text: &str, block: usize, on_error: OnError) -> Option<(Vec<String>, Vec<String>)> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("writable");
        let options = LoadOptions {
            on_error,
            ..LoadOptions::default()
        };
        let mut events = Vec::new();
        let mut take = |chunk| {
            let chunk = crate::columns::Events::of_chunk(chunk);
            events.extend(chunk.iter().map(|event| event.to_event().to_line()));
        };
        let defaults = RecordDefaults::default();
        match read_blocks(file.path(), block, &defaults, &options, &mut take).expect("readable") {
            Outcome::Read(damage) => {
                let described = |damage: Damage| {
                    format!("{:?} {:?} {}", damage.line, damage.bytes, damage.reason)
                };
                Some((events, damage.into_iter().map(described).collect()))
            }
            Outcome::NotAList | Outcome::Surprised(_) => None,
        }
    }

    fn item() -> impl Strategy<Value = String> {
        let odd = [
            "5",
            "12345",
            "null",
            "\"x]\"",
            "[{}]",
            "{",
            "{\"a\":1}",
            "nul",
            "-",
            "}",
        ];
        let full = |(n, context): (u8, String)| {
            let record = format!(
                r#"{{"schema_version": 3, "session_id": "s", "timestamp_ns": {n}, "event_type": "e",
                "collector": "c", "sampling_interval_ms": 0, "pid": 1, "host": "h", "device_id": 0,
                "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 1,
                "allocator_active_bytes": null, "allocator_inactive_bytes": null,
                "allocator_change_bytes": 0, "device_used_bytes": 1, "device_free_bytes": null,
                "device_total_bytes": null, "context": "{context}", "metadata": {{"n": {n}}}}}"#
            );
            if n % 2 == 0 {
                record.replace('\n', "")
            } else {
                record
            }
        };
        prop_oneof![
            4 => (any::<u8>(), "[a-z\u{e9}]{0,3}").prop_map(full),
            4 => (0..1000).prop_map(|n| format!("{{\"timestamp\": {n}}}")),
            1 => prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None,
            ..ProptestConfig::default() })]

        #[test]
        fn blocks_of_any_size_give_the_same(
            items in prop::collection::vec(item(), 0..6),
            gap in prop::sample::select(vec![",", " ,\n ", ",   "]),
            end in prop::sample::select(vec!["]", " ]\n\n", "", ", ]", "] x"]),
            blocks in prop::collection::vec(1..300_usize, 3),
        ) {
            let text = format!(" [{}{end}", items.join(gap));
            for on_error in [OnError::Raise, OnError::Skip] {
                let whole = read_in(&text, 1 << 20, on_error);
                for block in &blocks {
                    prop_assert_eq!(&read_in(&text, *block, on_error), &whole, "blocks of {}", block);
                }
            }
        }
    }
}
