//! Writes JSON exactly like Python's `json.dumps`: only ASCII, with the same number formats and
//! separators. The hashes in Stormlog's files depend on every byte of the JSON text that this
//! module writes.

use std::fmt::Write as _;

use crate::float_repr::float_repr;
use crate::text::{Text, code_points};
use crate::value::{Map, Value};

/// The white space and the line ends in a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The whole text is on one line, with `, ` and `: ` between the parts.
    Line,
    /// The whole text is on one line, with `,` and `:` between the parts.
    Compact,
    /// Each entry of a list or object is on its own line, indented by two spaces per level.
    Indented,
}

/// How to write NaN and the infinities, which strict JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonFinite {
    /// Writes `NaN`, `Infinity` and `-Infinity` without quotes, as Python does. Record ids and
    /// fingerprints are hashes of this form.
    Bare,
    /// Writes `NaN`, `Infinity` and `-Infinity` in quotes, so that a file is strict JSON. This is
    /// the default.
    Quoted,
}

/// Writes values as JSON text with the given layout and order of keys.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    layout: Layout,
    sort_keys: bool,
    non_finite: NonFinite,
}

impl Writer {
    /// Makes a writer for files: strict JSON, with the keys of each object in the order in which
    /// the object stores them.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            sort_keys: false,
            non_finite: NonFinite::Quoted,
        }
    }

    /// Makes the writer sort object keys.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sort_keys = true;
        self
    }

    /// Sets how the writer writes NaN and the infinities.
    #[must_use]
    pub fn non_finite(mut self, non_finite: NonFinite) -> Self {
        self.non_finite = non_finite;
        self
    }

    /// The value as JSON text.
    pub fn to_string(self, value: &Value) -> String {
        let mut out = String::new();
        self.value(&mut out, value, 0);
        out
    }

    /// The object as JSON text.
    pub fn map_to_string(self, map: &Map) -> String {
        let mut out = String::new();
        self.map(&mut out, map, 0);
        out
    }

    /// Appends an object to `out` as JSON text.
    pub fn push_map(self, out: &mut String, map: &Map) {
        self.map(out, map, 0);
    }

    /// Appends a value as JSON to `out` at the given indentation level.
    pub fn value(self, out: &mut String, value: &Value, depth: usize) {
        match value {
            // A Python object without a JSON form is written as null; callers replace such objects
            // first.
            Value::Null | Value::Opaque(_) => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Int(value) => push_integer(out, *value),
            Value::Big(digits) => out.push_str(digits),
            Value::Float(value) => self.float(out, *value),
            Value::Text(text) => push_text(out, text),
            Value::List(items) => self.list(out, items, depth),
            Value::Map(map) => self.map(out, map, depth),
        }
    }

    fn float(self, out: &mut String, value: f64) {
        if !value.is_finite() && self.non_finite == NonFinite::Quoted {
            let _ = write!(out, "\"{}\"", float_repr(value));
        } else {
            out.push_str(&float_repr(value));
        }
    }

    fn list(self, out: &mut String, items: &[Value], depth: usize) {
        if items.is_empty() {
            out.push_str("[]");
            return;
        }
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            self.separate(out, index, depth + 1);
            self.value(out, item, depth + 1);
        }
        self.close(out, depth);
        out.push(']');
    }

    fn map(self, out: &mut String, map: &Map, depth: usize) {
        if map.is_empty() {
            out.push_str("{}");
            return;
        }
        out.push('{');
        let mut entries: Vec<(&Text, &Value)> = map.iter().collect();
        if self.sort_keys {
            entries.sort_by_key(|entry| entry.0);
        }
        for (index, (key, value)) in entries.into_iter().enumerate() {
            self.separate(out, index, depth + 1);
            push_text(out, key);
            out.push_str(if self.layout == Layout::Compact {
                ":"
            } else {
                ": "
            });
            self.value(out, value, depth + 1);
        }
        self.close(out, depth);
        out.push('}');
    }

    fn separate(self, out: &mut String, index: usize, depth: usize) {
        if index > 0 {
            out.push_str(if self.layout == Layout::Line {
                ", "
            } else {
                ","
            });
        }
        if self.layout == Layout::Indented {
            new_line(out, depth);
        }
    }

    fn close(self, out: &mut String, depth: usize) {
        if self.layout == Layout::Indented {
            new_line(out, depth);
        }
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Appends a string in quotes; characters outside ASCII are escaped.
pub fn push_text(out: &mut String, text: &Text) {
    match text.as_str() {
        Some(plain) => push_quoted(out, plain),
        None => push_escaped(out, text.as_bytes()),
    }
}

/// Appends the decimal digits of an integer to `out`.
#[inline]
pub fn push_integer(out: &mut String, value: i64) {
    out.push_str(itoa::Buffer::new().format(value));
}

/// Appends a string in quotes; characters outside ASCII are escaped.
pub fn push_quoted(out: &mut String, text: &str) {
    // The loop over the bytes has no early exit, so that the compiler can check many bytes at a
    // time.
    if text
        .bytes()
        .fold(true, |plain, byte| plain & is_plain(byte))
    {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        push_escaped(out, text.as_bytes());
    }
}

fn push_escaped(out: &mut String, text: &[u8]) {
    out.push('"');
    for unit in code_points(text) {
        escape(out, unit);
    }
    out.push('"');
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

fn escape(out: &mut String, unit: u32) {
    match unit {
        0x22 => out.push_str("\\\""),
        0x5c => out.push_str("\\\\"),
        0x0a => out.push_str("\\n"),
        0x0d => out.push_str("\\r"),
        0x09 => out.push_str("\\t"),
        0x08 => out.push_str("\\b"),
        0x0c => out.push_str("\\f"),
        0x20..=0x7e => out.extend(char::from_u32(unit)),
        0x1_0000.. => {
            let offset = unit - 0x1_0000;
            let _ = write!(
                out,
                "\\u{:04x}\\u{:04x}",
                0xd800 + (offset >> 10),
                0xdc00 + (offset & 0x3ff)
            );
        }
        _ => {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn layouts() {
        let value = parse(br#"{"b": [1, {}], "a": "\u00e9\ud83d\ude00\n"}"#).expect("valid");
        assert_eq!(
            Writer::new(Layout::Line).sorted().to_string(&value),
            r#"{"a": "\u00e9\ud83d\ude00\n", "b": [1, {}]}"#
        );
        assert_eq!(
            Writer::new(Layout::Compact).to_string(&value),
            r#"{"b":[1,{}],"a":"\u00e9\ud83d\ude00\n"}"#
        );
        assert_eq!(
            Writer::new(Layout::Indented).sorted().to_string(&value),
            "{\n  \"a\": \"\\u00e9\\ud83d\\ude00\\n\",\n  \"b\": [\n    1,\n    {}\n  ]\n}"
        );
    }

    #[test]
    fn not_a_number_is_a_string_in_files() {
        let value = Value::List(vec![
            Value::Float(f64::NAN),
            Value::Float(f64::NEG_INFINITY),
        ]);
        assert_eq!(
            Writer::new(Layout::Line).to_string(&value),
            r#"["NaN", "-Infinity"]"#
        );
        let bare = Writer::new(Layout::Line).non_finite(NonFinite::Bare);
        assert_eq!(bare.to_string(&value), "[NaN, -Infinity]");
    }
}
