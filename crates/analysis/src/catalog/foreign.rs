//! Recognizes files of other programs that lie in a folder with recordings: their names suggest
//! events, but nothing in them comes from a recorder.

use std::io::Read as _;
use std::path::Path;

use stormlog_format::json::parse;

use super::directory::is_segment;
use super::names::FileKind;
use crate::bytes::open;

/// The number of bytes at the start of a file that are searched for the keys of events.
const HEAD: u64 = 256 << 10;

/// The first bytes of texts in UTF-16, which no recorder writes.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// A JSON text shorter than this that cannot be parsed may be the beginning of an event.
const SHORT: usize = 4 << 10;

/// Keys with amounts of memory; each event has at least one of them, in all versions.
const MEMORY: [&str; 8] = [
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "device_used_bytes",
    "device_total_bytes",
    "memory_allocated",
    "memory_reserved",
    "memory_change",
    "memory_mb",
];

/// Keys with the time of an event; each event has one of them, in all versions.
const TIMES: [&str; 2] = ["timestamp_ns", "timestamp"];

/// The key of the version of an event, and keys of which an event of any version has one. They mark
/// an event of a newer version, which may name its amounts differently.
const VERSION: &str = "schema_version";
const OF_EVENTS: [&str; 3] = ["event_type", "session_id", "timestamp_ns"];

/// Whether a file that was found in a folder clearly is no recording: its text has none of the keys
/// of events. A file that may be a damaged recording (unreadable, empty, with zero bytes, or cut off
/// before its first key) is not foreign, so that loading it reports the damage.
pub(super) fn is_foreign(file: &Path) -> bool {
    let Some(kind) = FileKind::of(file).filter(|_| !is_segment(file)) else {
        return false;
    };
    let Ok(source) = open(file) else {
        return false;
    };
    let mut head = Vec::new();
    if source.reader.take(HEAD).read_to_end(&mut head).is_err() {
        return false;
    }
    if UTF_16.iter().any(|mark| head.starts_with(mark)) {
        return true;
    }
    let is_whole = (head.len() as u64) < HEAD;
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.contains('\0') {
        return false;
    }
    let first = text.lines().next().unwrap_or_default();
    match kind {
        FileKind::Table => !is_of_event(|key| names_column(first, key)),
        FileKind::Document => !is_of_event(|key| names_key(text, key)) && !is_torn(text, is_whole),
        FileKind::Lines => {
            let is_whole = is_whole || first.len() < text.len();
            !is_of_event(|key| names_key(text, key)) && !is_torn(first, is_whole)
        }
    }
}

/// Whether the keys that `has` finds are those of an event.
fn is_of_event(has: impl Fn(&str) -> bool) -> bool {
    let any = |keys: &[&str]| keys.iter().any(|key| has(key));
    (any(&TIMES) && any(&MEMORY)) || (has(VERSION) && any(&OF_EVENTS))
}

fn names_key(text: &str, key: &str) -> bool {
    text.contains(&format!("\"{key}\""))
}

fn names_column(header: &str, name: &str) -> bool {
    let mut columns = header.split(',');
    columns.any(|column| column.trim().trim_matches('"') == name)
}

/// Whether a JSON text may be an event that was cut off before its first key.
fn is_torn(text: &str, is_whole: bool) -> bool {
    let begins = text.starts_with(['{', '[']);
    begins && is_whole && text.len() < SHORT && parse(text.as_bytes()).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(name: &str, content: &[u8]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        is_foreign(&file)
    }

    #[test]
    fn files_of_other_programs_are_foreign() {
        let long = format!("{{\"a\": \"{}\"", "x".repeat(SHORT));
        let files: [(&str, &str); 11] = [
            (
                "app.jsonl",
                r#"{"timestamp": "2026-01-01", "level": "info"}"#,
            ),
            (
                "chat.jsonl",
                r#"{"type": "user", "message": {"role": "user"}}"#,
            ),
            ("metrics.jsonl", r#"{"step": 1, "memory_allocated": 3}"#),
            ("pairs.jsonl", "[\"a\", 1]\n"),
            ("log.jsonl", "INFO started\n"),
            ("app_events.json", r#"[{"timestamp": 1, "name": "a"}]"#),
            ("trace_events.json", r#"{"events": [{"name": "x"}]}"#),
            ("tracks.json", "[1, 2]"),
            ("tracking.json", "see tracking.txt"),
            ("cut_off_events.json", &long),
            ("events.csv", "timestamp,name\n1,a\n"),
        ];
        for (name, content) in files {
            assert!(foreign(name, content.as_bytes()), "{name}");
        }
        assert!(foreign("log.jsonl", b"caf\xe9\n"));
        assert!(foreign("log.jsonl", b"\xff\xfe{\0}\0"));
    }

    #[test]
    fn recordings_are_not_foreign_even_if_they_are_damaged() {
        let files: [(&str, &[u8]); 11] = [
            ("a.jsonl", br#"{"timestamp": 1.5, "memory_mb": 3}"#),
            (
                "a.jsonl",
                br#"{"schema_version": 9, "event_type": "sample"}"#,
            ),
            ("torn.jsonl", br#"{"schema_ver"#),
            (
                "torn.jsonl",
                b"rest\n{\"timestamp_ns\": 1, \"device_used_bytes\": 2}\n",
            ),
            (
                "events.json",
                br#"[{"timestamp": 1, "memory_allocated": "x"}]"#,
            ),
            ("events.json", b"[{\"time"),
            ("empty_events.json", b""),
            ("zeros_events.json", &[0; 9]),
            (
                "damaged_events.json",
                b"[{\"timestamp_ns\": \xff, \"device_used_bytes\": 1}]",
            ),
            ("events.csv", b"\"timestamp\",memory_allocated\n1,x\n"),
            ("segment-000001.jsonl", b"nothing\n"),
        ];
        for (name, content) in files {
            assert!(!foreign(name, content), "{name}");
        }
    }
}
