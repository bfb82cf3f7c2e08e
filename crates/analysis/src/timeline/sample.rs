//! Parses the numbers in the metadata of a sample.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use stormlog_format::json::{Reader, parse};
use stormlog_format::skeleton::{Layouts, Numbered, Skeleton, integers_of};
use stormlog_format::{Placeholders, metadata_keys};

use crate::columns::EventRef;

/// Metadata without any of these texts has none of the numbers read here, so it is not parsed. This
/// is the case for most samples.
static NEEDLES: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["_bytes\"", "\"step", "\"host_memory\""].map(Finder::new));

const PARTIAL_FIELDS: &[u8] = metadata_keys::COLLECTOR_PARTIAL_FIELDS.as_bytes();
const PROCESSES: &[u8] = metadata_keys::PROCESSES.as_bytes();
const HOST_MEMORY: &[u8] = metadata_keys::HOST_MEMORY.as_bytes();

/// Maximum number of processes read per sample.
const MOST_PROCESSES: usize = 4096;

/// Numbers from the metadata of one sample; a missing number is unknown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SampleMetadata {
    pub(super) own: Option<i64>,
    pub(super) unassigned: Option<i64>,
    pub(super) allocator_read_ns: Option<i64>,
    pub(super) peak: Option<i64>,
    pub(super) pinned: Option<i64>,
    pub(super) step: Option<i64>,
    pub(super) optimizer: Option<i64>,
    pub(super) step_count: Option<i64>,
    pub(super) anonymous: Option<i64>,
    pub(super) shared: Option<i64>,
    /// Pid, anonymous bytes and shared bytes of each process.
    pub(super) processes: Vec<[i64; 3]>,
    /// The counters of the sample that were not read.
    pub(super) placeholders: Placeholders,
}

/// Reads the metadata of samples. Metadata that differ from earlier ones only in their integers are
/// not parsed again.
#[derive(Default)]
pub(super) struct MetadataReader {
    layouts: Layouts<Layout>,
}

/// The text of metadata without its integers, and for each integer the field of [`SampleMetadata`]
/// that it belongs to, if any.
struct Layout {
    skeleton: Arc<Skeleton>,
    /// Each field that the metadata contains, with the index of its value among the integers of the
    /// metadata.
    numbers: Vec<(usize, Number)>,
    /// For each process in the metadata, the indices of pid, anonymous bytes and shared bytes among
    /// the integers of the metadata.
    processes: Vec<[usize; 3]>,
    /// The same for all metadata of this layout, because names contain no integers.
    placeholders: Placeholders,
}

/// Where in the text of metadata the numbers of [`SampleMetadata`] begin.
#[derive(Default)]
struct Offsets {
    numbers: Vec<(usize, Number)>,
    processes: Vec<[usize; 3]>,
}

/// Selects a field of [`SampleMetadata`].
type Number = fn(&mut SampleMetadata) -> &mut Option<i64>;

impl MetadataReader {
    /// Reads the metadata of a sample. When the metadata is malformed, only the numbers before the
    /// error are read.
    pub(super) fn read(&mut self, sample: EventRef<'_>) -> SampleMetadata {
        match sample.metadata_numbers() {
            Some(numbers) => self.of_numbers(numbers),
            None => SampleMetadata::of(&sample.metadata_json(), &mut Offsets::default()),
        }
    }

    fn of_numbers(&mut self, metadata: Numbered<'_>) -> SampleMetadata {
        let known = self.layouts.read(|layout| layout.read(metadata));
        known.unwrap_or_else(|| {
            let json = metadata.to_text();
            let mut offsets = Offsets::default();
            let parsed = SampleMetadata::of(&json, &mut offsets);
            let placeholders = parsed.placeholders;
            self.layouts
                .learn(|| Layout::of(metadata, &json, &offsets, placeholders));
            parsed
        })
    }
}

impl Layout {
    /// Creates the layout of metadata from its text `json` and the offsets of the numbers in it.
    /// `None` if a number is written in another way than as an integer, which is rare.
    fn of(
        metadata: Numbered<'_>,
        json: &[u8],
        offsets: &Offsets,
        placeholders: Placeholders,
    ) -> Option<Self> {
        let integers = integers_of(json);
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

    /// Reads the fields from metadata that has this layout; `None` for metadata with another
    /// layout.
    fn read(&mut self, metadata: Numbered<'_>) -> Option<SampleMetadata> {
        if !Arc::ptr_eq(&self.skeleton, metadata.skeleton) {
            if self.skeleton != *metadata.skeleton {
                return None;
            }
            self.skeleton = Arc::clone(metadata.skeleton);
        }
        let mut parsed = SampleMetadata {
            placeholders: self.placeholders,
            ..SampleMetadata::default()
        };
        for (index, number) in &self.numbers {
            let value = metadata.integers.get(*index).copied();
            *number(&mut parsed) = value.filter(|value| *value >= 0);
        }
        let processes = self.processes.iter();
        let processes = processes.filter_map(|cells| {
            let [pid, anonymous, shared] = cells.map(|index| metadata.integers.get(index).copied());
            Some([pid?, anonymous?.max(0), shared?.max(0)])
        });
        parsed.processes = processes.collect();
        Some(parsed)
    }
}

/// The field of [`SampleMetadata`] for a key of the metadata; `None` for a key that is not read. If
/// `is_host` is set, the key belongs to the object `host_memory` in the metadata.
fn number_of(key: &[u8], is_host: bool) -> Option<Number> {
    let key = std::str::from_utf8(key).ok()?;
    Some(match (key, is_host) {
        (metadata_keys::PROCESS_DEVICE_USED_BYTES, false) => |numbers| &mut numbers.own,
        (metadata_keys::UNASSIGNED_PROCESS_BYTES, false) => |numbers| &mut numbers.unassigned,
        (metadata_keys::ALLOCATOR_READ_NS, false) => |numbers| &mut numbers.allocator_read_ns,
        (metadata_keys::ALLOCATOR_PEAK_BYTES, false) => |numbers| &mut numbers.peak,
        (metadata_keys::PINNED_BYTES, false) => |numbers| &mut numbers.pinned,
        (metadata_keys::STEP, false) => |numbers| &mut numbers.step,
        (metadata_keys::OPTIMIZER, false) => |numbers| &mut numbers.optimizer,
        (metadata_keys::STEP_COUNT, false) => |numbers| &mut numbers.step_count,
        ("anonymous", true) => |numbers| &mut numbers.anonymous,
        ("shared", true) => |numbers| &mut numbers.shared,
        _ => return None,
    })
}

impl SampleMetadata {
    /// Parses the metadata of a sample, and adds the offset of each number to `offsets`.
    fn of(metadata: &[u8], offsets: &mut Offsets) -> Self {
        let mut parsed = Self::default();
        if NEEDLES.iter().any(|needle| needle.find(metadata).is_some()) {
            parsed.parse(metadata, offsets);
        }
        parsed
    }

    fn parse(&mut self, metadata: &[u8], offsets: &mut Offsets) {
        each_value(metadata, |key, value, start| {
            let mut set = |key: &[u8], is_host, value: &[u8], start| {
                if let Some(number) = number_of(key, is_host) {
                    *number(self) = bytes(value);
                    offsets.numbers.push((start, number));
                }
            };
            match key {
                PROCESSES => {
                    (self.processes, offsets.processes) =
                        processes(value, start).into_iter().unzip();
                }
                HOST_MEMORY => {
                    each_value(value, |key, value, offset| {
                        set(key, true, value, start + offset);
                    });
                }
                PARTIAL_FIELDS => {
                    let named = parse(value).ok();
                    self.placeholders =
                        named.map_or(Placeholders::default(), |one| Placeholders::of_value(&one));
                }
                _ => set(key, false, value, start),
            }
        });
    }
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
        take(key.bytes, value, reader.position() - value.len());
        if !matches!(reader.more(b'}'), Ok(true)) {
            return;
        }
    }
}

/// Parses a whole number that is not negative.
fn bytes(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (value >= 0).then_some(value)
}

/// Parses a list of processes, which begins at the offset `start` of the metadata. Returns the pid,
/// the anonymous bytes and the shared bytes of each process, and the offsets of these three numbers
/// in the metadata. Entries without three integers are skipped.
fn processes(list: &[u8], start: usize) -> Vec<([i64; 3], [usize; 3])> {
    let mut found = Vec::new();
    each_item(list, |row, row_offset| {
        let mut cells = Vec::with_capacity(4);
        each_item(row, |cell, offset| {
            let number = std::str::from_utf8(cell)
                .ok()
                .and_then(|cell| cell.parse().ok());
            cells.push((number, start + row_offset + offset));
        });
        if let [(Some(pid), a), (Some(anonymous), b), (Some(shared), c), ..] = cells[..]
            && found.len() < MOST_PROCESSES
        {
            found.push((
                [pid, i64::max(anonymous, 0), i64::max(shared, 0)],
                [a, b, c],
            ));
        }
    });
    found
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
mod tests {
    use stormlog_format::skeleton::Matcher;

    use super::*;

    fn parsed(metadata: &[u8]) -> SampleMetadata {
        SampleMetadata::of(metadata, &mut Offsets::default())
    }

    #[test]
    fn a_known_layout_gives_the_same_numbers_as_a_new_one() {
        let texts: [&[u8]; 19] = [
            br#"{"step": 1, "host_memory": {"anonymous": 3, "limit": 8}, "pinned_bytes": 4}"#,
            br#"{"step": 200, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
            br#"{"step": -1, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
            br#"{"step": 1.5, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
            br#"{"step": null, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
            br#"{"step": 1, "host_memory": {"anonymous": 3, "limit": 8}, "pinned_bytes": 4"#,
            br#"{"step": 1, "host_memory": {"anonymous": 3, "limit": 8}, "pinned_bytes": 4} "#,
            br#"{"step": 1, "step": 2}"#,
            br#"{"step": 1, "step": null}"#,
            br#"{"step": 7, "step": null}"#,
            br#"{"step": 3, "processes": [[7, 1, 2]]}"#,
            br#"{"step": 4, "processes": [[8, 1, 2]]}"#,
            br#"{"step": 5, "processes": [[8, -1, 2, 4], ["x"], [1, 2.5, 3], [9, 9, 9, 0]]}"#,
            br#"{"step": 6, "processes": [[7, 11, -2, 4], ["x"], [3, 2.5, 3], [6, 0, 1, 5]]}"#,
            br#"{"step": 7, "processes": []}"#,
            br#"{"step": 4, "other": {"step": 5}}"#,
            br#"{"backend": "cuda"}"#,
            br#"{"step": 8, "collector_partial_fields": ["device_used_bytes"]}"#,
            br#"{"step": 9, "collector_partial_fields": []}"#,
        ];
        let mut reader = MetadataReader::default();
        for turn in 0..3 {
            for text in texts {
                let mut matcher = Matcher::default();
                matcher.learn(text);
                let shown = String::from_utf8_lossy(text);
                assert_eq!(matcher.matches(text), Some(text.len()), "{shown}");
                if let Some(numbers) = matcher.matched() {
                    let known = reader.of_numbers(numbers);
                    assert_eq!(known, parsed(text), "turn {turn}: {shown}");
                }
            }
        }
        assert!(reader.layouts.read(|_| Some(())).is_some());
    }

    #[test]
    fn the_share_of_the_process_is_read_at_the_top_level_only() {
        let own = |text: &[u8]| parsed(text).own;
        assert_eq!(own(br#"{"a": {"process_device_used_bytes": 5}}"#), None);
        let both = br#"{"a": "process_device_used_bytes", "process_device_used_bytes": 7}"#;
        assert_eq!(own(both), Some(7));
        assert_eq!(
            own(br#"{"process_device_used_bytes": -9223372036854775808}"#),
            None
        );
    }

    #[test]
    fn steps_and_processes_are_read() {
        let numbers = parsed(
            br#"{"step": 12, "optimizer": 1, "step_count": 40, "host_memory": {"anonymous": 3, "shared": 4},
                "processes": [[7, 1, 2, 3], ["x"], [8, -1, 5, 0]]}"#,
        );
        assert_eq!(
            (numbers.step, numbers.optimizer, numbers.step_count),
            (Some(12), Some(1), Some(40))
        );
        assert_eq!((numbers.anonymous, numbers.shared), (Some(3), Some(4)));
        assert_eq!(numbers.processes, [[7, 1, 2], [8, 0, 5]]);
    }

    #[test]
    fn broken_metadata_are_read_up_to_the_mistake() {
        let numbers = parsed(br#"{"step": 3, "pinned_bytes": 9, "host_memory": {"anonymous""#);
        assert_eq!(
            (numbers.step, numbers.pinned, numbers.anonymous),
            (Some(3), Some(9), None)
        );
    }
}
