//! Reads samples from the JSON text of their metadata.

use std::sync::Arc;

use super::number::{Place, SampleNumber};
use super::process::{MOST_PROCESSES, ProcessMemory};
use super::{MetadataNumbers, Sample};
use crate::event::Counters;
use crate::json::{Reader, parse};
use crate::metadata_keys;
use crate::placeholders::Placeholders;
use crate::skeleton::{Layouts, Numbered, Skeleton, integers_of};

const PARTIAL_FIELDS: &[u8] = metadata_keys::COLLECTOR_PARTIAL_FIELDS.as_bytes();
const PROCESSES: &[u8] = metadata_keys::PROCESSES.as_bytes();
const HOST_MEMORY: &[u8] = metadata_keys::HOST_MEMORY.as_bytes();

/// Reads samples. Metadata that equal the metadata before, and metadata that differ from earlier
/// ones only in their integers, are not parsed again.
#[derive(Debug, Default)]
pub struct SampleReader {
    layouts: Layouts<Layout>,
    /// The text that was parsed last, and what it contains.
    last: (Vec<u8>, MetadataNumbers),
}

/// What all metadata with one skeleton (the text without its integers) have in common.
#[derive(Debug)]
struct Layout {
    skeleton: Arc<Skeleton>,
    /// The numbers in the metadata, each with the index of its value among the integers.
    numbers: Vec<(usize, SampleNumber)>,
    /// For each process in the metadata, the indices of the first three cells of its row.
    processes: Vec<[usize; 3]>,
    /// The names of placeholders contain no integers.
    placeholders: Placeholders,
}

/// Where the values of a [`Layout`] begin in the text of the metadata.
#[derive(Default)]
struct Offsets {
    numbers: Vec<(usize, SampleNumber)>,
    processes: Vec<[usize; 3]>,
}

impl SampleReader {
    /// Reads a sample with metadata that are given as text. When the text is malformed, the numbers
    /// before the error are read.
    pub fn read_text(&mut self, counters: Counters, metadata: &[u8]) -> Sample {
        let (text, numbers) = &mut self.last;
        if text != metadata {
            metadata.clone_into(text);
            *numbers = MetadataNumbers::of_text(metadata, &mut Offsets::default());
        }
        numbers.clone().with_counters(counters)
    }

    /// Like [`read_text`](Self::read_text), for metadata that are given as a skeleton and integers.
    pub fn read_numbered(&mut self, counters: Counters, metadata: Numbered<'_>) -> Sample {
        let known = self.layouts.read(|layout| layout.read(metadata));
        let numbers = known.unwrap_or_else(|| {
            let text = metadata.to_text();
            let mut offsets = Offsets::default();
            let numbers = MetadataNumbers::of_text(&text, &mut offsets);
            let placeholders = numbers.placeholders;
            self.layouts
                .learn(|| Layout::of(metadata, &text, &offsets, placeholders));
            numbers
        });
        numbers.with_counters(counters)
    }
}

impl Layout {
    /// The layout of metadata from their text and the offsets of the numbers in it. `None` if a
    /// number is not written as an integer, because in other metadata with the same skeleton it may
    /// have another meaning.
    fn of(
        metadata: Numbered<'_>,
        text: &[u8],
        offsets: &Offsets,
        placeholders: Placeholders,
    ) -> Option<Self> {
        let integers = integers_of(text);
        let index = |start: usize| {
            integers
                .binary_search_by_key(&start, |range| range.start)
                .ok()
        };
        let numbers = offsets.numbers.iter();
        let numbers = numbers.map(|(start, number)| Some((index(*start)?, *number)));
        let processes = offsets.processes.iter();
        let processes = processes.map(|[pid, anonymous, shared]| {
            Some([index(*pid)?, index(*anonymous)?, index(*shared)?])
        });
        Some(Self {
            skeleton: Arc::clone(metadata.skeleton),
            numbers: numbers.collect::<Option<_>>()?,
            processes: processes.collect::<Option<_>>()?,
            placeholders,
        })
    }

    /// Reads metadata that have this layout; `None` for metadata with another layout.
    fn read(&mut self, metadata: Numbered<'_>) -> Option<MetadataNumbers> {
        if !Arc::ptr_eq(&self.skeleton, metadata.skeleton) {
            if self.skeleton != *metadata.skeleton {
                return None;
            }
            self.skeleton = Arc::clone(metadata.skeleton);
        }
        let integer = |index: usize| metadata.integers.get(index).copied();
        let mut found = MetadataNumbers {
            placeholders: self.placeholders,
            ..MetadataNumbers::default()
        };
        for (index, number) in &self.numbers {
            found.numbers[*number] = integer(*index).filter(|value| *value >= 0);
        }
        let processes = self.processes.iter();
        let processes = processes.filter_map(|cells| {
            let [pid, anonymous, shared] = cells.map(integer);
            ProcessMemory::of_cells([pid?, anonymous?, shared?])
        });
        found.processes = processes.collect();
        Some(found)
    }
}

impl MetadataNumbers {
    /// Parses metadata, and adds the offset of each number to `offsets`.
    fn of_text(metadata: &[u8], offsets: &mut Offsets) -> Self {
        let mut found = Self::default();
        if !may_have_numbers(metadata) {
            return found;
        }
        each_value(metadata, |key, value, start| match key {
            PROCESSES => (found.processes, offsets.processes) = processes(value, start),
            HOST_MEMORY => {
                // If the key is repeated, only the last object counts.
                found.numbers.forget(Place::HostMemory);
                let numbers = &mut offsets.numbers;
                numbers.retain(|(_, number)| number.place() != Place::HostMemory);
                each_value(value, |key, value, offset| {
                    found.set(Place::HostMemory, key, value, start + offset, offsets);
                });
            }
            PARTIAL_FIELDS => {
                let named = parse(value).ok();
                found.placeholders =
                    named.map_or_else(Placeholders::default, |one| Placeholders::of_value(&one));
            }
            _ => found.set(Place::Metadata, key, value, start, offsets),
        });
        found
    }

    fn set(&mut self, place: Place, key: &[u8], value: &[u8], start: usize, offsets: &mut Offsets) {
        if let Some(number) = SampleNumber::of_key(place, key) {
            self.numbers[number] = SampleNumber::parse(value);
            offsets.numbers.push((start, number));
        }
    }
}

/// Whether one of the keys that are read may occur in metadata. The check takes a fraction of the
/// time of parsing, and most metadata that differ in more than their integers have none of the keys.
fn may_have_numbers(metadata: &[u8]) -> bool {
    let is_key = |text: &[u8]| {
        [PROCESSES, HOST_MEMORY, PARTIAL_FIELDS].contains(&text)
            || SampleNumber::ALL
                .iter()
                .any(|number| number.key().as_bytes() == text)
    };
    let mut start = 0;
    let mut quotes = memchr::memchr2_iter(b'"', b'\\', metadata);
    quotes.any(|end| {
        let text = &metadata[start..end];
        start = end + 1;
        // A key may contain escapes.
        metadata[end] == b'\\' || is_key(text)
    })
}

/// Calls `take` with each key of an object, the text of its value, and the offset of that text, up
/// to the end of the object or the first error in it.
fn each_value(object: &[u8], mut take: impl FnMut(&[u8], &[u8], usize)) {
    let mut reader = Reader::new(object);
    if !reader.eat(b'{') {
        return;
    }
    loop {
        let Ok(key) = reader.key() else { return };
        reader.skip_space();
        let Ok(value) = reader.skip_value() else {
            return;
        };
        let start = reader.position() - value.len();
        if key.escaped {
            take(key.decode().as_bytes(), value, start);
        } else {
            take(key.bytes, value, start);
        }
        if !matches!(reader.more(b'}'), Ok(true)) {
            return;
        }
    }
}

/// Parses a list of processes, which begins at the offset `start` of the metadata. Returns the
/// processes, and for each row that begins with three integers the offsets of these integers.
fn processes(list: &[u8], start: usize) -> (Vec<ProcessMemory>, Vec<[usize; 3]>) {
    let (mut found, mut offsets) = (Vec::new(), Vec::new());
    let mut rows = 0;
    each_item(list, |row, row_offset| {
        rows += 1;
        if rows > MOST_PROCESSES {
            return;
        }
        let mut cells = [None; 3];
        let mut free = cells.iter_mut();
        each_item(row, |cell, offset| {
            if let Some(free) = free.next() {
                let number = std::str::from_utf8(cell).ok();
                let number = number.and_then(|cell| cell.parse::<i64>().ok());
                *free = number.map(|number| (number, start + row_offset + offset));
            }
        });
        if let [Some((pid, a)), Some((anonymous, b)), Some((shared, c))] = cells {
            offsets.push([a, b, c]);
            found.extend(ProcessMemory::of_cells([pid, anonymous, shared]));
        }
    });
    (found, offsets)
}

/// Calls `take` with the text of each item of a list and the offset of that text.
fn each_item(list: &[u8], mut take: impl FnMut(&[u8], usize)) {
    let mut reader = Reader::new(list);
    if !reader.eat(b'[') {
        return;
    }
    reader.skip_space();
    if reader.peek() == Some(b']') {
        return;
    }
    loop {
        reader.skip_space();
        let Ok(item) = reader.skip_value() else {
            return;
        };
        take(item, reader.position() - item.len());
        if !matches!(reader.more(b']'), Ok(true)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
