//! What the recorder found out about a holder of memory: the line of the program that makes the
//! memory stay, and what becomes of the elements of a collection. It is parsed from events of an
//! untrusted source.

use stormlog_format::{Map, Retention, Value};

use super::windows::{LONGEST_TEXT, Site, site};
use crate::untrusted::{bytes, text};

/// Longest name of a type that is kept, in characters.
const LONGEST_KIND: usize = 64;

/// What a line does that makes memory stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepingRole {
    /// It adds an element to a collection.
    AddsItems,
    /// It assigns a variable or an attribute.
    Assigns,
    /// It registers something with an object of a library, such as a hook.
    Registers,
}

stormlog_format::names!(KeepingRole {
    AddsItems => "adds_items",
    Assigns => "assigns",
    Registers => "registers",
});

/// What is known about a holder, besides its name and its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The line that makes the memory stay, if only one line can.
    pub line: Option<(KeepingRole, Site)>,
    /// The type of a collection: "list", "dict"; empty when unknown.
    pub kind: String,
    /// Number of elements of the collection.
    pub items: Option<i64>,
    /// What becomes of the elements; `None` when that is not known.
    pub retention: Option<Retention>,
    /// The number of elements that the collection can have at most, if its type sets a bound.
    pub most_items: Option<i64>,
    /// Whether it is a dictionary whose keys look like ids.
    pub has_ids: bool,
}

impl Keeping {
    /// Parses what an event says about a holder. Missing and malformed values stay unknown.
    pub(super) fn of(holder: &Map) -> Self {
        let role = text(holder, "kept_role", LONGEST_TEXT);
        let role = role.and_then(|name| KeepingRole::parse(&name));
        let retention = text(holder, "retention", LONGEST_TEXT);
        Self {
            line: role.zip(holder.object("kept_at").and_then(site)),
            kind: text(holder, "kind", LONGEST_KIND).unwrap_or_default(),
            items: bytes(holder, "items"),
            retention: retention.and_then(|name| Retention::parse(&name)),
            most_items: bytes(holder, "most_items").filter(|&most| most > 0),
            has_ids: holder.get("has_ids") == Some(&Value::Bool(true)),
        }
    }

    /// Whether the elements of the collection are found by keys.
    pub(crate) fn is_keyed(&self) -> bool {
        self.kind.to_ascii_lowercase().contains("dict")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Keeping {
        match stormlog_format::json::parse(json.as_bytes()) {
            Ok(Value::Map(map)) => Keeping::of(&map),
            other => panic!("{other:?} is no object"),
        }
    }

    #[test]
    fn what_a_recorder_writes_is_read() {
        let found = of(
            r#"{"kept_role": "registers", "kept_at": {"file": "/a/b.py", "line": 8,
            "function": "watch"}, "kind": "OrderedDict", "items": 12, "retention": "kept",
            "most_items": 0, "has_ids": true}"#,
        );
        let (role, site) = found.line.clone().unwrap();
        assert_eq!((role, &*site.place()), (KeepingRole::Registers, "b.py:8"));
        assert_eq!((found.items, found.most_items), (Some(12), None));
        assert_eq!(found.retention, Some(Retention::Kept));
        assert!(found.is_keyed() && found.has_ids);
    }

    #[test]
    fn nonsense_is_unknown() {
        for json in [
            "{}",
            r#"{"kept_role": "adds_items"}"#,
            r#"{"kept_at": {"file": "a", "line": 1, "function": "f"}}"#,
            r#"{"kept_role": "explodes", "kept_at": {"file": "a", "line": 1, "function": "f"}}"#,
            r#"{"kept_role": "assigns", "kept_at": {"file": "a", "line": -1, "function": "f"}}"#,
            r#"{"kept_role": 7, "kept_at": [], "kind": 3, "items": -1, "retention": "x",
                "most_items": "many", "has_ids": 1}"#,
        ] {
            assert_eq!(of(json), Keeping::default(), "{json}");
        }
        let kind = "x".repeat(5000);
        assert_eq!(
            of(&format!(r#"{{"kind": "{kind}"}}"#)).kind.len(),
            LONGEST_KIND
        );
    }
}
