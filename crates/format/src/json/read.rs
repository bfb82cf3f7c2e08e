//! Parses JSON text; an implementation of [`Build`] creates the results that the caller needs
//! (values, nothing, or objects of another language).

use crate::text::{Text, push_code_point};
use crate::value::{Map, Value};

/// The deepest nesting of lists and objects that is accepted; the limit keeps a document from
/// exhausting the stack.
pub const MAX_DEPTH: usize = 512;

/// The largest number of values and keys in a text that is parsed to a [`Value`]: a value takes many
/// times as much memory as its text. The largest documents of Stormlog, the timelines of diagnose
/// bundles, have some hundred thousand.
const MOST_VALUES: usize = 1 << 22;
/// The largest number of values and keys in the text of one record; an event has some dozens. Each
/// thread of a reader parses a record of its own.
const MOST_VALUES_OF_RECORD: usize = 1 << 18;

/// Why a text is not JSON, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct JsonError {
    /// The kind of error.
    pub kind: JsonErrorKind,
    /// The byte offset of the error in the text.
    pub offset: usize,
}

/// The kind of error in a text that should be JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// A value must begin at the offset of the error, but none does.
    #[error("expected a value")]
    ExpectedValue,
    /// A string has no closing quote.
    #[error("unterminated string")]
    UnterminatedString,
    /// A string contains a raw control character.
    #[error("control character in a string")]
    ControlCharacter,
    /// A backslash is followed by an unknown character.
    #[error("invalid escape in a string")]
    InvalidEscape,
    /// The key of an object is missing or not in double quotes.
    #[error("expected a key in double quotes")]
    ExpectedKey,
    /// The colon after a key is missing.
    #[error("expected ':'")]
    ExpectedColon,
    /// After an entry of a list or object, neither a comma nor the end of the list or object
    /// follows.
    #[error("expected ',' or the end of the list or object")]
    ExpectedComma,
    /// Other text follows the JSON value.
    #[error("unexpected text after the document")]
    TrailingText,
    /// Lists and objects are nested too deeply.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The text has more values than are kept in memory.
    #[error("too many values")]
    TooManyValues,
}

/// Creates the results of parsing: the [`Reader`] calls one method for each key and each value that
/// it reads.
pub trait Build<'a> {
    /// The type of the result for a key of a JSON object.
    type Key;
    /// The type of the result for a JSON value.
    type Value;
    /// Whether the next value is refused, because the text has too many of them.
    fn is_full(&mut self) -> bool {
        false
    }
    /// Creates the result for a key of a JSON object.
    fn key(&mut self, key: RawString<'a>) -> Self::Key;
    /// Creates the result for `null`.
    fn null(&mut self) -> Self::Value;
    /// Creates the result for `true` or `false`.
    fn boolean(&mut self, value: bool) -> Self::Value;
    /// Creates the result for a number.
    fn number(&mut self, number: RawNumber<'a>) -> Self::Value;
    /// Creates the result for a string.
    fn string(&mut self, string: RawString<'a>) -> Self::Value;
    /// Creates the result for a list.
    fn list(&mut self, items: Vec<Self::Value>) -> Self::Value;
    /// Creates the result for an object; its keys are in the order of the JSON text and may be
    /// repeated.
    fn map(&mut self, entries: Vec<(Self::Key, Self::Value)>) -> Self::Value;
}

/// A JSON string as it appears in the text, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawString<'a> {
    /// The bytes between the quotes.
    pub bytes: &'a [u8],
    /// Whether the string contains escapes.
    pub escaped: bool,
}

impl RawString<'_> {
    /// The string with escapes resolved.
    pub fn decode(&self) -> Text {
        if self.escaped {
            Text::from_wtf8(unescape(self.bytes))
        } else {
            Text::from_wtf8(self.bytes.to_vec())
        }
    }
}

/// A JSON number as it appears in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawNumber<'a> {
    /// The characters of the number.
    pub text: &'a str,
    /// Whether the number has a fraction or an exponent, or is not finite.
    pub is_float: bool,
}

impl RawNumber<'_> {
    /// The number as a [`Value`].
    pub fn decode(&self) -> Value {
        if self.is_float {
            return Value::Float(match self.text {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                text => text.parse().unwrap_or(f64::NAN),
            });
        }
        match self.text.parse() {
            Ok(value) => Value::Int(value),
            Err(_) => Value::Big(self.text.into()),
        }
    }
}

/// Parses a text that consists of one JSON value, with or without white space around it.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    parse_bounded(text, MOST_VALUES)
}

/// Like [`parse`], for the text of one record of a file with many: it may have fewer values.
pub fn parse_record(text: &[u8]) -> Result<Value, JsonError> {
    parse_bounded(text, MOST_VALUES_OF_RECORD)
}

fn parse_bounded(text: &[u8], most_values: usize) -> Result<Value, JsonError> {
    let mut reader = Reader::new(text);
    let left = most_values;
    let value = reader.value(&mut BuildValue { left })?;
    reader.finish()?;
    Ok(value)
}

/// Parses a text that consists of one JSON object; `None` if the text is not JSON or not an object.
pub fn parse_object(text: &[u8]) -> Option<Map> {
    match parse(text) {
        Ok(Value::Map(map)) => Some(map),
        _ => None,
    }
}

struct BuildValue {
    /// The number of values and keys that the text may still have.
    left: usize,
}

impl<'a> Build<'a> for BuildValue {
    type Key = Text;
    type Value = Value;
    fn is_full(&mut self) -> bool {
        let is_full = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_full
    }
    fn key(&mut self, key: RawString<'a>) -> Text {
        self.left = self.left.saturating_sub(1);
        key.decode()
    }
    fn null(&mut self) -> Value {
        Value::Null
    }
    fn boolean(&mut self, value: bool) -> Value {
        Value::Bool(value)
    }
    fn number(&mut self, number: RawNumber<'a>) -> Value {
        number.decode()
    }
    fn string(&mut self, string: RawString<'a>) -> Value {
        Value::Text(string.decode())
    }
    fn list(&mut self, items: Vec<Value>) -> Value {
        Value::List(items)
    }
    fn map(&mut self, entries: Vec<(Text, Value)>) -> Value {
        Value::Map(Map::from_entries(entries))
    }
}

/// Builds no results, so that the text is only checked. Its keys and values are `()`, so the
/// vectors of entries take no memory.
struct BuildNothing;

impl<'a> Build<'a> for BuildNothing {
    type Key = ();
    type Value = ();
    fn key(&mut self, _: RawString<'a>) {}
    fn null(&mut self) {}
    fn boolean(&mut self, _: bool) {}
    fn number(&mut self, _: RawNumber<'a>) {}
    fn string(&mut self, _: RawString<'a>) {}
    fn list(&mut self, _: Vec<()>) {}
    fn map(&mut self, _: Vec<((), ())>) {}
}

/// Reads JSON text from a given byte offset on.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    text: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Makes a reader at the start of a JSON text. The JSON text must be UTF-8, otherwise decoded
    /// strings are not valid text.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, position: 0 }
    }

    /// Makes a reader at a byte offset of a JSON text.
    pub fn at(text: &'a [u8], position: usize) -> Self {
        Self { text, position }
    }

    /// The byte offset at which the reader continues.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next byte of the text; `None` at the end of the text.
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    /// Skips white space.
    pub fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    /// Skips the next byte if it is the given byte; returns whether it was skipped.
    pub fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.position += usize::from(is_next);
        is_next
    }

    /// Reads one JSON value and the white space before it.
    pub fn value<B: Build<'a>>(&mut self, build: &mut B) -> Result<B::Value, JsonError> {
        self.value_at_depth(build, 0)
    }

    /// Checks one JSON value without building it, and returns its text.
    pub fn skip_value(&mut self) -> Result<&'a [u8], JsonError> {
        self.skip_space();
        let start = self.position;
        self.value(&mut BuildNothing)?;
        Ok(&self.text[start..self.position])
    }

    /// Checks that only white space is left in the text.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error(JsonErrorKind::TrailingText)),
        }
    }

    /// Reads the key of an object and the colon after it.
    pub fn key(&mut self) -> Result<RawString<'a>, JsonError> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.error(JsonErrorKind::ExpectedKey));
        }
        let key = self.string()?;
        self.skip_space();
        if self.eat(b':') {
            Ok(key)
        } else {
            Err(self.error(JsonErrorKind::ExpectedColon))
        }
    }

    /// Reads what follows a value in a list or object: returns true if another value follows, false
    /// at the end.
    pub fn more(&mut self, end: u8) -> Result<bool, JsonError> {
        self.skip_space();
        if self.eat(b',') {
            return Ok(true);
        }
        if self.eat(end) {
            Ok(false)
        } else {
            Err(self.error(JsonErrorKind::ExpectedComma))
        }
    }

    fn value_at_depth<B: Build<'a>>(
        &mut self,
        build: &mut B,
        depth: usize,
    ) -> Result<B::Value, JsonError> {
        self.skip_space();
        if build.is_full() {
            return Err(self.error(JsonErrorKind::TooManyValues));
        }
        match self.peek() {
            Some(b'"') => Ok(build.string(self.string()?)),
            Some(b'{') => self.map(build, depth + 1),
            Some(b'[') => self.list(build, depth + 1),
            Some(b'n') => self.word(b"null").map(|()| build.null()),
            Some(b't') => self.word(b"true").map(|()| build.boolean(true)),
            Some(b'f') => self.word(b"false").map(|()| build.boolean(false)),
            _ => Ok(build.number(self.number()?)),
        }
    }

    fn list<B: Build<'a>>(&mut self, build: &mut B, depth: usize) -> Result<B::Value, JsonError> {
        self.enter(depth)?;
        let mut items = Vec::new();
        self.skip_space();
        if !self.eat(b']') {
            loop {
                items.push(self.value_at_depth(build, depth)?);
                if !self.more(b']')? {
                    break;
                }
            }
        }
        Ok(build.list(items))
    }

    fn map<B: Build<'a>>(&mut self, build: &mut B, depth: usize) -> Result<B::Value, JsonError> {
        self.enter(depth)?;
        let mut entries = Vec::new();
        self.skip_space();
        if !self.eat(b'}') {
            loop {
                let key = self.key()?;
                let key = build.key(key);
                entries.push((key, self.value_at_depth(build, depth)?));
                if !self.more(b'}')? {
                    break;
                }
            }
        }
        Ok(build.map(entries))
    }

    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error(JsonErrorKind::TooDeep));
        }
        self.position += 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if self.text[self.position..].starts_with(word) {
            self.position += word.len();
            Ok(())
        } else {
            Err(self.error(JsonErrorKind::ExpectedValue))
        }
    }

    /// Reads a number, including `NaN` and the infinities.
    pub fn number(&mut self) -> Result<RawNumber<'a>, JsonError> {
        let rest = &self.text[self.position..];
        for word in ["NaN", "Infinity", "-Infinity"] {
            if rest.starts_with(word.as_bytes()) {
                self.position += word.len();
                return Ok(RawNumber {
                    text: word,
                    is_float: true,
                });
            }
        }
        let digits = |from: usize| {
            rest[from..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut end = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(end);
        if whole == 0 {
            return Err(self.error(JsonErrorKind::ExpectedValue));
        }
        // No digit may follow a leading zero, so the number ends after the zero, and the caller
        // rejects the digits after it.
        end += if rest[end] == b'0' { 1 } else { whole };
        let mut is_float = false;
        if rest.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
            is_float = true;
        }
        if let Some(b'e' | b'E') = rest.get(end) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                end += 1 + sign + exponent;
                is_float = true;
            }
        }
        self.position += end;
        let text = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        Ok(RawNumber { text, is_float })
    }

    /// Reads a string whose opening quote is the next byte.
    pub fn string(&mut self) -> Result<RawString<'a>, JsonError> {
        let start = self.position + 1;
        let mut position = start;
        let mut escaped = false;
        loop {
            let Some(step) = memchr::memchr2(b'"', b'\\', &self.text[position..]) else {
                return Err(JsonError {
                    kind: JsonErrorKind::UnterminatedString,
                    offset: self.position,
                });
            };
            position += step;
            if self.text[position] == b'"' {
                break;
            }
            escaped = true;
            position += self.escape_length(position)?;
        }
        let bytes = &self.text[start..position];
        if let Some(position) = bytes.iter().position(|byte| *byte < 0x20) {
            return Err(JsonError {
                kind: JsonErrorKind::ControlCharacter,
                offset: start + position,
            });
        }
        self.position = position + 1;
        Ok(RawString { bytes, escaped })
    }

    fn escape_length(&self, position: usize) -> Result<usize, JsonError> {
        let invalid = JsonError {
            kind: JsonErrorKind::InvalidEscape,
            offset: position,
        };
        match self.text.get(position + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') => match self.text.get(position + 2..position + 6) {
                Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => Ok(6),
                _ => Err(invalid),
            },
            _ => Err(invalid),
        }
    }

    fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError {
            kind,
            offset: self.position,
        }
    }
}

/// Replaces the escapes in a JSON string, such as `\n`, by the characters that they stand for. The
/// reader has already checked that the escapes are valid.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(step) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..step]);
        let code = rest.get(step + 1).copied().unwrap_or(b'\\');
        rest = rest.get(step + 2..).unwrap_or_default();
        match code {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let mut unit = hex4(rest);
                rest = rest.get(4..).unwrap_or_default();
                if (0xd800..0xdc00).contains(&unit) && rest.starts_with(b"\\u") {
                    let low = hex4(&rest[2..]);
                    if (0xdc00..0xe000).contains(&low) {
                        unit = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                        rest = rest.get(6..).unwrap_or_default();
                    }
                }
                push_code_point(&mut out, unit);
            }
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
    out
}

fn hex4(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |unit, byte| {
        unit << 4 | (*byte as char).to_digit(16).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> JsonErrorKind {
        parse(text.as_bytes()).expect_err(text).kind
    }

    #[test]
    fn python_dialect() {
        let value =
            parse(br#"[NaN, -Infinity, 123456789012345678901, 1e400, "\ud83d\ude00\ud800", -0.0]"#);
        let Ok(Value::List(items)) = value else {
            panic!("a list")
        };
        assert!(matches!(items[0], Value::Float(x) if x.is_nan()));
        assert_eq!(items[1], Value::Float(f64::NEG_INFINITY));
        assert_eq!(items[2], Value::Big("123456789012345678901".into()));
        assert_eq!(items[3], Value::Float(f64::INFINITY));
        let text = items[4].as_text().expect("text");
        assert_eq!(text.code_points().collect::<Vec<_>>(), [0x1f600, 0xd800]);
        assert!(matches!(items[5], Value::Float(x) if x == 0.0 && x.is_sign_negative()));
    }

    #[test]
    fn refusals() {
        assert_eq!(error(""), JsonErrorKind::ExpectedValue);
        assert_eq!(error("\"a"), JsonErrorKind::UnterminatedString);
        assert_eq!(error("\"a\nb\""), JsonErrorKind::ControlCharacter);
        assert_eq!(error(r#""\x""#), JsonErrorKind::InvalidEscape);
        assert_eq!(error("{1: 2}"), JsonErrorKind::ExpectedKey);
        assert_eq!(error("{\"a\" 2}"), JsonErrorKind::ExpectedColon);
        assert_eq!(error("[1 2]"), JsonErrorKind::ExpectedComma);
        assert_eq!(error("[1,]"), JsonErrorKind::ExpectedValue);
        assert_eq!(error("01"), JsonErrorKind::TrailingText);
        assert_eq!(error(&"[".repeat(100_000)), JsonErrorKind::TooDeep);
        let many = format!("[{}0]", "0,".repeat(MOST_VALUES));
        assert_eq!(error(&many), JsonErrorKind::TooManyValues);
        let fewer = format!("[{}0]", "0,".repeat(MOST_VALUES_OF_RECORD - 2));
        assert!(parse_record(fewer.as_bytes()).is_ok());
        let more = format!("[{}0]", "0,".repeat(MOST_VALUES_OF_RECORD - 1));
        assert!(parse_record(more.as_bytes()).is_err() && parse(more.as_bytes()).is_ok());
    }

    #[test]
    fn skipping_and_building_agree() {
        for text in [
            r#"{"a": [1, {"b": null}], "c": "x\ny"}"#,
            "[",
            "{\"a\":}",
            "tru",
            "-",
        ] {
            let skipped = Reader::new(text.as_bytes()).skip_value().map(<[u8]>::len);
            let built = parse(text.as_bytes()).map(|_| text.len());
            assert_eq!(skipped, built);
        }
    }
}
