//! Fingerprints: the same trouble in two runs gets the same id.
//!
//! The id is a hash of what kind of trouble it is and of a few dimensions, from which
//! everything that changes from run to run (numbers, addresses, spacing, case) is taken.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::digits::decimal_digit;
use crate::json::{Layout, NonFinite, Writer};
use crate::python_text::python_str;
use crate::text::{Text, is_python_space, push_code_point};
use crate::value::{Map, Value};

/// The kinds of problems that stormlog 0.3.9 has fingerprints for.
pub const ISSUE_KINDS: [&str; 4] = [
    "oom",
    "collector_degradation",
    "alert",
    "hidden_memory_anomaly",
];

/// The kinds of trouble that only our own detectors find.
pub const FINDING_KINDS: [&str; 9] = [
    "oom_risk",
    "allocator_leak",
    "hidden_drift",
    "host_leak",
    "fragmentation",
    "step_change",
    "transient_spike",
    "rank_first_cause",
    "rank_imbalance",
];

/// What a person can say about an issue.
pub const ISSUE_STATES: [&str; 4] = ["open", "resolved", "ignored", "regressed"];

/// What stands for a text that says nothing.
pub const UNKNOWN: &str = "unknown";

/// The longest error stem, in characters.
const STEM_LIMIT: usize = 120;

/// Why something has no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FingerprintError {
    #[error("fingerprint dimension keys must be non-empty strings")]
    BlankKey,
    #[error("unsupported issue kind: {0}")]
    UnsupportedKind(Text),
    #[error("unsupported issue state: {0}")]
    UnsupportedState(Text),
}

/// The id of a fingerprint over dimensions that are already normalized.
pub fn fingerprint_id(kind: &str, dimensions: &Map, schema_version: &Value) -> Text {
    let mut parts = Map::new();
    parts.insert("dimensions", Value::Map(dimensions.clone()));
    parts.insert("kind", kind);
    parts.insert("schema_version", schema_version.clone());
    let spelled = canonical().map_to_string(&parts);
    format!("issue:{}", hex(&Sha256::digest(spelled), 24)).into()
}

/// The kind as it is spelled in files.
pub fn issue_kind(kind: &Text) -> Result<&'static str, FingerprintError> {
    let mut known = ISSUE_KINDS.into_iter().chain(FINDING_KINDS);
    let known = known.find(|known| kind == known);
    known.ok_or_else(|| FingerprintError::UnsupportedKind(kind.clone()))
}

/// The state as it is spelled in files, read in any case and with white space around it.
pub fn issue_state(state: &Text) -> Result<&'static str, FingerprintError> {
    let word = state.stripped().lowercased();
    let known = ISSUE_STATES.into_iter().find(|known| word == *known);
    known.ok_or_else(|| FingerprintError::UnsupportedState(state.clone()))
}

/// Dimensions without what changes from run to run, keys sorted.
pub fn normalize_dimensions(dimensions: &Map) -> Result<Map, FingerprintError> {
    let mut entries = Vec::with_capacity(dimensions.len());
    for (key, value) in dimensions.iter() {
        if key.is_blank() {
            return Err(FingerprintError::BlankKey);
        }
        entries.push((key.clone(), normalize_dimension(value)?));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Map::from_entries(entries))
}

fn normalize_dimension(value: &Value) -> Result<Value, FingerprintError> {
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Big(_) => value.clone(),
        Value::Float(value) => Value::Float(round_to_6(*value)),
        Value::List(items) => {
            let items: Result<Vec<Value>, _> = items.iter().map(normalize_dimension).collect();
            let mut items = items?;
            items.sort_by_cached_key(|item| canonical().to_string(item));
            Value::List(items)
        }
        Value::Map(map) => Value::Map(normalize_dimensions(map)?),
        Value::Text(_) | Value::Opaque(_) => Value::Text(normalize_text(&python_str(value))),
    })
}

/// Rounded to six decimals on the exact binary value, ties to even.
pub(crate) fn round_to_6(value: f64) -> f64 {
    if value.is_finite() {
        format!("{value:.6}").parse().unwrap_or(value)
    } else {
        value
    }
}

/// A label without case, addresses, numbers and runs of white space; `unknown` when
/// nothing is left.
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
    text_of(&without_space_runs(&without_numbers(&without_addresses(
        &units,
    ))))
}

/// Whether a text is its own normal form at first sight: small ASCII letters and signs with single
/// blanks between them. Most labels are.
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

/// The category of an alert by its text.
///
/// Part of the words decides (`room` holds `oom`); it is kept so that ids agree with
/// those of other tools, and nothing else should use it.
#[must_use]
pub fn alert_category(context: &Text) -> Text {
    let text = normalize_text(context);
    let holds = |part: &str| text.to_str_lossy().contains(part);
    if holds("fragmentation") {
        "high_fragmentation".into()
    } else if holds("oom") || holds("out of memory") {
        "oom_alert".into()
    } else if text == UNKNOWN {
        "generic_alert".into()
    } else {
        text
    }
}

/// The part of an error's text that names it: up to the first colon, and not too long.
#[must_use]
pub fn error_stem(error: &Text) -> Text {
    let units: Vec<u32> = normalize_text(error)
        .code_points()
        .take_while(|unit| *unit != u32::from(b':'))
        .take(STEM_LIMIT)
        .collect();
    let stem = text_of(&units).stripped();
    if stem.is_blank() {
        UNKNOWN.into()
    } else {
        stem
    }
}

fn canonical() -> Writer {
    Writer::new(Layout::Compact)
        .sorted()
        .non_finite(NonFinite::Bare)
}

/// The first digits of a hash.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    text
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

/// Replaces numbers that touch no word character on either side.
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

/// The length of the number at the start, with its decimals and per cent sign when no word
/// character follows those.
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

/// Letters, digits and the underscore; vowel signs and circled letters count as letters.
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

fn text_of(units: &[u32]) -> Text {
    let mut bytes = Vec::with_capacity(units.len());
    for unit in units {
        push_code_point(&mut bytes, *unit);
    }
    Text::from_wtf8(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn id(kind: &str, dimensions: &str) -> Text {
        let dimensions = parse(dimensions.as_bytes()).expect("valid JSON");
        let dimensions = dimensions.as_map().expect("an object");
        let dimensions = normalize_dimensions(dimensions).expect("sound keys");
        fingerprint_id(kind, &dimensions, &Value::Int(1))
    }

    #[test]
    fn ids_agree_with_the_known_ones() {
        assert_eq!(
            id(
                "oom",
                r#"{"backend": "cuda", "reason": "message_pattern:out of memory"}"#
            ),
            "issue:876c8d4f6dbab3ef989deddc"
        );
        assert_eq!(
            id(
                "hidden_memory_anomaly",
                r#"{"backend": "cuda", "classification": "persistent_drift", "phase": null,
                    "collector": "stormlog.cuda_tracker", "severity": "critical"}"#
            ),
            "issue:069827b817e3eee3a5c77ee9"
        );
    }

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

    #[test]
    fn lists_are_sorted_and_floats_rounded() {
        let value = parse(br#"{"d": ["b", null, 1.0, true, "A", 0.0078125]}"#).expect("valid JSON");
        let map = normalize_dimensions(value.as_map().expect("an object")).expect("sound keys");
        assert_eq!(
            canonical().map_to_string(&map),
            r#"{"d":["a","b",0.007812,1.0,null,true]}"#
        );
    }

    #[test]
    fn stems_and_categories() {
        assert_eq!(
            error_stem(&"RuntimeError: boom 0xdeadbeef".into()),
            "runtimeerror"
        );
        assert_eq!(alert_category(&"Low room".into()), "oom_alert");
        assert_eq!(alert_category(&" ".into()), "generic_alert");
    }
}
