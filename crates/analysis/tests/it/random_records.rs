//! Generates random records as text: mostly valid, sometimes not, in every layout.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use stormlog_format::FIELDS;

/// A value as JSON text, for the field with the given number.
fn value(field: usize) -> BoxedStrategy<String> {
    let small = (0..5_i64).prop_map(|n| n.to_string());
    let bytes = prop_oneof![
        3 => (0..1_i64 << 40).prop_map(|n| n.to_string()),
        1 => Just("null".to_owned()),
    ];
    match FIELDS[field] {
        "schema_version" => prop_oneof![20 => Just("3"), 1 => Just("2"), 1 => Just("4")]
            .prop_map(str::to_owned)
            .boxed(),
        "rank" | "local_rank" => prop_oneof![6 => Just("0".to_owned()), 1 => small].boxed(),
        "world_size" => (1..5_i64).prop_map(|n| n.to_string()).boxed(),
        "session_id" | "event_type" | "collector" | "host" => name().boxed(),
        "job_id" | "context" => prop_oneof![Just("null".to_owned()), name(), any_string()].boxed(),
        "metadata" => object().boxed(),
        "device_used_bytes" | "device_free_bytes" => {
            (0..1_i64 << 30).prop_map(|n| n.to_string()).boxed()
        }
        "device_total_bytes" => select(vec!["null", "1099511627776", "1073741824"])
            .prop_map(str::to_owned)
            .boxed(),
        name if name.ends_with("_bytes") => bytes.boxed(),
        _ => (0..1_i64 << 50).prop_map(|n| n.to_string()).boxed(),
    }
}

/// A string that is likely to be repeated in the next record.
fn name() -> impl Strategy<Value = String> {
    let usual = select(vec!["sample", "node-01", "a b", "stop", "\u{e9}t\u{e9}"]);
    prop_oneof![8 => usual.prop_map(|text| format!("\"{text}\"")), 1 => any_string()]
}

fn any_string() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[ -!#-\\[\\]-~]{0,6}",
        1 => select(vec![
            "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\u0000",
            "\u{2028}", "\u{85}", "\u{e9}", "\u{1f600}", "\\u00e9", " ", "\t", "\u{7f}",
        ])
        .prop_map(str::to_owned),
    ];
    vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

/// Any JSON value, including Python's extensions, and sometimes invalid text.
fn any_value() -> impl Strategy<Value = String> {
    let odd = select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "1.5",
        "1e5",
        "1E400",
        "NaN",
        "Infinity",
        "-Infinity",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "01",
        "1.",
        ".5",
        "--1",
        "nul",
        "\"",
        "[",
        "{",
        "[]",
        "{}",
        "[1,2]",
        "",
        "\"\"",
        "\" \"",
    ]);
    prop_oneof![odd.prop_map(str::to_owned), any_string(), object()]
}

fn object() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        select(vec![
            "null",
            "true",
            "0",
            "-1.5",
            "NaN",
            "1e22",
            "12345678901234567890"
        ])
        .prop_map(str::to_owned),
        any_string(),
    ];
    let value = scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            vec((any_string(), inner), 0..3).prop_map(braced),
        ]
    });
    prop_oneof![
        3 => select(vec!["{}", r#"{"step": 1}"#, r#"{"step": 2}"#, r#"{"a": {"b": [1]}}"#])
            .prop_map(str::to_owned),
        2 => vec((any_string(), value), 0..3).prop_map(braced),
    ]
}

fn braced(entries: Vec<(String, String)>) -> String {
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// White space between the parts of a record.
#[derive(Clone, Copy, Debug)]
struct Layout {
    comma: &'static str,
    colon: &'static str,
    inside: &'static str,
}

const LAYOUTS: [Layout; 5] = [
    Layout {
        comma: ", ",
        colon: ": ",
        inside: "",
    },
    Layout {
        comma: ",",
        colon: ":",
        inside: "",
    },
    Layout {
        comma: ",\n  ",
        colon: ": ",
        inside: "\n",
    },
    Layout {
        comma: " ,\t",
        colon: " : ",
        inside: "  ",
    },
    Layout {
        comma: ",",
        colon: ":\r\n",
        inside: "\t",
    },
];

/// A change that is made to a valid record.
#[derive(Clone, Debug)]
enum Change {
    Drop(Index),
    Replace(Index, String),
    Repeat(Index, String),
    Add(String, String),
    EscapeKey(Index),
    Shuffle(Vec<Index>),
    CutText(Index),
    InsertByte(Index, u8),
    Append(&'static [u8]),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => any::<Index>().prop_map(Change::Drop),
        4 => (any::<Index>(), any_value()).prop_map(|(place, value)| Change::Replace(place, value)),
        1 => (any::<Index>(), any_value()).prop_map(|(place, value)| Change::Repeat(place, value)),
        1 => (any_string(), any_value()).prop_map(|(key, value)| Change::Add(key, value)),
        1 => any::<Index>().prop_map(Change::EscapeKey),
        1 => vec(any::<Index>(), FIELDS.len()).prop_map(Change::Shuffle),
        1 => any::<Index>().prop_map(Change::CutText),
        2 => select(vec![&b" "[..], b"x", b" \t", b"{}"]).prop_map(Change::Append),
        2 => (any::<Index>(), select(b"\0 \t\n\"{}[]:,x0-e\\\x80\xff".to_vec()))
            .prop_map(|(place, byte)| Change::InsertByte(place, byte)),
    ]
}

/// The bytes of a record, shown as text where a property fails.
#[derive(Clone)]
pub(crate) struct Record(pub(crate) Vec<u8>);

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl std::borrow::Borrow<[u8]> for Record {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// One record as bytes, mostly valid. With `one_line`, the layout contains no newlines.
pub(crate) fn record(one_line: bool) -> impl Strategy<Value = Record> {
    let values: Vec<_> = (0..FIELDS.len()).map(value).collect();
    let layouts = if one_line {
        LAYOUTS[..2].to_vec()
    } else {
        LAYOUTS.to_vec()
    };
    let changes = weighted(0.4, vec(change(), 1..3));
    let sorted = any::<bool>();
    (values, select(layouts), sorted, changes).prop_map(|(values, layout, sorted, changes)| {
        let keys = FIELDS.iter().map(|key| format!("\"{key}\""));
        let mut entries: Vec<(String, String)> = keys.zip(values).collect();
        if sorted {
            entries.sort();
        }
        let changes = changes.unwrap_or_default();
        for change in &changes {
            change_entries(&mut entries, change);
        }
        let entries: Vec<String> = entries
            .into_iter()
            .map(|(key, value)| format!("{key}{}{value}", layout.colon))
            .collect();
        let Layout { comma, inside, .. } = layout;
        let mut text = format!("{{{inside}{}{inside}}}", entries.join(comma)).into_bytes();
        for change in &changes {
            match change {
                Change::CutText(place) => text.truncate(place.index(text.len() + 1)),
                Change::InsertByte(place, byte) => {
                    text.insert(place.index(text.len() + 1), *byte);
                }
                Change::Append(end) => text.extend_from_slice(end),
                _ => {}
            }
        }
        Record(text)
    })
}

fn change_entries(entries: &mut Vec<(String, String)>, change: &Change) {
    match change {
        Change::Drop(place) if !entries.is_empty() => {
            entries.remove(place.index(entries.len()));
        }
        Change::Replace(place, value) if !entries.is_empty() => {
            let place = place.index(entries.len());
            entries[place].1.clone_from(value);
        }
        Change::Repeat(place, value) if !entries.is_empty() => {
            let key = entries[place.index(entries.len())].0.clone();
            entries.push((key, value.clone()));
        }
        Change::Add(key, value) => entries.push((key.clone(), value.clone())),
        Change::EscapeKey(place) if !entries.is_empty() => {
            let place = place.index(entries.len());
            entries[place].0 = entries[place].0.replacen('e', "\\u0065", 1);
        }
        Change::Shuffle(places) => {
            for (from, place) in places.iter().enumerate().take(entries.len()) {
                let to = place.index(entries.len());
                entries.swap(from, to);
            }
        }
        _ => {}
    }
}
