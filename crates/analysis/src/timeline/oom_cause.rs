//! Parses the cause of an out-of-memory error from the metadata of its event: the line of code, the
//! failed operation and the holders of the memory. The recording may come from an untrusted source,
//! so the lengths of texts and lists are limited.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::json::by_name;
use stormlog_format::{Map, Value};

use super::keeping::Keeping;
use super::track::OomMark;
use super::windows::site;
use crate::untrusted::{bytes, text};

/// The most characters of a text, and the most calls and holders, that are kept.
const LONGEST_TEXT: usize = 300;
const MOST_CALLS: usize = 32;
const MOST_HOLDERS: usize = 32;

/// The categories by which the memory in use at an out-of-memory error is listed, in the order in
/// which equally large ones are shown.
const CATEGORIES: [&str; 7] = [
    "parameters",
    "gradients",
    "optimizer_state",
    "activations",
    "inputs",
    "other_named",
    "unnamed",
];

/// The state of memory when an allocation failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    /// The library function that requested the memory; `backward` in a backward pass.
    pub operation: Option<String>,
    /// Bytes in live tensors when the allocation failed. If host memory ran out, this is the host
    /// memory of the process instead.
    pub allocated_bytes: Option<i64>,
    /// Bytes by category (`parameters`, `activations`, ..., `unnamed`), the largest first. The list
    /// is empty for host memory, or when the holders of memory could not be searched for.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<String, i64>")]
    pub categories: Vec<(String, i64)>,
    /// The largest holders of memory, in descending order.
    pub holders: Vec<Held>,
    /// Why the search for holders ended early.
    pub cut_short: Option<String>,
}

/// A holder of memory and its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Held {
    /// The holder, worded for a sentence: "`aux` in `__main__`".
    pub holder: String,
    /// The category of the held memory, such as `activations`; `host` for host memory.
    pub category: String,
    /// Bytes that the holder held.
    pub bytes: i64,
    /// What else is known about the holder.
    #[serde(skip)]
    pub keeping: Keeping,
}

impl Held {
    /// The category in the words of reports.
    #[must_use]
    pub fn category_words(&self) -> &str {
        category_words(&self.category)
    }
}

/// A category of held memory in the words of reports; an unknown category as it is.
#[must_use]
pub fn category_words(category: &str) -> &str {
    match category {
        "optimizer_state" => "optimizer state",
        "other_named" => "other tensors",
        "unnamed" => "unknown holders",
        "host" => "host memory",
        other => other,
    }
}

/// Sets the cause in `mark` from the entry `cause` of the failed request's metadata. Missing or
/// malformed values of the cause stay unknown.
pub(super) fn fill(mark: &mut OomMark, request: &Map) {
    let Some(cause) = request.object("cause") else {
        return;
    };
    mark.site = cause.object("site").and_then(site);
    let calls = cause.list("call_path").iter().filter_map(Value::as_map);
    mark.call_path = calls.filter_map(site).take(MOST_CALLS).collect();
    let sums = cause.object("categories");
    let sum = |name: &&str| Some((name.to_string(), sums.and_then(|sums| bytes(sums, name))?));
    let mut categories: Vec<(String, i64)> = CATEGORIES.iter().filter_map(sum).collect();
    categories.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let holders = cause.list("holders").iter().filter_map(|one| {
        let one = one.as_map()?;
        Some(Held {
            holder: text(one, "holder", LONGEST_TEXT)?,
            category: text(one, "category", LONGEST_TEXT)?,
            bytes: bytes(one, "bytes")?,
            keeping: Keeping::of(one),
        })
    });
    mark.failure = Some(Failure {
        operation: text(cause, "operation", LONGEST_TEXT),
        allocated_bytes: bytes(cause, "allocated_bytes"),
        categories,
        holders: holders.take(MOST_HOLDERS).collect(),
        cut_short: text(cause, "cut_short", LONGEST_TEXT),
    });
}

#[cfg(test)]
mod tests {
    use stormlog_format::json::parse;

    use super::*;

    fn read(document: &str) -> OomMark {
        let Ok(Value::Map(request)) = parse(document.as_bytes()) else {
            panic!("{document}")
        };
        let mut mark = OomMark::default();
        fill(&mut mark, &request);
        mark
    }

    #[test]
    fn a_cause_is_read_with_the_largest_category_first() {
        let mark = read(
            r#"{"cause": {"site": {"file": "/a/t.py", "line": 4, "function": "step"},
                "call_path": [{"file": "/a/t.py", "line": 9, "function": "main"}, 7],
                "operation": "Linear.forward", "allocated_bytes": 30,
                "categories": {"parameters": 10, "activations": 20, "made_up": 1},
                "holders": [{"holder": "`aux`", "category": "activations", "bytes": 20},
                            {"holder": "`x`", "category": "inputs", "bytes": -1}]}}"#,
        );
        assert_eq!(mark.site.unwrap().place(), "t.py:4");
        assert_eq!(mark.call_path.len(), 1);
        let failure = mark.failure.unwrap();
        let names: Vec<&str> = failure.categories.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["activations", "parameters"]);
        assert_eq!(failure.holders.len(), 1);
        assert_eq!(failure.allocated_bytes, Some(30));
    }

    #[test]
    fn a_malformed_cause_is_unknown() {
        assert_eq!(read(r#"{"requested_bytes": 1}"#), OomMark::default());
        assert_eq!(read(r#"{"cause": [1]}"#), OomMark::default());
        let mark = read(r#"{"cause": {"site": {"file": "t.py", "line": -1, "function": "f"}}}"#);
        assert_eq!(mark.site, None);
        let long = format!(r#"{{"cause": {{"operation": "{}"}}}}"#, "x".repeat(5000));
        let operation = read(&long).failure.unwrap().operation.unwrap();
        assert_eq!(operation.len(), LONGEST_TEXT);
    }
}
