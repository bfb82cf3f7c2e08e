//! A test language with a few types stands in for Python in these tests: two of its values are the
//! same object when they are the same allocation, and its lists are mutable.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use stormlog_format::json::{push_integer, push_quoted};

use super::*;

#[derive(Debug)]
enum Thing {
    Null,
    Integer(i64),
    Word(String),
    List(RefCell<Vec<i64>>),
    Object(Object),
    /// A value that cannot be written as JSON.
    Strange,
}

type Object = Vec<(String, Rc<Thing>)>;

#[derive(Default)]
struct Language {
    out: String,
    depth: usize,
}

/// For each key of an object in sorted order: its name, its index in the object, and its last
/// value.
type Memory = Vec<(String, usize, Option<Rc<Thing>>)>;

impl Keeps for Language {
    type Memory = Memory;
}

impl Objects<'static> for Language {
    type Object = Object;
    type Value = Rc<Thing>;
    type Error = &'static str;

    fn text(&mut self) -> &mut String {
        &mut self.out
    }

    fn write(&mut self, value: &Rc<Thing>) -> Result<Written, &'static str> {
        Ok(match &**value {
            Thing::Null => {
                self.out.push_str("null");
                Written::Null
            }
            Thing::Integer(number) => {
                push_integer(&mut self.out, *number);
                Written::Integer(*number)
            }
            Thing::Word(word) => {
                push_quoted(&mut self.out, word);
                Written::String
            }
            Thing::List(items) => {
                write!(self.out, "{:?}", items.borrow()).unwrap();
                Written::Other
            }
            Thing::Object(object) => {
                self.write_object(object)?;
                Written::Object
            }
            Thing::Strange => return Err("strange"),
        })
    }

    fn write_object(&mut self, object: &Object) -> Result<(), &'static str> {
        let mut sorted: Vec<_> = object.iter().collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        self.out.push('{');
        for (index, (name, value)) in sorted.into_iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            push_quoted(&mut self.out, name);
            self.out.push_str(": ");
            self.write(value)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn enter(&mut self, _: &Rc<Thing>) -> Result<(), &'static str> {
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn as_object<'v>(&self, value: &'v Rc<Thing>) -> Option<&'v Object> {
        match &**value {
            Thing::Object(object) => Some(object),
            _ => None,
        }
    }

    fn as_integer(&self, value: &Rc<Thing>) -> Option<i64> {
        match &**value {
            Thing::Integer(number) => Some(*number),
            _ => None,
        }
    }

    fn remember(&self, object: &Object) -> Option<(Vec<String>, Memory)> {
        let keys = object.iter().enumerate();
        let mut memory: Memory = keys
            .map(|(number, (name, _))| (name.clone(), number, None))
            .collect();
        memory.sort_by(|one, other| one.0.cmp(&other.0));
        let names = memory.iter().map(|(name, ..)| name.clone()).collect();
        (object.len() <= MOST_KEYS).then_some((names, memory))
    }

    fn take(&self, memory: &mut Memory, object: &Object) -> Option<u64> {
        let is_same = |(name, number, _): &(String, usize, _)| {
            object.get(*number).is_some_and(|(key, _)| key == name)
        };
        if memory.is_empty() || memory.len() != object.len() || !memory.iter().all(is_same) {
            return None;
        }
        let mut changed = 0;
        for (index, (_, number, last)) in memory.iter_mut().enumerate() {
            let value = &object[*number].1;
            if !last.as_ref().is_some_and(|last| Rc::ptr_eq(last, value)) {
                *last = Some(Rc::clone(value));
                changed |= 1 << index;
            }
        }
        Some(changed)
    }

    fn value<'m>(&self, memory: &'m Memory, _: &Object, index: usize) -> Option<&'m Rc<Thing>> {
        memory[index].2.as_ref()
    }

    fn settle(&self, memory: &mut Memory, _: &Object, index: usize) {
        let value = &mut memory[index].2;
        if matches!(value.as_deref(), Some(Thing::List(_) | Thing::Object(_))) {
            *value = None;
        }
    }
}

fn object(entries: &[(&str, Rc<Thing>)]) -> Object {
    let entries = entries.iter();
    entries
        .map(|(name, value)| ((*name).to_owned(), Rc::clone(value)))
        .collect()
}

fn integer(number: i64) -> Rc<Thing> {
    Rc::new(Thing::Integer(number))
}

fn word(text: &str) -> Rc<Thing> {
    Rc::new(Thing::Word(text.to_owned()))
}

/// The line of a record, after a check that writing the record alone gives the same line.
fn line_of(lines: &mut Lines<Language>, record: &Object) -> String {
    lines.take(record).unwrap();
    let mut alone = Lines::<Language>::default();
    alone.take_alone(record).unwrap();
    assert_eq!(lines.line(), alone.line());
    assert_eq!(lines.piece.depth, 0);
    lines.line().to_owned()
}

#[test]
fn only_what_is_new_is_written_and_the_rest_stays() {
    let mut lines = Lines::default();
    let (host, nothing) = (word("node"), Rc::new(Thing::Null));
    for (number, expected) in [
        (9, r#"{"a": 9, "host": "node", "z": null}"#),
        (1_000, r#"{"a": 1000, "host": "node", "z": null}"#),
        (-1, r#"{"a": -1, "host": "node", "z": null}"#),
    ] {
        let record = object(&[
            ("z", nothing.clone()),
            ("host", host.clone()),
            ("a", integer(number)),
        ]);
        assert_eq!(line_of(&mut lines, &record), expected);
    }
    let longer = object(&[
        ("z", word("end")),
        ("host", word("other node")),
        ("a", nothing),
    ]);
    assert_eq!(
        line_of(&mut lines, &longer),
        r#"{"a": null, "host": "other node", "z": "end"}"#
    );
}

#[test]
fn an_object_that_changed_inside_is_written_anew() {
    let mut lines = Lines::default();
    let items = Rc::new(Thing::List(RefCell::new(vec![1])));
    let record = object(&[("items", items.clone())]);
    assert_eq!(line_of(&mut lines, &record), r#"{"items": [1]}"#);
    if let Thing::List(items) = &*items {
        items.borrow_mut().push(2);
    }
    assert_eq!(line_of(&mut lines, &record), r#"{"items": [1, 2]}"#);
}

#[test]
fn what_cannot_be_written_leaves_no_trace() {
    let mut lines = Lines::<Language>::default();
    lines
        .take(&object(&[("a", integer(1)), ("b", integer(2))]))
        .unwrap();
    let strange = object(&[("a", integer(77)), ("b", Rc::new(Thing::Strange))]);
    assert_eq!(lines.take(&strange), Err("strange"));
    assert_eq!(lines.line(), "");
    let next = object(&[("a", integer(3)), ("b", integer(4))]);
    assert_eq!(line_of(&mut lines, &next), r#"{"a": 3, "b": 4}"#);
}

#[test]
fn the_session_is_read_from_the_line() {
    let mut lines = Lines::<Language>::default();
    assert_eq!(lines.session(), Named::Unclear);
    lines.take(&object(&[("session_id", word("s-1"))])).unwrap();
    assert_eq!(lines.session(), Named::Session(b"s-1"));
    lines.take(&object(&[("session_id", word("s\n"))])).unwrap();
    assert_eq!(lines.session(), Named::Unclear);
    lines
        .take(&object(&[("session_id", Rc::new(Thing::Null))]))
        .unwrap();
    assert_eq!(lines.session(), Named::Nothing);
    lines.take(&object(&[("other", integer(1))])).unwrap();
    assert_eq!(lines.session(), Named::Nothing);
    lines
        .take_alone(&object(&[("session_id", word("s"))]))
        .unwrap();
    assert_eq!(lines.session(), Named::Unclear);
}

fn telemetry(at_ns: i64, allocated: i64, status: &Rc<Thing>, shared: &Object) -> Object {
    let mut record = shared.clone();
    let metadata = object(&[
        ("collector_health_status", status.clone()),
        ("step", integer(at_ns)),
    ]);
    record.push(("metadata".into(), Rc::new(Thing::Object(metadata))));
    record.push(("timestamp_ns".into(), integer(at_ns)));
    record.push(("allocator_allocated_bytes".into(), integer(allocated)));
    record
}

/// The fields that are the same in every record of these tests.
fn shared() -> Object {
    let texts = [
        ("session_id", "s"),
        ("event_type", "sample"),
        ("collector", "c"),
        ("host", "h"),
    ];
    let numbers = [
        ("schema_version", 3),
        ("sampling_interval_ms", 100),
        ("pid", 7),
        ("rank", 0),
        ("local_rank", 0),
        ("world_size", 1),
        ("device_id", 0),
        ("allocator_reserved_bytes", 1 << 40),
        ("allocator_change_bytes", 0),
        ("device_used_bytes", 1 << 41),
    ];
    let unknown = [
        "allocator_active_bytes",
        "allocator_inactive_bytes",
        "device_free_bytes",
        "device_total_bytes",
        "context",
        "job_id",
    ];
    let texts = texts.map(|(name, text)| (name.to_owned(), word(text)));
    let numbers = numbers.map(|(name, number)| (name.to_owned(), integer(number)));
    let unknown = unknown.map(|name| (name.to_owned(), Rc::new(Thing::Null)));
    texts.into_iter().chain(numbers).chain(unknown).collect()
}

#[test]
fn rollups_see_the_same_of_a_patched_line_as_of_a_new_one() {
    let shared = shared();
    let (healthy, degraded) = (word("healthy"), word("degraded"));
    let mut lines = Lines::<Language>::default();
    for (number, status) in [&healthy, &healthy, &degraded, &healthy, &healthy]
        .into_iter()
        .enumerate()
    {
        let number = i64::try_from(number).unwrap();
        let record = telemetry(1_000 + number, 10 * number, status, &shared);
        lines.take(&record).unwrap();
        let mut alone = Lines::<Language>::default();
        alone.take(&record).unwrap();
        let (patched, new) = (lines.observation(), alone.observation());
        assert!(new.is_some());
        assert_eq!(format!("{patched:?}"), format!("{new:?}"));
        assert_eq!(lines.line(), alone.line());
    }
}

#[test]
fn any_sequence_of_records_gives_the_lines_of_each_alone() {
    // A small generator of pseudo-random numbers with a fixed seed, so that each test run has the
    // same sequence.
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let words = [word("a"), word("longer text"), word("é \" \\ \n"), word("")];
    let numbers: Vec<Rc<Thing>> = [0, -5, 7, i64::MAX, i64::MIN].map(integer).to_vec();
    let mut lines = Lines::<Language>::default();
    for _ in 0..2_000 {
        let mut value = |deep: bool| -> Rc<Thing> {
            match random(if deep { 6 } else { 4 }) {
                0 => Rc::clone(&words[usize::try_from(random(4)).unwrap()]),
                1 => Rc::clone(&numbers[usize::try_from(random(5)).unwrap()]),
                2 => integer(i64::try_from(random(1 << 40)).unwrap()),
                3 => Rc::new(Thing::Null),
                4 => Rc::new(Thing::List(RefCell::new(vec![4, 5]))),
                _ => {
                    let leaf = integer(i64::try_from(random(100)).unwrap());
                    let inner = object(&[("y", leaf.clone()), ("x", leaf)]);
                    Rc::new(Thing::Object(object(&[(
                        "inner",
                        Rc::new(Thing::Object(inner)),
                    )])))
                }
            }
        };
        let mut record = object(&[("k", value(true)), ("c", value(false)), ("m", value(true))]);
        if random(20) == 0 {
            record.push(("extra".into(), integer(1)));
        }
        line_of(&mut lines, &record);
    }
}
