//! A fast parser for records of version 3. The scanner expects each record to have the same layout
//! as the previous one; on any other record it gives up.
//!
//! The records of one file usually have the same keys in the same order with the same white space.
//! The scanner remembers the text between the values of the last record, compares it with the next
//! record, and parses only the values. Strings and metadata of a record are compared with those of
//! the previous record before they are parsed.
//!
//! The scanner accepts only records that are valid without conversion (version 3, with every check
//! of [`validate`](crate::validate)). The scanner may give up on any record: the caller then uses
//! the general parser, which also reports errors in the record.

use crate::event::{FIELDS, Version};
use crate::integer::integer;
use crate::json::{RawString, Reader};
use crate::skeleton::{Matcher, Numbered};

/// A validated record whose strings are slices of the text that was scanned.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "each field has the name of its key in the record"
)]
pub struct RawRecord<'a> {
    pub timestamp_ns: i64,
    pub origin: RawOrigin<'a>,
    pub event_type: &'a [u8],
    pub context: Option<RawString<'a>>,
    pub metadata: &'a [u8],
    /// Whether the metadata has the same text as the metadata of the record last passed to
    /// [`Scanner::took`].
    pub repeats_metadata: bool,
    /// The counters of the record, in the order of [`Counters::named`](crate::Counters::named).
    pub counters: [Option<i64>; 8],
}

/// The part of a record that rarely changes: session, collector, process and ranks. The strings of
/// this part of a record contain no escapes.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "each field has the name of its key in the record"
)]
pub struct RawOrigin<'a> {
    pub version: Version,
    pub session_id: &'a [u8],
    pub collector: &'a [u8],
    pub sampling_interval_ms: i64,
    pub pid: i64,
    pub host: &'a [u8],
    pub job_id: Option<&'a [u8]>,
    pub rank: i64,
    pub local_rank: i64,
    pub world_size: i64,
    pub device_id: i64,
}

/// Parses records that have the same layout as the previous record.
#[derive(Debug, Default)]
pub struct Scanner<'a> {
    /// For each value of a record, the text before the value and the field that the value belongs
    /// to.
    steps: Vec<(&'a [u8], Field)>,
    /// The text after the last value up to the end of the record, such as `}`.
    tail: &'a [u8],
    /// The strings of the last record, indexed by field. A string of the next record that is equal
    /// to the one here is not parsed.
    strings: [&'a [u8]; FIELDS.len()],
    /// The metadata of the record last passed to [`took`](Self::took).
    metadata: &'a [u8],
    /// Remembers the metadata of earlier records, to recognize metadata that differ only in their
    /// integers.
    matcher: Matcher,
    /// Whether the metadata of the last record differed only in its integers from earlier metadata
    /// that `matcher` remembers.
    is_matched: bool,
    /// Whether each record must be on a single line.
    one_line: bool,
}

/// The index of a key in [`FIELDS`].
type Field = usize;

const SCHEMA_VERSION: Field = 0;
const SESSION_ID: Field = 1;
pub(crate) const TIMESTAMP_NS: Field = 2;
const EVENT_TYPE: Field = 3;
const COLLECTOR: Field = 4;
const SAMPLING_INTERVAL_MS: Field = 5;
const PID: Field = 6;
const HOST: Field = 7;
const JOB_ID: Field = 8;
const RANK: Field = 9;
const LOCAL_RANK: Field = 10;
const WORLD_SIZE: Field = 11;
const DEVICE_ID: Field = 12;
/// The index of the first counter; the eight counters have consecutive indices.
const ALLOCATED: Field = 13;
const CONTEXT: Field = 21;
const METADATA: Field = 22;

/// Fields that may be `null` in a record of version 3: job, context and four of the counters.
const NULLABLE: [Field; 6] = [JOB_ID, CONTEXT, 15, 16, 19, 20];

/// Fields that a record may leave out.
const OPTIONAL: [Field; 4] = [JOB_ID, RANK, LOCAL_RANK, WORLD_SIZE];

/// The values of one record before validation.
///
/// A caller that already has the values of a record can set them in `Values` without writing and
/// scanning a line.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    integers: [i64; FIELDS.len()],
    strings: [&'a [u8]; FIELDS.len()],
    present: u32,
    context: Option<RawString<'a>>,
    metadata: &'a [u8],
    repeats_metadata: bool,
}

impl<'a> Scanner<'a> {
    /// Makes a scanner for files in which every record is on its own line.
    pub fn of_lines() -> Self {
        Self {
            one_line: true,
            ..Self::default()
        }
    }

    /// Makes a scanner for files in which every record is on its own line. The scanner compares the
    /// metadata of records with those that `matcher` remembers.
    pub fn of_lines_with(matcher: Matcher) -> Self {
        Self {
            matcher,
            ..Self::of_lines()
        }
    }

    /// The metadata that the scanner remembers. The next scanner of the same file can use them
    /// ([`of_lines_with`](Self::of_lines_with)).
    pub fn into_matcher(self) -> Matcher {
        self.matcher
    }

    /// The integers in the metadata of the last record, if the metadata differ from those of an
    /// earlier record only in their integers.
    pub fn metadata_numbers(&self) -> Option<Numbered<'_>> {
        self.matcher.matched().filter(|_| self.is_matched)
    }

    /// Parses the record at an offset in the text. The result is the record and the offset after
    /// it, or `None` when the record has an unknown layout or is invalid.
    pub fn scan(&mut self, text: &'a [u8], start: usize) -> Option<(RawRecord<'a>, usize)> {
        if let Some(found) = self.scan_expected(text, start) {
            return Some(found);
        }
        self.learn(text, start)?;
        self.scan_expected(text, start)
    }

    fn scan_expected(&mut self, text: &'a [u8], start: usize) -> Option<(RawRecord<'a>, usize)> {
        if self.steps.is_empty() {
            return None;
        }
        let mut offset = start;
        let mut values = Values::default();
        self.is_matched = false;
        for step in 0..self.steps.len() {
            let (before, field) = self.steps[step];
            if !text.get(offset..)?.starts_with(before) {
                return None;
            }
            offset = self.value(text, offset + before.len(), field, &mut values)?;
        }
        if !text[offset..].starts_with(self.tail) {
            return None;
        }
        let record = values.checked()?;
        Some((record, offset + self.tail.len()))
    }

    /// Remembers the metadata of a record that the caller uses, so that the next record can be
    /// compared with it.
    pub fn took(&mut self, record: &RawRecord<'a>) {
        self.metadata = record.metadata;
    }

    /// Parses the value of `field` at an offset in the text, stores it in `values`, and returns the
    /// offset after it.
    fn value(
        &mut self,
        text: &'a [u8],
        offset: usize,
        field: Field,
        values: &mut Values<'a>,
    ) -> Option<usize> {
        match field {
            METADATA => {
                let rest = &text[offset..];
                // A complete JSON object is never the beginning of another JSON object, so
                // comparing the start of the text suffices.
                if !self.metadata.is_empty() && rest.starts_with(self.metadata) {
                    values.repeats_metadata = true;
                    values.metadata = self.metadata;
                } else if let Some(length) = self.matcher.matches(rest) {
                    self.is_matched = true;
                    values.metadata = &rest[..length];
                } else if rest.first() == Some(&b'{') {
                    values.metadata = Reader::at(text, offset).skip_value().ok()?;
                    self.check_single_line(values.metadata)?;
                    self.matcher.learn(values.metadata);
                } else {
                    return None;
                }
                Some(offset + values.metadata.len())
            }
            _ if NULLABLE.contains(&field) && text[offset..].starts_with(b"null") => {
                Some(offset + 4)
            }
            SESSION_ID | EVENT_TYPE | COLLECTOR | HOST | JOB_ID | CONTEXT => {
                let end = self.string(text, offset, field, values)?;
                values.present |= 1 << field;
                Some(end)
            }
            _ => {
                let (value, end) = integer(text, offset)?;
                values.integers[field] = value;
                values.present |= 1 << field;
                Some(end)
            }
        }
    }

    fn string(
        &mut self,
        text: &'a [u8],
        offset: usize,
        field: Field,
        values: &mut Values<'a>,
    ) -> Option<usize> {
        let rest = text.get(offset..)?.strip_prefix(b"\"")?;
        let last = self.strings[field];
        if rest.starts_with(last) && rest.get(last.len()) == Some(&b'"') {
            values.strings[field] = last;
            if field == CONTEXT {
                values.context = Some(RawString {
                    bytes: last,
                    escaped: false,
                });
            }
            return Some(offset + last.len() + 2);
        }
        let mut reader = Reader::at(text, offset);
        let raw = reader.string().ok()?;
        if field == CONTEXT {
            values.context = Some(raw);
        }
        if !raw.escaped {
            self.strings[field] = raw.bytes;
            values.strings[field] = raw.bytes;
        } else if field != CONTEXT {
            return None;
        }
        Some(reader.position())
    }

    /// Remembers the layout of the record at the given offset, if the record has every required key
    /// once and no unknown keys.
    fn learn(&mut self, text: &'a [u8], start: usize) -> Option<()> {
        self.steps.clear();
        let mut steps = Vec::with_capacity(FIELDS.len());
        let mut reader = Reader::at(text, start);
        if !reader.eat(b'{') {
            return None;
        }
        let mut seen = 0_u32;
        let mut before_start = start;
        loop {
            let key = reader.key().ok()?;
            let field = FIELDS
                .iter()
                .position(|name| name.as_bytes() == key.bytes)?;
            if seen >> field & 1 == 1 {
                return None;
            }
            seen |= 1 << field;
            reader.skip_space();
            let before = &text[before_start..reader.position()];
            self.check_single_line(before)?;
            steps.push((before, field));
            reader.skip_value().ok()?;
            before_start = reader.position();
            if !reader.more(b'}').ok()? {
                break;
            }
        }
        if !is_complete(seen) {
            return None;
        }
        self.tail = &text[before_start..reader.position()];
        self.check_single_line(self.tail)?;
        self.steps = steps;
        Some(())
    }

    /// Checks that a part of a record has no line end; strings have none, so only the metadata and
    /// the text between values must be checked.
    fn check_single_line(&self, part: &[u8]) -> Option<()> {
        let breaks = self.one_line && memchr::memchr2(b'\n', b'\r', part).is_some();
        (!breaks).then_some(())
    }
}

impl Default for Values<'_> {
    fn default() -> Self {
        Self {
            integers: [0; FIELDS.len()],
            strings: [b""; FIELDS.len()],
            present: 0,
            context: None,
            metadata: b"",
            repeats_metadata: false,
        }
    }
}

/// The indices in [`FIELDS`] of a record's keys. The indices are `None` unless the record has every
/// required key once and no unknown keys.
pub fn fields_of<'k>(keys: impl Iterator<Item = &'k str>) -> Option<Vec<usize>> {
    let mut seen = 0_u32;
    let mut fields = Vec::with_capacity(FIELDS.len());
    for key in keys {
        let field = FIELDS.iter().position(|name| *name == key)?;
        if seen >> field & 1 == 1 {
            return None;
        }
        seen |= 1 << field;
        fields.push(field);
    }
    is_complete(seen).then_some(fields)
}

/// Whether all required fields of a record are present. Bit `n` of `seen` stands for field `n`.
fn is_complete(seen: u32) -> bool {
    let optional = OPTIONAL.iter().fold(0, |bits, field| bits | 1 << field);
    seen | optional == (1 << FIELDS.len()) - 1
}

impl<'a> Values<'a> {
    /// Sets an integer field; returns false when the field must not be an integer.
    pub fn set_integer(&mut self, field: usize, value: i64) -> bool {
        self.integers[field] = value;
        self.present |= 1 << field;
        !matches!(
            field,
            SESSION_ID | EVENT_TYPE | COLLECTOR | HOST | JOB_ID | CONTEXT | METADATA
        )
    }

    /// Sets a string field, given as the text between the quotes in a line. Returns false when the
    /// field must not be a string, or when the string contains escapes that must be resolved.
    pub fn set_string(&mut self, field: usize, text: &'a [u8]) -> bool {
        self.strings[field] = text;
        self.present |= 1 << field;
        field == CONTEXT
            || matches!(field, SESSION_ID | EVENT_TYPE | COLLECTOR | HOST | JOB_ID)
                && !text.contains(&b'\\')
    }

    /// Sets the text of an object field; returns false when the field must not be an object.
    pub fn set_object(&mut self, field: usize, text: &'a [u8]) -> bool {
        self.metadata = text;
        field == METADATA
    }

    /// Whether the field may be `null` in a record of version 3.
    pub fn may_be_null(field: usize) -> bool {
        NULLABLE.contains(&field)
    }

    /// Validates the values of a record; `None` when the values break a rule of version 3.
    pub fn checked(self) -> Option<RawRecord<'a>> {
        let has = |field: Field| self.present >> field & 1 == 1;
        let integer = |field: Field| has(field).then_some(self.integers[field]);
        let names = [SESSION_ID, EVENT_TYPE, COLLECTOR, HOST];
        if self.integers[SCHEMA_VERSION] != 3
            || !names
                .into_iter()
                .all(|field| is_plainly_a_name(self.strings[field]))
            || has(JOB_ID) && !is_plainly_a_name(self.strings[JOB_ID])
        {
            return None;
        }
        let rank = self.integers[RANK];
        let local_rank = integer(LOCAL_RANK).unwrap_or(rank);
        let world_size = if has(WORLD_SIZE) {
            self.integers[WORLD_SIZE]
        } else {
            1
        };
        let non_negative = [TIMESTAMP_NS, SAMPLING_INTERVAL_MS, RANK, LOCAL_RANK];
        if non_negative
            .into_iter()
            .any(|field| self.integers[field] < 0)
            || self.integers[PID] < -1
            || rank >= world_size
            || local_rank >= world_size
        {
            return None;
        }
        let counters = std::array::from_fn(|offset| integer(ALLOCATED + offset));
        if !counters_hold(&counters) {
            return None;
        }
        Some(RawRecord {
            timestamp_ns: self.integers[TIMESTAMP_NS],
            origin: RawOrigin {
                version: Version::V3,
                session_id: self.strings[SESSION_ID],
                collector: self.strings[COLLECTOR],
                sampling_interval_ms: self.integers[SAMPLING_INTERVAL_MS],
                pid: self.integers[PID],
                host: self.strings[HOST],
                job_id: has(JOB_ID).then_some(self.strings[JOB_ID]),
                rank,
                local_rank,
                world_size,
                device_id: self.integers[DEVICE_ID],
            },
            event_type: self.strings[EVENT_TYPE],
            context: self.context,
            metadata: self.metadata,
            repeats_metadata: self.repeats_metadata,
            counters,
        })
    }
}

/// The index of a field among the counters; `None` when the field is not a counter.
pub(crate) fn counter_of(field: Field) -> Option<usize> {
    (ALLOCATED..ALLOCATED + 8)
        .contains(&field)
        .then(|| field - ALLOCATED)
}

/// Whether counters, given in the order in which a record is written, follow the rules of version
/// 3.
pub(crate) fn counters_hold(counters: &[Option<i64>; 8]) -> bool {
    let is_negative = |counter: Option<i64>| counter.is_some_and(|value| value < 0);
    let [allocated, reserved, active, inactive, _, used, free, total] = *counters;
    let holds = [allocated, reserved, active, inactive, used, free, total];
    !holds.into_iter().any(is_negative) && !(total.is_some() && (used > total || free > total))
}

/// Whether a string is certainly valid as a name, such as a host or a collector. A string that is
/// not certainly a valid name is left to the general parser.
fn is_plainly_a_name(string: &[u8]) -> bool {
    matches!(string.first(), Some(b'!'..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_differ_in_their_integers_are_read_as_by_a_new_scanner() {
        let line = |metadata: &str| {
            format!(
                r#"{{"schema_version": 3, "session_id": "s", "timestamp_ns": 7, "event_type": "sample", "collector": "c", "sampling_interval_ms": 1, "pid": 1, "host": "h", "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1, "device_id": 0, "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 2, "allocator_active_bytes": null, "allocator_inactive_bytes": null, "allocator_change_bytes": 0, "device_used_bytes": 3, "device_free_bytes": null, "device_total_bytes": null, "context": null, "metadata": {metadata}}}"#
            )
        };
        let lines = [
            r#"{"a": 1, "b": {"c": [2, "3"]}}"#,
            r#"{"a": 100, "b": {"c": [-2, "3"]}}"#,
            r#"{"a": 1, "b": {"c": [2, "4"]}}"#,
            r#"{"a": 01, "b": {"c": [2, "3"]}}"#,
            r#"{"a": 1.5, "b": {"c": [2, "3"]}}"#,
            r#"{"a": 1, "b": {"c": [2, "3"]}"#,
            "{}",
            r#"{"a": 7, "b": {"c": [8, "3"]}}"#,
        ]
        .map(line);
        let metadata = |found: Option<(RawRecord<'_>, usize)>| {
            found.map(|(record, end)| (record.metadata.to_vec(), end))
        };
        let mut scanner = Scanner::of_lines();
        let mut recognized = Vec::new();
        for line in &lines {
            let known = metadata(scanner.scan(line.as_bytes(), 0));
            let new = metadata(Scanner::of_lines().scan(line.as_bytes(), 0));
            assert_eq!(known, new, "{line}");
            recognized.push(known.is_some() && scanner.metadata_numbers().is_some());
        }
        let expected = [false, true, false, false, false, false, false, true];
        assert_eq!(recognized, expected, "each new layout is parsed once");
    }

    #[test]
    fn every_count_of_digits() {
        for length in 1..=19 {
            let text = &"9182736455463728190"[..length];
            for after in ["", ",", " ", "}", "\u{ff}", "/", ":"] {
                let record = format!("{text}{after}");
                let expected = text.parse().ok().map(|value: i64| (value, length));
                assert_eq!(integer(record.as_bytes(), 0), expected, "{record}");
            }
        }
    }
}
