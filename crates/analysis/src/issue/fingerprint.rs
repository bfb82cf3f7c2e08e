//! Fingerprints: the same problem in two runs gets the same id.
//!
//! The id is a hash of the kind of problem and of its dimensions, a few properties that identify
//! it, such as the backend and the phase. Everything that changes from run to run (numbers,
//! addresses, spacing, case) is removed from the dimensions first.

use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::label::{UNKNOWN, normalize_text};
use stormlog_format::{Map, Text, Value, python_str, round_to_6};

use crate::detect::Kind;
use crate::digest::sha256_hex;

/// The kind of the anomalies of hidden memory that the rules of stormlog 0.3.9 find.
pub const HIDDEN_MEMORY_ANOMALY: &str = "hidden_memory_anomaly";

/// The kinds of problems that stormlog 0.3.9 has fingerprints for.
pub const ISSUE_KINDS: [&str; 4] = [
    "oom",
    "collector_degradation",
    "alert",
    HIDDEN_MEMORY_ANOMALY,
];

/// Every kind of issue: those of stormlog 0.3.9, and those of Stormlog's own detectors.
pub fn issue_kinds() -> impl Iterator<Item = &'static str> {
    ISSUE_KINDS.into_iter().chain(Kind::ALL.map(Kind::as_str))
}

/// The kinds of issues that are gathered together with findings: the detectors judge hidden memory
/// in place of the rules of stormlog 0.3.9.
pub fn issue_kinds_with_findings() -> impl Iterator<Item = &'static str> {
    issue_kinds().filter(|kind| *kind != HIDDEN_MEMORY_ANOMALY)
}

/// The states that an issue can have.
pub const ISSUE_STATES: [&str; 4] = ["open", "resolved", "ignored", "regressed"];

/// The longest error stem (see [`error_stem`]), in characters.
const STEM_LIMIT: usize = 120;

/// Why no fingerprint can be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
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
    format!("issue:{}", sha256_hex(&spelled, 24)).into()
}

/// The kind of an issue, spelled as in files.
pub fn issue_kind(kind: &Text) -> Result<&'static str, FingerprintError> {
    let known = issue_kinds().find(|known| kind == known);
    known.ok_or_else(|| FingerprintError::UnsupportedKind(kind.clone()))
}

/// The state of an issue, spelled as in files; the input may have any case and white space around
/// it.
pub fn issue_state(state: &Text) -> Result<&'static str, FingerprintError> {
    let word = state.stripped().lowercased();
    let known = ISSUE_STATES.into_iter().find(|known| word == *known);
    known.ok_or_else(|| FingerprintError::UnsupportedState(state.clone()))
}

/// Normalized dimensions: without everything that changes from run to run, with keys sorted.
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

/// The category of an alert, derived from its text.
///
/// A text that contains `oom` inside a word, such as `room`, is also classified as an
/// out-of-memory alert. This is kept so that ids agree with those of stormlog 0.3.9. Use the
/// category only for ids.
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

/// The part of an error's text that identifies the error: the text up to the first colon, at most
/// 120 characters.
#[must_use]
pub fn error_stem(error: &Text) -> Text {
    let text = normalize_text(error);
    let units = text.code_points();
    let units = units.take_while(|unit| *unit != u32::from(b':'));
    let stem = Text::from_code_points(units.take(STEM_LIMIT)).stripped();
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

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::parse;

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
