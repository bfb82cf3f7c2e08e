//! Parses the answer of an inspected process: a few lines of text that the watched program may have
//! forged.

use std::time::Duration;

use serde::Serialize;
use stormlog_format::{LineRole, Retention, Text};
use stormlog_redact::redacted_text;

use super::super::inbox::unescaped;

/// The largest number of holders in an answer, and the longest name of a holder in characters.
const MOST_HOLDERS: usize = 8;
const LONGEST_NAME: usize = 400;

/// The largest sizes in bytes and durations in seconds that an answer may contain; larger numbers
/// are invalid, because no process has more memory and no inspection takes longer.
const MOST_BYTES: i64 = 1 << 50;
const LONGEST_S: f64 = 3600.0;

/// The largest processor time of an inspection that counts; no inspection takes longer.
const MOST_COST: Duration = Duration::from_mins(1);

/// A Python container in the inspected process, such as a list or a dict, that holds more memory
/// than before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Holder {
    /// The name of the container, in which everything that looks like a secret is replaced.
    name: Text,
    kind: String,
    #[serde(rename = "items")]
    length: i64,
    #[serde(rename = "items_gained")]
    gained: i64,
    bytes: i64,
    #[serde(rename = "bytes_gained")]
    grown: i64,
    #[serde(flatten)]
    added: Option<Line>,
    #[serde(flatten)]
    elements: Option<Elements>,
}

/// What becomes of the elements of a container, as far as its type and the program's code show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Elements {
    retention: Retention,
    /// The number of elements that the container can have at most, if its type sets a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_items: Option<i64>,
    /// Whether the keys of a dictionary look like ids, which do not come back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_ids: bool,
}

/// A line of the inspected program's source code that explains why a holder grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line {
    file: String,
    #[serde(rename = "line")]
    number: u32,
    function: String,
    #[serde(rename = "line_role")]
    role: LineRole,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Answer {
    #[serde(skip)]
    pub(super) pid: u32,
    seconds: f64,
    /// The growth of the memory of the process in bytes, and the part of this growth that Python
    /// objects explain.
    #[serde(rename = "grown_bytes")]
    grown: i64,
    #[serde(rename = "objects_bytes")]
    objects: i64,
    /// Whether the process inspected all of its Python objects, and not only a part of them.
    is_complete: bool,
    cost_us: i64,
    pub(super) is_final: bool,
    holders: Vec<Holder>,
}

impl Answer {
    /// Parses the text that an inspected process wrote; `None` when a line does not have the
    /// expected format.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut answer = Self::default();
        for line in text.lines() {
            let (key, value) = line.split_once(' ')?;
            match key {
                "pid" => answer.pid = value.parse().ok()?,
                "time_ns" => value.parse::<i64>().map(|_| ()).ok()?,
                "seconds" => answer.seconds = seconds(value)?,
                "grown" => answer.grown = bytes(value)?,
                "objects" => answer.objects = bytes(value)?,
                "complete" => answer.is_complete = flag(value)?,
                "cost_us" => answer.cost_us = bytes(value)?,
                "final" => answer.is_final = flag(value)?,
                "holder" if answer.holders.len() < MOST_HOLDERS => {
                    answer.holders.push(Holder::parse(value)?);
                }
                "retention" => {
                    answer.holders.last_mut()?.elements = Some(Elements::parse(value)?);
                }
                "added" | "disabled" | "created" | "summed" => {
                    let line = Line::parse(value, LineRole::parse(key)?)?;
                    answer.holders.last_mut()?.added = Some(line);
                }
                _ => return None,
            }
        }
        (answer.pid > 0 && answer.seconds > 0.0).then_some(answer)
    }

    /// The processor time that the inspection took.
    pub(super) fn cost(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.cost_us).unwrap_or(0)).min(MOST_COST)
    }

    /// Whether a single holder explains more than half of the growth of the process.
    pub(super) fn names_most(&self) -> bool {
        let most = self.holders.iter().map(|holder| holder.grown).max();
        most.is_some_and(|most| most > self.grown / 2)
    }
}

impl Holder {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let holder = Self {
            kind: name(words.next()?)?,
            length: bytes(words.next()?)?,
            gained: bytes(words.next()?)?,
            bytes: bytes(words.next()?)?,
            grown: bytes(words.next()?)?,
            name: redacted_text(name(words.next()?)?.into()),
            added: None,
            elements: None,
        };
        words.next().is_none().then_some(holder)
    }
}

impl Elements {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let elements = Self {
            retention: Retention::parse(words.next()?)?,
            most_items: Some(bytes(words.next()?)?).filter(|&most| most > 0),
            has_ids: flag(words.next()?)?,
        };
        words.next().is_none().then_some(elements)
    }
}

impl Line {
    fn parse(text: &str, role: LineRole) -> Option<Self> {
        let mut words = text.split(' ');
        let line = Self {
            role,
            number: words.next()?.parse().ok()?,
            function: name(words.next()?)?,
            file: name(words.next()?)?,
        };
        words.next().is_none().then_some(line)
    }
}

/// A name from the answer without control characters, cut to the longest allowed length.
fn name(text: &str) -> Option<String> {
    let text = unescaped(text);
    let plain = text.chars().filter(|letter| !letter.is_control());
    let plain: String = plain.take(LONGEST_NAME).collect();
    (!plain.trim().is_empty()).then_some(plain)
}

fn bytes(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (-MOST_BYTES..=MOST_BYTES)
        .contains(&number)
        .then_some(number)
}

fn seconds(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (0.0..=LONGEST_S).contains(&number).then_some(number)
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "pid 7\ntime_ns 5\nseconds 4.2\ngrown 1000\nobjects 900\ncomplete 1\n\
                          cost_us 5000\nfinal 1\n\
                          holder list 12 3 4000 800 `kept`\\sin\\s`__main__`\n\
                          retention kept 0 1\n\
                          added 31 <module> /home/ada/train\\sme.py\n\
                          holder dict 1 1 9 9 api_key=abcdef0123456789\n";

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let answer = Answer::parse(ANSWER).unwrap();
        assert!(answer.is_final && answer.is_complete && answer.names_most());
        let [kept, key] = &answer.holders[..] else {
            panic!("{answer:?}")
        };
        assert_eq!(kept.name, "`kept` in `__main__`");
        let line = kept.added.as_ref().unwrap();
        assert_eq!((line.number, &*line.file), (31, "/home/ada/train me.py"));
        assert_eq!(line.role, LineRole::Added);
        let created = ANSWER.replacen("added 31", "created 31", 1);
        let created = Answer::parse(&created).unwrap();
        let line = created.holders[0].added.as_ref().unwrap();
        assert_eq!(line.role, LineRole::Created);
        assert_eq!(created.cost(), Duration::from_millis(5));
        let elements = kept.elements.as_ref().unwrap();
        assert_eq!(elements.retention, Retention::Kept);
        assert!(elements.has_ids && elements.most_items.is_none());
        assert!(!key.name.to_str_lossy().contains("abcdef"), "{key:?}");
    }

    #[test]
    fn anything_else_is_refused() {
        for (from, to) in [
            ("pid 7", "pid -7"),
            ("pid 7\n", ""),
            ("seconds 4.2", "seconds NaN"),
            ("seconds 4.2", "seconds 1e300"),
            ("grown 1000", "grown 99999999999999999999"),
            ("complete 1", "complete yes"),
            ("holder list 12", "holder list twelve"),
            ("added 31", "added 99999999999"),
            ("retention kept", "retention forever"),
            ("kept 0 1", "kept 0 2"),
            ("`__main__`\n", "`__main__` more\n"),
            ("time_ns 5", "unknown 5"),
            ("time_ns 5\n", "garbage\n"),
        ] {
            assert!(ANSWER.contains(from), "{from}");
            assert_eq!(Answer::parse(&ANSWER.replacen(from, to, 1)), None, "{to}");
        }
        assert_eq!(Answer::parse("added 1 f x\n"), None);
        let many = "holder list 1 1 1 1 x\n".repeat(MOST_HOLDERS + 1);
        assert_eq!(Answer::parse(&format!("pid 7\nseconds 1\n{many}")), None);
        let long = format!(
            "pid 7\nseconds 1\nholder list 1 1 1 1 {}\n",
            "x".repeat(9000)
        );
        let answer = Answer::parse(&long).unwrap();
        assert_eq!(answer.holders[0].name.as_bytes().len(), LONGEST_NAME);
    }
}
