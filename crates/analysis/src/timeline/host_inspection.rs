//! Inspections of a process's host memory while the process ran: which Python containers grew, and
//! which memory mappings grew in the same time.

use stormlog_format::{LineRole, Map, Retention, Value, metadata_keys, whole};

use super::windows::{Site, site};
use crate::untrusted::{bytes, maps, text};

/// Maximum number of holders (Python containers that grew), and of memory mappings, that are read
/// per inspection.
const MOST: usize = 16;
/// Longest name of a holder or mapping in characters; longer names are cut.
const LONGEST_NAME: usize = 512;

/// A holder that held more at the end of an inspection than at its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHolder {
    /// The path of the holder in the user's program: "`kept` in `__main__`".
    pub name: String,
    /// Number of elements in the holder at the end of the inspection.
    pub items: i64,
    /// Number of elements added to the holder during the inspection.
    pub items_gained: i64,
    /// Estimated bytes held at the end of the inspection.
    pub bytes: i64,
    /// Bytes that the holder gained during the inspection.
    pub bytes_gained: i64,
    /// The line of the program that explains the growth, if there is exactly one, and what it does.
    pub added_at: Option<Site>,
    /// See `added_at`.
    pub line_role: LineRole,
    /// The type of the holder: "list", "dict".
    pub kind: String,
    /// What becomes of its elements; `None` when that is not known.
    pub retention: Option<Retention>,
    /// The number of elements that it can have at most, if its type sets a bound.
    pub most_items: Option<i64>,
    /// Whether it is a dictionary whose keys look like ids.
    pub has_ids: bool,
}

/// The result of one inspection of a process's host memory: which Python containers and which
/// memory mappings grew while the process ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostInspection {
    /// When the inspection was recorded, in nanoseconds since 1970.
    pub at_ns: Option<i64>,
    /// Bytes by which the memory of the process grew during the inspection of Python objects, as
    /// the process measured it.
    pub grown_bytes: Option<i64>,
    /// Duration of the inspection of Python objects in milliseconds; `None` for a process that was
    /// only measured from outside.
    pub inside_ms: Option<i64>,
    /// Bytes gained by all Python objects during the inspection.
    pub objects_bytes: Option<i64>,
    /// Whether all Python objects were examined.
    pub is_complete: bool,
    /// Whether a Python interpreter in the process responded.
    pub is_python: bool,
    /// The holders that gained memory, the largest gain first.
    pub holders: Vec<HostHolder>,
    /// Time between the two readings of memory mappings that are compared, in milliseconds.
    pub mapped_ms: Option<i64>,
    /// Growth of the private memory mappings in bytes, by name, the largest first.
    pub mappings: Vec<(String, i64)>,
    /// Growth of all private memory mappings together, in bytes.
    pub mapped_bytes: Option<i64>,
    /// Growth of the process's anonymous memory between the two readings of memory mappings, in
    /// bytes.
    pub anonymous_bytes: Option<i64>,
}

impl HostInspection {
    /// Parses an inspection and the pid of the inspected process from the metadata of an event;
    /// `None` when the metadata contains no inspection of host memory.
    pub(super) fn of(metadata: &Map) -> Option<(i64, Self)> {
        let about = metadata.object(metadata_keys::EVIDENCE)?;
        if text(about, "resource", LONGEST_NAME)? != "host" || ended(metadata).is_some() {
            return None;
        }
        let is_set = |key: &str| about.get(key) == Some(&Value::Bool(true));
        let mapping =
            |one: &Map| Some((text(one, "name", LONGEST_NAME)?, bytes(one, "grown_bytes")?));
        let look = Self {
            at_ns: None,
            grown_bytes: bytes(about, "grown_bytes"),
            inside_ms: millis(about, "seconds"),
            objects_bytes: bytes(about, "objects_bytes"),
            is_complete: is_set("is_complete"),
            is_python: is_set("is_python"),
            holders: maps(about, "holders", MOST)
                .filter_map(HostHolder::of)
                .collect(),
            mapped_ms: millis(about, "mapped_seconds"),
            mappings: maps(about, "mappings", MOST).filter_map(mapping).collect(),
            mapped_bytes: bytes(about, "mapped_bytes"),
            anonymous_bytes: bytes(about, "anonymous_bytes"),
        };
        Some((about.int("pid")?, look))
    }
}

/// The pid of the process whose Python program has ended, if the metadata of an event says so.
pub(super) fn ended(metadata: &Map) -> Option<i64> {
    let about = metadata.object(metadata_keys::EVIDENCE)?;
    let has_ended = about.get("has_ended") == Some(&Value::Bool(true));
    about.int("pid").filter(|_| has_ended)
}

impl HostHolder {
    fn of(about: &Map) -> Option<Self> {
        Some(Self {
            name: text(about, "name", LONGEST_NAME)?,
            items: bytes(about, "items")?,
            items_gained: bytes(about, "items_gained")?,
            bytes: bytes(about, "bytes")?,
            bytes_gained: bytes(about, "bytes_gained")?,
            added_at: site(about),
            line_role: text(about, "line_role", LONGEST_NAME)
                .and_then(|name| LineRole::parse(&name))
                .unwrap_or(LineRole::Added),
            kind: text(about, "kind", LONGEST_NAME).unwrap_or_default(),
            retention: text(about, "retention", LONGEST_NAME)
                .and_then(|name| Retention::parse(&name)),
            most_items: bytes(about, "most_items").filter(|&most| most > 0),
            has_ids: about.get("has_ids") == Some(&Value::Bool(true)),
        })
    }
}

fn millis(map: &Map, key: &str) -> Option<i64> {
    let seconds = map.get(key)?.as_number()?;
    let millis = whole(seconds * 1000.0);
    (millis > 0).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Option<(i64, HostInspection)> {
        match stormlog_format::json::parse(json.as_bytes()) {
            Ok(Value::Map(map)) => HostInspection::of(&map),
            other => panic!("{other:?} is no object"),
        }
    }

    #[test]
    fn what_is_wrong_is_left_out() {
        let (pid, look) = of(
            r#"{"evidence": {"resource": "host", "pid": 7, "seconds": 4.2, "is_complete": true,
            "objects_bytes": -3, "mapped_seconds": "x", "mappings": [{"name": "[heap]", "grown_bytes": 9}, 3],
            "holders": [{"name": "", "items": 1}, {"name": "`a`", "items": 3, "items_gained": 1,
            "bytes": 30, "bytes_gained": 10, "file": "a.py", "line": -1, "function": "f"}]}}"#,
        )
        .unwrap();
        assert_eq!(
            (pid, look.inside_ms, look.objects_bytes),
            (7, Some(4200), None)
        );
        assert_eq!(
            (look.mapped_ms, look.mappings),
            (None, vec![("[heap]".into(), 9)])
        );
        assert_eq!(look.holders.len(), 1);
        assert_eq!(look.holders[0].added_at, None);
        assert_eq!(
            of(r#"{"evidence": {"resource": "cuda:0", "pid": 7}}"#),
            None
        );
        assert_eq!(
            of(r#"{"evidence": {"resource": "host", "pid": 7, "has_ended": true}}"#),
            None
        );
        assert_eq!(of(r#"{"evidence": []}"#), None);
    }
}
