//! Text in artifacts is UTF-8 that may contain lone surrogates.
//!
//! Python's JSON reader accepts the lone surrogate `"\ud800"` and its writer writes it again, so
//! `Text` must keep such a string unchanged too. A `Text` stores lone surrogates in their
//! three-byte generalized encoding (WTF-8). Text without lone surrogates is stored as plain UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// A string in an artifact. The stored bytes of a text are plain UTF-8 unless the text contains
/// lone surrogates.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String", inline, description = "")]
pub struct Text(Box<[u8]>);

impl Text {
    /// Makes a text of bytes from the JSON reader, which are UTF-8 or WTF-8.
    pub(crate) fn from_wtf8(bytes: Vec<u8>) -> Self {
        Self(bytes.into_boxed_slice())
    }

    /// Makes a text of bytes from any source. If the bytes are not generalized UTF-8 (WTF-8), all
    /// invalid parts are replaced by U+FFFD.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        if decode(bytes).all(|unit| unit.is_ok()) {
            Self(bytes.into())
        } else {
            Self(String::from_utf8_lossy(bytes).as_bytes().into())
        }
    }

    /// The stored bytes: UTF-8, or WTF-8 if the text contains lone surrogates.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text as `str`; `None` when it is not plain UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text as UTF-8, in which lone surrogates are replaced by replacement characters.
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Makes a text of code points, which may include lone surrogates.
    pub fn from_code_points(units: impl IntoIterator<Item = u32>) -> Self {
        let mut bytes = Vec::new();
        for unit in units {
            push_code_point(&mut bytes, unit);
        }
        Self::from_wtf8(bytes)
    }

    /// The code points of the text in order, including lone surrogates.
    pub fn code_points(&self) -> impl Iterator<Item = u32> + '_ {
        code_points(&self.0)
    }

    /// Whether the text is empty after Python's `str.strip`.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.0)
    }

    /// The text without the leading and trailing white space that Python strips.
    #[must_use]
    pub fn stripped(&self) -> Text {
        match self.as_str() {
            Some(text) => strip(text).into(),
            // The text contains lone surrogates. They are not white space, so they are not
            // stripped.
            None => self.stripped_wtf8(),
        }
    }

    fn stripped_wtf8(&self) -> Text {
        let units: Vec<u32> = self.code_points().collect();
        let keep = |unit: &u32| !char::from_u32(*unit).is_some_and(is_python_space);
        let start = units.iter().position(keep).unwrap_or(units.len());
        let end = units.iter().rposition(keep).map_or(start, |last| last + 1);
        Text::from_code_points(units[start..end].iter().copied())
    }

    /// The text in lower case, like Python's `str.lower`. Lone surrogates are kept.
    #[must_use]
    pub fn lowercased(&self) -> Text {
        if let Some(text) = self.as_str() {
            return text.to_lowercase().into();
        }
        let mut bytes = Vec::with_capacity(self.0.len());
        // The lower case of a letter depends on its neighbours (a Greek sigma at the end of a word
        // has its own form). A lone surrogate ends a sequence of letters, so the letters before it
        // are converted together.
        let mut run = String::new();
        for unit in self.code_points() {
            if let Some(ch) = char::from_u32(unit) {
                run.push(ch);
            } else {
                bytes.extend_from_slice(run.to_lowercase().as_bytes());
                push_code_point(&mut bytes, unit);
                run.clear();
            }
        }
        bytes.extend_from_slice(run.to_lowercase().as_bytes());
        Text::from_wtf8(bytes)
    }
}

/// Serializes a text as a string for human-readable formats, with lone surrogates replaced by
/// U+FFFD, and as its bytes for other formats.
impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&self.0);
        }
        serializer.serialize_str(&self.to_str_lossy())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into_boxed_slice())
    }
}

impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == other.as_bytes()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str_lossy())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_str_lossy(), f)
    }
}

/// Whether Python's `str.isspace` holds for the character.
pub fn is_python_space(ch: char) -> bool {
    ch.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&ch)
}

/// Strips white space as Python's `str.strip` does.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_python_space)
}

/// Whether the bytes contain only white space, as Python defines it.
fn is_blank(bytes: &[u8]) -> bool {
    code_points(bytes).all(|unit| char::from_u32(unit).is_some_and(is_python_space))
}

/// Appends a code point; a lone surrogate is appended in its three-byte form.
pub(crate) fn push_code_point(bytes: &mut Vec<u8>, unit: u32) {
    if let Some(ch) = char::from_u32(unit) {
        let mut buffer = [0; 4];
        bytes.extend_from_slice(ch.encode_utf8(&mut buffer).as_bytes());
    } else {
        let [low, middle, high] = [unit & 0x3f, (unit >> 6) & 0x3f, unit >> 12]
            .map(|part| u8::try_from(part & 0x3f).unwrap_or_default());
        bytes.extend_from_slice(&[0xe0 | high, 0x80 | middle, 0x80 | low]);
    }
}

/// The code points of bytes in generalized UTF-8 (WTF-8). Invalid bytes become U+FFFD.
pub(crate) fn code_points(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    decode(bytes).map(|unit| unit.unwrap_or(0xfffd))
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = Result<u32, ()>> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (length, lead) = match first {
            0..=0x7f => (1, u32::from(first)),
            0xc2..=0xdf => (2, u32::from(first & 0x1f)),
            0xe0..=0xef => (3, u32::from(first & 0x0f)),
            0xf0..=0xf4 => (4, u32::from(first & 0x07)),
            _ => (0, 0),
        };
        let tail = rest.get(1..length).unwrap_or_default();
        if length == 0 || tail.len() + 1 != length || tail.iter().any(|b| b & 0xc0 != 0x80) {
            rest = &rest[1..];
            return Some(Err(()));
        }
        let unit = tail
            .iter()
            .fold(lead, |unit, b| unit << 6 | u32::from(b & 0x3f));
        rest = &rest[length..];
        let shortest = match length {
            3 => unit >= 0x800,
            4 => (0x1_0000..=0x10_ffff).contains(&unit),
            _ => true,
        };
        Some(if shortest { Ok(unit) } else { Err(()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_survive() {
        let mut bytes = b"a".to_vec();
        push_code_point(&mut bytes, 0xd800);
        let text = Text::from_wtf8(bytes);
        assert_eq!(text.as_str(), None);
        assert_eq!(text.code_points().collect::<Vec<_>>(), [0x61, 0xd800]);
        assert_eq!(Text::from_bytes(text.as_bytes()), text);
    }

    #[test]
    fn lower_case_around_surrogates() {
        let mut bytes = "ΑΣ".as_bytes().to_vec();
        push_code_point(&mut bytes, 0xd800);
        let lower: Vec<u32> = Text::from_wtf8(bytes).lowercased().code_points().collect();
        assert_eq!(lower, [0x3b1, 0x3c2, 0xd800]);
    }

    #[test]
    fn blank_follows_python() {
        assert!(Text::from(" \t\u{1c}\u{85}\u{2003}").is_blank());
        assert!(!Text::from("\u{200b}").is_blank());
        assert_eq!(Text::from("\u{1f} a ").stripped(), "a");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(Text::from_bytes(b"a\xff"), "a\u{fffd}");
    }
}
