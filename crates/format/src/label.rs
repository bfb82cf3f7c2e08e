//! Normalizes labels for comparison in rollups and fingerprints: addresses and numbers, which
//! change from run to run, are replaced by placeholders.

use crate::digits::decimal_digit;
use crate::text::{Text, is_python_space};

/// The result of [`normalize_text`] for a blank text.
pub const UNKNOWN: &str = "unknown";

/// Normalizes a label: lower case, placeholders for addresses and numbers, and single spaces. A
/// blank label becomes `unknown`.
#[must_use]
pub fn normalize_text(text: &Text) -> Text {
    if is_normal(text.as_bytes()) {
        return text.clone();
    }
    normalize_any(text)
}

fn normalize_any(text: &Text) -> Text {
    let units: Vec<u32> = text.stripped().lowercased().code_points().collect();
    if units.is_empty() {
        return UNKNOWN.into();
    }
    let units = without_space_runs(&without_numbers(&without_addresses(&units)));
    Text::from_code_points(units)
}

/// A quick check for labels that are already normal: lower-case ASCII letters and punctuation, with
/// single spaces between them. Most labels of events are already normal.
fn is_normal(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| {
        (byte.is_ascii_graphic() && !byte.is_ascii_digit() && !byte.is_ascii_uppercase())
            || *byte == b' '
    };
    !text.is_empty()
        && text.iter().all(is_plain)
        && !text.starts_with(b" ")
        && !text.ends_with(b" ")
        && !text.windows(2).any(|pair| pair == b"  ")
}

fn without_addresses(units: &[u32]) -> Vec<u32> {
    let is_hex = |unit: &&u32| char::from_u32(**unit).is_some_and(|ch| ch.is_ascii_hexdigit());
    let mut out = Vec::with_capacity(units.len());
    let mut rest = units;
    while let Some((unit, after)) = rest.split_first() {
        let digits = match rest {
            [0x30, 0x78, digits @ ..] => digits.iter().take_while(is_hex).count(),
            _ => 0,
        };
        if digits > 0 {
            out.extend("<hex>".chars().map(u32::from));
            rest = &rest[2 + digits..];
        } else {
            out.push(*unit);
            rest = after;
        }
    }
    out
}

/// Replaces each number that has no word character on either side by `<num>`.
fn without_numbers(units: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(units.len());
    let mut index = 0;
    while index < units.len() {
        let starts = index == 0 || !is_word(units[index - 1]);
        if starts && let Some(length) = number_length(&units[index..]) {
            out.extend("<num>".chars().map(u32::from));
            index += length;
        } else {
            out.push(units[index]);
            index += 1;
        }
    }
    out
}

/// The length of the number at the start of `units`, including decimals and a per cent sign. The
/// length is `None` when a word character follows the number.
fn number_length(units: &[u32]) -> Option<usize> {
    let digits = |from: usize| {
        let digits = units[from..].iter();
        digits
            .take_while(|unit| decimal_digit(**unit).is_some())
            .count()
    };
    let is_end = |index: usize| units.get(index).is_none_or(|unit| !is_word(*unit));
    let has = |index: usize, ch: u8| units.get(index) == Some(&u32::from(ch));
    let whole = digits(0);
    if whole == 0 {
        return None;
    }
    let decimals = if has(whole, b'.') {
        digits(whole + 1)
    } else {
        0
    };
    let mut ends = Vec::from([whole]);
    if decimals > 0 {
        ends.insert(0, whole + 1 + decimals);
    }
    for end in ends {
        if has(end, b'%') && is_end(end + 1) {
            return Some(end + 1);
        }
        if is_end(end) {
            return Some(end);
        }
    }
    None
}

/// Whether a character belongs to a word: letters, digits and the underscore. Vowel signs and
/// circled letters count as letters of a word.
fn is_word(unit: u32) -> bool {
    char::from_u32(unit).is_some_and(|ch| ch.is_alphanumeric() || ch == '_')
}

fn without_space_runs(units: &[u32]) -> Vec<u32> {
    let mut out: Vec<u32> = Vec::with_capacity(units.len());
    let mut after_space = false;
    for &unit in units {
        let space = char::from_u32(unit).is_some_and(is_python_space);
        if !space {
            out.push(unit);
        } else if !after_space {
            out.push(u32::from(b' '));
        }
        after_space = space;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_normal_is() {
        let signs: Vec<char> = "ab -.:%<>_/x".chars().collect();
        let mut texts = vec![String::new()];
        for _ in 0..4 {
            let longer = texts
                .iter()
                .flat_map(|text| signs.iter().map(move |sign| format!("{text}{sign}")));
            texts = longer.collect();
            for text in texts.iter().filter(|text| is_normal(text.as_bytes())) {
                assert_eq!(normalize_any(&text.as_str().into()), text.as_str());
            }
        }
        for other in ["", " a", "a ", "a  b", "A", "a1", "ü", "a\tb"] {
            assert!(!is_normal(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn labels_lose_what_changes() {
        let cases = [
            ("High fragmentation: 40.0%", "high fragmentation: <num>"),
            ("a 12ms b 3.5 x1", "a 12ms b <num> x1"),
            ("cuda:0 error -5", "cuda:<num> error -<num>"),
            ("v1.2.3", "v1.<num>"),
            ("1.5x 50%x 1%%", "<num>.5x <num>%x <num>%"),
            (" A  B\t\nC ", "a b c"),
            ("0XAB x0x12 0x", "<hex> x<hex> 0x"),
            (" \u{1c}", "unknown"),
        ];
        for (given, label) in cases {
            assert_eq!(normalize_text(&given.into()), label, "{given}");
        }
    }
}
