//! Splits the metadata of samples in two parts: numbers that have columns of their own, and the
//! remaining text.
//!
//! Metadata with a step number or a clock reading differ in every sample. Without these numbers
//! most texts are equal, and equal texts take almost no space in a Parquet file. Nothing is lost:
//! [`join_metadata`] restores the text of the metadata byte for byte. Metadata that could not be
//! restored exactly (keys not sorted, other white space) are stored as a whole.

use std::ops::Range;
use std::sync::Arc;

use stormlog_format::json::Reader;
use stormlog_format::metadata_keys::HOST_MEMORY;
use stormlog_format::skeleton::{Layouts, Numbered, Skeleton, integers_of};
use stormlog_format::{Place, SampleNumber, SampleNumbers};

/// The numbers that have columns, in the order of the columns, and the name of each column.
pub fn covered() -> impl Iterator<Item = (SampleNumber, &'static str)> {
    let numbers = SampleNumber::ALL.into_iter();
    numbers.filter_map(|number| Some((number, number.column()?)))
}

/// Splits the metadata of samples into numbers that have columns and the remaining text. Metadata
/// that differ from earlier ones only in their integers are not parsed again.
#[derive(Debug, Default)]
pub struct Splitter {
    layouts: Layouts<Layout>,
    /// The remaining text of the metadata that [`split_numbers`](Self::split_numbers) has split
    /// last. It is kept here because the caller gets a reference to it.
    rest: String,
    /// The metadata that [`split`](Self::split) has split last. They are kept because the next ones
    /// are often equal.
    last: SplitText,
}

/// Metadata and the parts into which they were split.
#[derive(Debug, Default)]
struct SplitText {
    text: Vec<u8>,
    numbers: SampleNumbers,
    rest: String,
}

/// How to split all metadata texts that differ only in their integers. Such texts have the same
/// skeleton, which is the text without its integers.
#[derive(Debug)]
struct Layout {
    skeleton: Arc<Skeleton>,
    /// For each integer of the metadata, in their order, whether it goes into a column or stays in
    /// the text.
    slots: Vec<Slot>,
    /// The remaining text, as the parts before, between and after its integers.
    constants: Vec<String>,
}

/// Where an integer of the metadata is stored.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// In the column of this number.
    Column(SampleNumber),
    /// In the remaining text.
    Rest,
}

impl Splitter {
    /// Splits the JSON text of metadata into the numbers that have columns of their own, and the
    /// remaining text.
    pub fn split(&mut self, text: &[u8]) -> (SampleNumbers, &str) {
        let last = &mut self.last;
        if last.text != text {
            let split = Split::of(text);
            text.clone_into(&mut last.text);
            last.numbers = split.numbers;
            last.rest = String::from_utf8_lossy(&split.rest).into_owned();
        }
        (last.numbers, &last.rest)
    }

    /// Like [`split`](Self::split), for metadata that are given as a skeleton (the text between
    /// integers) and their integers.
    pub fn split_numbers(&mut self, metadata: Numbered<'_>) -> (SampleNumbers, &str) {
        let rest = &mut self.rest;
        let known = self.layouts.read(|layout| layout.split(metadata, rest));
        let numbers = known.unwrap_or_else(|| {
            let text = metadata.to_text();
            let split = Split::of(&text);
            self.layouts.learn(|| split.layout(metadata, &text));
            *rest = String::from_utf8_lossy(&split.rest).into_owned();
            split.numbers
        });
        (numbers, rest)
    }
}

impl Layout {
    /// Splits metadata that have this layout: returns the numbers and stores the remaining text in
    /// `rest`. `None` if the metadata have another layout.
    fn split(&mut self, metadata: Numbered<'_>, rest: &mut String) -> Option<SampleNumbers> {
        if !Arc::ptr_eq(&self.skeleton, metadata.skeleton) {
            if self.skeleton != *metadata.skeleton {
                return None;
            }
            self.skeleton = Arc::clone(metadata.skeleton);
        }
        let mut numbers = SampleNumbers::default();
        let mut constants = self.constants.iter().map(String::as_str);
        rest.clear();
        for (slot, integer) in self.slots.iter().zip(metadata.integers) {
            match slot {
                // A negative number is not stored in a column, so this layout does not fit.
                Slot::Column(_) if *integer < 0 => return None,
                Slot::Column(column) => numbers[*column] = Some(*integer),
                Slot::Rest => {
                    rest.push_str(constants.next().unwrap_or_default());
                    rest.push_str(itoa::Buffer::new().format(*integer));
                }
            }
        }
        rest.push_str(constants.next().unwrap_or_default());
        Some(numbers)
    }
}

/// The parts into which one metadata text is split.
#[derive(Default)]
struct Split {
    rest: Vec<u8>,
    numbers: SampleNumbers,
    /// The byte range of each integer in the metadata, and where the integer is stored.
    integers: Vec<(Range<usize>, Slot)>,
    /// The byte ranges in `rest` of the integers that stay in the text.
    in_rest: Vec<Range<usize>>,
    /// Whether `rest` is the whole text, because it could not be restored exactly from its parts.
    is_whole: bool,
}

impl Split {
    fn of(text: &[u8]) -> Self {
        let mut split = Self::default();
        if !split_object(text, 0, Place::Metadata, &mut split) {
            split.rest = text.to_vec();
            split.is_whole = true;
        }
        split
    }

    /// Adds a value to the remaining text; `start` is the offset of the value in the metadata.
    /// `has_column` says whether the key of the value has a column.
    fn push(&mut self, value: &[u8], start: usize, has_column: bool) {
        let offset = self.rest.len();
        self.rest.extend_from_slice(value);
        // The key has a column, but a value such as `-1` is not a count and stays in the text. The
        // value is not added to `integers`, so that no layout is made of these metadata: in other
        // metadata with the same skeleton, the value may be a count, which belongs in the column.
        if has_column {
            return;
        }
        for range in integers_of(value) {
            let (from, to) = (range.start, range.end);
            self.integers.push((start + from..start + to, Slot::Rest));
            self.in_rest.push(offset + from..offset + to);
        }
    }

    /// The layout of metadata with the given text. The layout is `None` when the metadata were not
    /// split or are not UTF-8. It is also `None` when a key has a column but its value, such as
    /// `-1`, stays in the text, because metadata with the same skeleton may be split differently.
    fn layout(&self, metadata: Numbered<'_>, text: &[u8]) -> Option<Layout> {
        let (ranges, slots): (Vec<_>, Vec<_>) = self.integers.iter().cloned().unzip();
        if self.is_whole || ranges != integers_of(text) {
            return None;
        }
        let rest = std::str::from_utf8(&self.rest).ok()?;
        let mut from = 0;
        let mut constants = Vec::new();
        for range in &self.in_rest {
            constants.push(rest.get(from..range.start)?.to_owned());
            from = range.end;
        }
        constants.push(rest.get(from..)?.to_owned());
        Some(Layout {
            skeleton: Arc::clone(metadata.skeleton),
            slots,
            constants,
        })
    }
}

/// Splits the JSON object `text`, which begins at `offset` in the metadata. Returns whether the
/// object can be restored exactly from its parts. `split` gets the numbers in both cases, as far as
/// the text can be read.
fn split_object(text: &[u8], offset: usize, place: Place, split: &mut Split) -> bool {
    let mut reader = Reader::new(text);
    if !reader.eat(b'{') {
        return false;
    }
    split.rest.push(b'{');
    reader.skip_space();
    if reader.peek() == Some(b'}') {
        split.rest.push(b'}');
        return text == b"{}";
    }
    let first = split.rest.len();
    // The length of the object in the usual spelling: `"key": value`, joined by `, `.
    let mut usual = 2;
    let mut before: Option<&[u8]> = None;
    let mut is_exact = true;
    loop {
        let Ok(key) = reader.key() else { return false };
        reader.skip_space();
        let Ok(value) = reader.skip_value() else {
            return false;
        };
        let value_end = offset + reader.position();
        let value_start = value_end - value.len();
        usual += key.bytes.len() + value.len() + 4 + if before.is_some() { 2 } else { 0 };
        is_exact &= !key.escaped && before.is_none_or(|before| before < key.bytes);
        before = Some(key.bytes);
        let column = SampleNumber::of_key(place, key.bytes);
        let column = column.filter(|number| number.column().is_some());
        let number = column.and_then(|column| Some((column, count(value)?)));
        if let Some((column, number)) = number {
            split.numbers[column] = Some(number);
            let range = value_start..value_end;
            split.integers.push((range, Slot::Column(column)));
        } else {
            if split.rest.len() > first {
                split.rest.extend_from_slice(b", ");
            }
            split.rest.push(b'"');
            split.rest.extend_from_slice(key.bytes);
            split.rest.extend_from_slice(b"\": ");
            if place == Place::Metadata && key.bytes == HOST_MEMORY.as_bytes() {
                is_exact &= split_object(value, value_start, Place::HostMemory, split);
            } else {
                split.push(value, value_start, column.is_some());
            }
        }
        match reader.more(b'}') {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => return false,
        }
    }
    split.rest.push(b'}');
    is_exact && usual == text.len()
}

/// Parses a number whose text can be restored exactly; `-0` cannot.
fn count(text: &[u8]) -> Option<i64> {
    let number = SampleNumber::parse(text);
    number.filter(|_| text.first() != Some(&b'-'))
}

/// Restores the JSON text of metadata from the remaining text and the numbers that were split off.
pub fn join_metadata(rest: &[u8], numbers: &SampleNumbers) -> Vec<u8> {
    if numbers.known().next().is_none() {
        return rest.to_vec();
    }
    join_object(rest, Place::Metadata, numbers).unwrap_or_else(|| rest.to_vec())
}

/// Restores a JSON object; `None` where the text is not an object and was therefore stored as a
/// whole.
fn join_object(rest: &[u8], place: Place, numbers: &SampleNumbers) -> Option<Vec<u8>> {
    let mut reader = Reader::new(rest);
    if !reader.eat(b'{') {
        return None;
    }
    let mut entries: Vec<(&[u8], Vec<u8>)> = Vec::new();
    reader.skip_space();
    if reader.peek() != Some(b'}') {
        loop {
            let key = reader.key().ok()?;
            reader.skip_space();
            let value = reader.skip_value().ok()?;
            let value = if place == Place::Metadata && key.bytes == HOST_MEMORY.as_bytes() {
                join_object(value, Place::HostMemory, numbers).unwrap_or_else(|| value.to_vec())
            } else {
                value.to_vec()
            };
            entries.push((key.bytes, value));
            if !reader.more(b'}').ok()? {
                break;
            }
        }
    }
    let before = entries.len();
    for (number, value) in numbers.known() {
        if number.place() != place {
            continue;
        }
        let key = number.key().as_bytes();
        // The text still contains this key: no number was moved from it to a column.
        if entries.iter().any(|(other, _)| *other == key) {
            return Some(rest.to_vec());
        }
        entries.push((key, value.to_string().into_bytes()));
    }
    if entries.len() > before {
        entries.sort_by(|a, b| a.0.cmp(b.0));
    }
    let mut text = vec![b'{'];
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            text.extend_from_slice(b", ");
        }
        text.push(b'"');
        text.extend_from_slice(key);
        text.extend_from_slice(b"\": ");
        text.extend_from_slice(value);
    }
    text.push(b'}');
    Some(text)
}

#[cfg(test)]
mod tests {
    use stormlog_format::skeleton::Matcher;

    use super::*;

    fn round(text: &str) -> (String, SampleNumbers) {
        let mut splitter = Splitter::default();
        let (numbers, rest) = splitter.split(text.as_bytes());
        let joined = join_metadata(rest.as_bytes(), &numbers);
        assert_eq!(String::from_utf8_lossy(&joined), text);
        (rest.to_owned(), numbers)
    }

    #[test]
    fn a_known_layout_gives_the_same_parts_as_a_new_one() {
        let texts = [
            r#"{"backend": "cuda", "host_memory": {"anonymous": 3, "limit": 8}, "step": 1}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": 44, "limit": 8}, "step": 209}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": 44, "limit": 9}, "step": 209}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": 44, "limit": -0}, "step": 209}"#,
            r#"{"backend": "cuda", "more": [1, {"step": 2}, "3"], "step": 209, "x": 1}"#,
            r#"{"backend": "cuda", "more": [10, {"step": -2}, "3"], "step": 9, "x": 100}"#,
            r#"{"backend": "cuda", "more": [10, {"step": -2}, "3"], "step": 9, "x": 1.0}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": -0, "limit": 8}, "step": 1}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": 3, "limit": 8}, "step": -1}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": 3, "limit": 8}, "step": 1.5}"#,
            r#"{"backend": "cpu", "host_memory": {"anonymous": 3, "limit": 8}, "step": 1}"#,
            r#"{"backend": "cuda", "host_memory": {"anonymous": 3, "limit": 8}, "step": 1} "#,
            r#"{"step":1}"#,
            r#"{"step": 7}"#,
        ];
        let mut splitter = Splitter::default();
        for turn in 0..3 {
            for text in texts {
                let mut matcher = Matcher::default();
                matcher.learn(text.as_bytes());
                if matcher.matches(text.as_bytes()).is_none() {
                    assert!(text.contains("-0"), "{text}");
                    continue;
                }
                let (numbers, rest) = splitter.split_numbers(matcher.matched().unwrap());
                let known = (rest.to_owned(), numbers);
                assert_eq!(known, round(text), "turn {turn}: {text}");
            }
        }
    }

    #[test]
    fn numbers_that_change_leave_a_text_that_does_not() {
        let (rest, numbers) = round(
            r#"{"allocator_peak_bytes": 9, "backend": "cuda", "optimizer": 0, "other": {"4": 5}, "step": 12, "step_count": 40}"#,
        );
        assert_eq!(rest, r#"{"backend": "cuda", "other": {"4": 5}}"#);
        let numbers: Vec<_> = numbers.known().collect();
        assert_eq!(
            numbers,
            [
                (SampleNumber::Step, 12),
                (SampleNumber::Optimizer, 0),
                (SampleNumber::StepCount, 40),
                (SampleNumber::AllocatorPeak, 9),
            ]
        );
    }

    #[test]
    fn numbers_inside_host_memory_are_covered() {
        let (rest, numbers) = round(
            r#"{"host_memory": {"anonymous": 3, "cgroup_limit": 8, "file": 4, "shared": 0}, "processes": [[7, 1, 2]]}"#,
        );
        assert_eq!(
            rest,
            r#"{"host_memory": {"cgroup_limit": 8}, "processes": [[7, 1, 2]]}"#
        );
        let numbers: Vec<_> = numbers.known().collect();
        assert_eq!(
            numbers,
            [
                (SampleNumber::HostAnonymous, 3),
                (SampleNumber::HostShared, 0),
                (SampleNumber::HostFile, 4),
            ]
        );
        let (rest, _) = round(r#"{"host_memory": {"anonymous": 3}}"#);
        assert_eq!(rest, r#"{"host_memory": {}}"#);
    }

    #[test]
    fn a_text_in_another_spelling_is_kept_whole() {
        for text in [
            r#"{"step":12}"#,
            r#"{"step": 12, "a": 1}"#,
            r#"{"step": 12, "step": 13}"#,
            r#"{"a": 1, "step": 12 }"#,
            r#"{"\u0061": 1, "step": 12}"#,
            "{}",
            "{ }",
            "[1]",
            r#"{"step": 12"#,
        ] {
            let (rest, _) = round(text);
            assert_eq!(rest, text);
        }
    }

    #[test]
    fn numbers_that_are_no_counts_stay_in_the_text() {
        for text in [
            r#"{"step": -1}"#,
            r#"{"step": 1.5}"#,
            r#"{"step": true}"#,
            r#"{"step": 99999999999999999999}"#,
            r#"{"host_memory": 4}"#,
            r#"{"step": -0}"#,
            // A number without a column.
            r#"{"unassigned_process_bytes": 5}"#,
        ] {
            let (rest, numbers) = round(text);
            assert_eq!((rest.as_str(), numbers), (text, SampleNumbers::default()));
        }
    }
}
