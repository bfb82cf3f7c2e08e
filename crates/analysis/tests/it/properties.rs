//! Tests properties of every input: both parsers agree, prefixes load, and streaming and loading
//! give the same events.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use stormlog_analysis::load_sessions;
use stormlog_format::json::{Layout, NonFinite, Writer, parse};
use stormlog_format::{Event, RecordDefaults, Value, event_from_record, stable_legacy_session_id};

use crate::random_records::{Record, record};
use crate::support::{events, folder, raise, skip, streamed, write};

/// The event of a record according to the general parser.
fn general(text: &[u8], path: &Path, kind: &str) -> Option<Event> {
    std::str::from_utf8(text).ok()?;
    let Ok(Value::Map(record)) = parse(text) else {
        return None;
    };
    let path = path.to_string_lossy().into_owned();
    let session = stable_legacy_session_id(&[path.into(), kind.into()]);
    let defaults = RecordDefaults {
        session_id: Some(session.into()),
        ..RecordDefaults::default()
    };
    event_from_record(&record, &defaults).ok()
}

/// Events as text, so that NaN equals NaN.
fn spelled<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<String> {
    let writer = Writer::new(Layout::Line).non_finite(NonFinite::Bare);
    let spell = |event: &Event| writer.map_to_string(&event.to_record());
    events.into_iter().map(spell).collect()
}

fn is_blank(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(|text| stormlog_format::strip(text).is_empty())
}

/// Few cases by default, so that the tests stay fast. `PROPTEST_CASES` sets a higher number.
fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if asked { default.cases } else { 300 },
        failure_persistence: None,
        ..default
    }
}

/// A record without its optional fields and without the closing brace.
const REQUIRED: &str = r#"{"schema_version": 3, "session_id": "s", "timestamp_ns": 1, "pid": 1,
                "event_type": "sample", "collector": "c", "sampling_interval_ms": 1, "host": "h",
                "device_id": 0, "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 1,
                "allocator_active_bytes": null, "allocator_inactive_bytes": null,
                "allocator_change_bytes": 0, "device_used_bytes": 1, "device_free_bytes": null,
                "device_total_bytes": null, "context": null, "metadata": {}"#;

#[test]
fn what_a_record_leaves_out_is_filled_in_by_the_general_rules() {
    let folder = folder();
    let given = [
        ("job_id", "\"j\""),
        ("rank", "1"),
        ("local_rank", "1"),
        ("world_size", "2"),
    ];
    let lines: Vec<String> = (0..1_u32 << given.len())
        .map(|left_out| {
            let kept: Vec<String> = given
                .iter()
                .enumerate()
                .filter(|(place, _)| left_out >> place & 1 == 0)
                .map(|(_, (key, value))| format!(", \"{key}\": {value}"))
                .collect();
            format!("{}{}}}", REQUIRED.replace('\n', ""), kept.concat())
        })
        .collect();
    let path = write(&folder, "lines.jsonl", lines.join("\n") + "\n");
    let path = path.canonicalize().expect("it exists");
    let expected: Vec<Event> = lines
        .iter()
        .filter_map(|line| general(line.as_bytes(), &path, "sink"))
        .collect();
    let (found, _) = streamed(&path, &skip()).expect("skipping never fails");
    assert_eq!(spelled(&found), spelled(&expected));
    // Without `world_size`, a second rank is invalid.
    assert_eq!(expected.len(), 10);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn lines_give_what_the_general_rules_give(records in vec(record(true), 1..12)) {
        let folder = folder();
        let mut text = records.join(&b'\n');
        // A record with a newline inside counts as two lines.
        let lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        text.push(b'\n');
        let path = write(&folder, "lines.jsonl", &text);
        let path = path.canonicalize().expect("it exists");
        let expected: Vec<Event> = lines
            .iter()
            .filter_map(|line| general(line, &path, "sink"))
            .collect();
        let (found, damage) = streamed(&path, &skip()).expect("skipping never fails");
        prop_assert_eq!(spelled(&found), spelled(&expected));
        let blank = lines.iter().filter(|line| is_blank(line)).count();
        prop_assert_eq!(found.len() + damage.len() + blank, lines.len());
        for place in damage {
            let bytes = place.bytes.expect("a place");
            let line = &lines[usize::try_from(place.line.expect("a line")).expect("small") - 1];
            prop_assert_eq!(bytes.end - bytes.start, line.len() as u64 + 1);
        }
        let loaded = load_sessions(&path, &skip()).expect("skipping never fails");
        let mut loaded = spelled(&events(&loaded));
        let mut found = spelled(&found);
        loaded.sort();
        found.sort();
        prop_assert_eq!(loaded, found);
        prop_assert_eq!(
            load_sessions(&path, &raise()).is_ok(),
            expected.len() + blank == lines.len()
        );
    }

    #[test]
    fn lists_give_what_the_general_rules_give(
        items in vec(record(false), 0..8),
        gap in prop::sample::select(vec![",", ", ", ",\n", " ,\r\n\t"]),
        under_a_key: bool,
    ) {
        let folder = folder();
        let mut text = b"[".to_vec();
        text.extend(items.join(gap.as_bytes()));
        text.push(b']');
        if under_a_key {
            text = [b"{\"events\": ".to_vec(), text, b"}".to_vec()].concat();
        }
        let path = write(&folder, "list.json", &text);
        let path = path.canonicalize().expect("it exists");
        let general: Option<Vec<Event>> = items
            .iter()
            .map(|item| general(&item.0, &path, "json"))
            .collect();
        let is_whole = std::str::from_utf8(&text).is_ok() && parse(&text).is_ok();
        let loaded = load_sessions(&path, &raise());
        if is_whole && let Some(general) = general {
            let (found, _) = streamed(&path, &raise()).expect("it streams");
            prop_assert_eq!(spelled(&found), spelled(&general));
            prop_assert_eq!(events(&loaded.expect("it loads")).len(), general.len());
        } else {
            prop_assert!(loaded.is_err());
            prop_assert!(streamed(&path, &raise()).is_err());
        }
    }

    #[test]
    fn any_prefix_of_a_segment_gives_exactly_its_whole_lines(
        lines in vec(record(true), 1..6),
        cut: Index,
    ) {
        let folder = folder();
        let path = folder.path().canonicalize().expect("it exists").join("cut.jsonl");
        let valid: Vec<Record> = lines
            .into_iter()
            .filter(|line| line.0.is_ascii() && !line.0.contains(&b'\n'))
            .filter(|line| general(&line.0, &path, "sink").is_some())
            .collect();
        let mut text = valid.join(&b'\n');
        text.push(b'\n');
        let cut = cut.index(text.len() + 1);
        std::fs::write(&path, &text[..cut]).expect("writable");
        let whole = text[..cut].split(|byte| *byte == b'\n');
        let expected: Vec<Event> = whole.filter_map(|line| general(line, &path, "sink")).collect();
        let (found, damage) = streamed(&path, &raise()).expect("a prefix loads");
        prop_assert_eq!(spelled(&found), spelled(&expected));
        prop_assert!(damage.len() <= 1);
    }

    #[test]
    fn any_bytes_are_loaded_or_refused(
        bytes in vec(any::<u8>(), 0..300),
        name in prop::sample::select(vec!["x.json", "x.jsonl", "x.csv", "manifest.json",
            "telemetry_timeline.json", "segment-000001.jsonl"]),
    ) {
        let folder = folder();
        let path = write(&folder, name, &bytes);
        let _ = load_sessions(&path, &raise());
        let _ = load_sessions(folder.path(), &skip());
    }
}
