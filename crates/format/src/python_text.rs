//! Formats values like Python's `str`, for ids and labels that stormlog 0.3.9 defined.

use std::fmt::Write as _;

use crate::float_repr::float_repr;
use crate::text::{Text, push_code_point};
use crate::value::{Map, Value};

/// The value in the format of Python's `str(value)`.
pub fn python_str(value: &Value) -> Text {
    match value {
        Value::Text(text) => text.clone(),
        other => {
            let mut out = String::new();
            repr(&mut out, other);
            out.into()
        }
    }
}

fn repr(out: &mut String, value: &Value) {
    match value {
        // An opaque Python object has its own `str`, which only Python can compute. Callers replace
        // opaque Python objects before they format a value.
        Value::Null | Value::Opaque(_) => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Big(digits) => out.push_str(digits),
        Value::Float(value) => out.push_str(&match float_repr(*value).as_str() {
            "NaN" => "nan".to_owned(),
            "Infinity" => "inf".to_owned(),
            "-Infinity" => "-inf".to_owned(),
            digits => digits.to_owned(),
        }),
        Value::Text(text) => text_repr(out, text),
        Value::List(items) => list_repr(out, items),
        Value::Map(map) => map_repr(out, map),
    }
}

fn list_repr(out: &mut String, items: &[Value]) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        repr(out, item);
    }
    out.push(']');
}

fn map_repr(out: &mut String, map: &Map) {
    out.push('{');
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        text_repr(out, key);
        out.push_str(": ");
        repr(out, value);
    }
    out.push('}');
}

/// Appends a string in single quotes, or in double quotes if the string contains single but no
/// double quotes.
fn text_repr(out: &mut String, text: &Text) {
    let holds = |quote: char| text.code_points().any(|unit| unit == quote as u32);
    let quote = if holds('\'') && !holds('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for unit in text.code_points() {
        match char::from_u32(unit) {
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(ch) if ch == quote => {
                out.push('\\');
                out.push(ch);
            }
            Some(ch) if is_printable(ch) => out.push(ch),
            _ => escape(out, unit),
        }
    }
    out.push(quote);
}

fn escape(out: &mut String, unit: u32) {
    let _ = match unit {
        0..=0xff => write!(out, "\\x{unit:02x}"),
        0x100..=0xffff => write!(out, "\\u{unit:04x}"),
        _ => write!(out, "\\U{unit:08x}"),
    };
}

/// Whether Python prints a character unchanged: it is not a control, format, private or unassigned
/// character, and no space except the plain space. Rust's `escape_debug` uses the same categories
/// as Python, but also escapes a combining mark at the start of a text; so a letter is put before
/// the tested character.
fn is_printable(ch: char) -> bool {
    if ch.is_ascii() {
        return (' '..='~').contains(&ch);
    }
    let mut bytes = vec![b'a'];
    push_code_point(&mut bytes, ch as u32);
    std::str::from_utf8(&bytes).is_ok_and(|text| text.escape_debug().nth(1) == Some(ch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn as_python_spells_them() {
        let cases = [
            ("null", "None"),
            ("true", "True"),
            ("1e22", "1e+22"),
            ("-Infinity", "-inf"),
            (r#""a'b""#, "a'b"),
            (r#"["a'b", "a'\"b", 1.0]"#, r#"["a'b", 'a\'"b', 1.0]"#),
            (
                r#"{"k": [], "\u00e9\u200b\u0301": {}}"#,
                "{'k': [], 'é\\u200b\u{301}': {}}",
            ),
            (
                r#"["\ud800\u0001\u2028\ue000"]"#,
                r"['\ud800\x01\u2028\ue000']",
            ),
        ];
        for (json, text) in cases {
            let value = parse(json.as_bytes()).expect("valid JSON");
            assert_eq!(python_str(&value), text, "{json}");
        }
    }
}
