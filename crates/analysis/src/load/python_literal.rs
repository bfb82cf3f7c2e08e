//! Parses the text that Python's `repr` produces for dictionaries, lists, strings and numbers.

use stormlog_format::json::MAX_DEPTH;
use stormlog_format::{Map, Text, Value};

/// Parses a Python literal; `None` when the text is not a valid literal.
pub(crate) fn parse(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.skip_space();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_space();
        match self.rest.chars().next()? {
            '{' => self.map(depth),
            '[' => self.list("[", "]", depth),
            '(' => self.list("(", ")", depth),
            '\'' | '"' => self.string().map(Value::text),
            _ => self.word(),
        }
    }

    fn map(&mut self, depth: usize) -> Option<Value> {
        self.eat("{");
        let mut entries = Vec::new();
        while !self.eat("}") {
            let key = match self.value(depth + 1)? {
                Value::Text(text) => text,
                Value::Int(value) => Text::from(value.to_string()),
                Value::Null => "None".into(),
                Value::Bool(value) => if value { "True" } else { "False" }.into(),
                _ => return None,
            };
            if !self.eat(":") {
                return None;
            }
            entries.push((key, self.value(depth + 1)?));
            if !self.eat(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(Value::Map(Map::from_entries(entries)))
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Option<Value> {
        self.eat(open);
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value(depth + 1)?);
            if !self.eat(",") && !self.rest.starts_with(close) {
                return None;
            }
        }
        Some(Value::List(items))
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut chars = self.rest[1..].char_indices();
        let mut out = String::new();
        while let Some((index, ch)) = chars.next() {
            match ch {
                _ if ch == quote => {
                    self.rest = &self.rest[1 + index + 1..];
                    return Some(out);
                }
                '\\' => match chars.next()?.1 {
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    'x' => out.push(escaped(&mut chars, 2)?),
                    'u' => out.push(escaped(&mut chars, 4)?),
                    'U' => out.push(escaped(&mut chars, 8)?),
                    other => out.push(other),
                },
                _ => out.push(ch),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Value> {
        let end = self
            .rest
            .find([',', ':', '}', ']', ')', ' '])
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(match word {
            "None" => Value::Null,
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "nan" => Value::Float(f64::NAN),
            "inf" => Value::Float(f64::INFINITY),
            "-inf" => Value::Float(f64::NEG_INFINITY),
            _ => number(word)?,
        })
    }
}

fn number(word: &str) -> Option<Value> {
    if let Ok(value) = word.parse() {
        return Some(Value::Int(value));
    }
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Value::Big(word.into()));
    }
    let starts_like_one = digits.starts_with(|ch: char| ch.is_ascii_digit() || ch == '.');
    word.parse()
        .ok()
        .filter(|_| starts_like_one)
        .map(Value::Float)
}

fn escaped(chars: &mut std::str::CharIndices<'_>, length: usize) -> Option<char> {
    let hex: String = chars.take(length).map(|(_, ch)| ch).collect();
    let unit = u32::from_str_radix(&hex, 16)
        .ok()
        .filter(|_| hex.len() == length)?;
    // Python strings may contain lone surrogates, which are replaced by U+FFFD because Rust strings
    // cannot contain them.
    Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::{Layout, Writer};

    fn as_json(text: &str) -> Option<String> {
        parse(text).map(|value| Writer::new(Layout::Line).to_string(&value))
    }

    #[test]
    fn what_repr_writes() {
        let cases = [
            ("{}", "{}"),
            (
                "{'a': None, 'b': True, \"it's\": [1, -2.5, (3,)]}",
                r#"{"a": null, "b": true, "it's": [1, -2.5, [3]]}"#,
            ),
            (r"{'t': 'x\n\'\x41\u00e9\\'}", r#"{"t": "x\n'A\u00e9\\"}"#),
            (
                "{'x': nan, 'y': -inf, 'n': {'z': 1e-07}}",
                r#"{"x": "NaN", "y": "-Infinity", "n": {"z": 1e-07}}"#,
            ),
            (
                "{'big': 123456789012345678901}",
                r#"{"big": 123456789012345678901}"#,
            ),
        ];
        for (text, json) in cases {
            assert_eq!(as_json(text).as_deref(), Some(json), "{text}");
        }
    }

    #[test]
    fn what_is_no_literal() {
        for text in [
            "",
            "{",
            "{'a'}",
            "{'a': }",
            "[1 2]",
            "'x",
            "foo",
            "{'a': 1} x",
            "<object>",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"[".repeat(100_000)), None);
    }
}
