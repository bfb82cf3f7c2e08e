//! Tests JSON documents and single files of lines: layouts, versions and values.

use stormlog_analysis::{LoadError, LoadOptions, load_events, load_sessions};
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Value, Version};

use crate::support::{
    event, events, fixture, folder, line, lines, load, load_around_damage, object, record, refused,
    skip, steps, write,
};

#[test]
fn every_version_of_the_record() {
    let of = |name: &str| {
        let mut all = events(&load(&fixture(&format!("versions/{name}"))));
        assert_eq!(all.len(), 1, "{name}");
        all.remove(0)
    };
    let v3 = of("v3.json");
    let v2 = of("v2.json");
    assert_eq!(v2.version, Version::V3);
    assert_eq!((v2.counters, &v2.metadata), (v3.counters, &v3.metadata));
    assert!(v2.session_id.to_string().starts_with("legacy-"));

    let v4 = of("v4.json");
    assert_eq!(v4.version, Version::V4);
    assert_eq!(v4.counters.allocator_allocated_bytes, None);
    assert_eq!(v4.counters.device_used_bytes, None);
    assert_eq!(
        v4.counters.device_total_bytes,
        v3.counters.device_total_bytes
    );

    let legacy = of("legacy.json");
    assert_eq!(legacy.timestamp_ns, 1_709_480_430_122_999_808);
    assert_eq!(legacy.collector, "stormlog.cuda_tracker");
    assert_eq!(legacy.metadata, object(r#"{"note": "old", "extra": 7}"#));

    let tensorflow = of("tensorflow.json");
    assert_eq!(tensorflow.collector, "stormlog.tensorflow.memory_tracker");
    assert_eq!(
        tensorflow.counters.allocator_allocated_bytes,
        Some(1_572_864)
    );
    assert_eq!(events(&load(&fixture("versions/mixed.jsonl"))).len(), 5);
}

#[test]
fn version_4_must_say_what_its_collector_can_know() {
    let folder = folder();
    let path = write(&folder, "v4.jsonl", line(r#"{"schema_version": 4}"#));
    assert_eq!(
        refused(&path).to_string(),
        "metadata.memory_capabilities must be an object in a version 4 record"
    );
}

#[test]
fn the_list_of_events_may_stand_under_a_key() {
    let path = fixture("versions/events_key.json");
    assert_eq!(events(&load(&path)).len(), 1);
    let with_key = |key: &str| LoadOptions {
        events_key: Some(key.into()),
        ..LoadOptions::default()
    };
    let other = load_sessions(&path, &with_key("other")).expect("a list");
    assert_eq!(events(&other).len(), 2);
    for key in ["tool", "absent"] {
        let error = load_sessions(&path, &with_key(key)).expect_err("no list");
        assert_eq!(
            error.to_string(),
            format!("Top-level key '{key}' must contain a list of events")
        );
    }
}

#[test]
fn what_is_no_telemetry_is_refused_in_the_words_of_the_reference() {
    let folder = folder();
    for (text, message) in [
        ("5", "Telemetry payload must be a JSON object or array"),
        ("\"x\"", "Telemetry payload must be a JSON object or array"),
        ("{}", "JSON payload does not contain telemetry events"),
        (
            r#"{"a": 1}"#,
            "JSON payload does not contain telemetry events",
        ),
        ("[1]", "Event at index 0 must be an object"),
        (
            r#"[{"timestamp": 1}, []]"#,
            "Event at index 1 must be an object",
        ),
        (
            r#"{"events": [null]}"#,
            "Event at index 0 must be an object",
        ),
    ] {
        let path = write(&folder, "document.json", text);
        assert_eq!(refused(&path).to_string(), message, "{text}");
    }
    for text in [
        "",
        " ",
        "[",
        "[{}",
        r#"[{"timestamp": 1},]"#,
        "[] x",
        "{]",
        "nul",
    ] {
        let path = write(&folder, "document.json", text);
        assert!(
            matches!(refused(&path), LoadError::Json { .. }),
            "{text}: {:?}",
            refused(&path)
        );
    }
    let path = write(
        &folder,
        "document.json",
        b"[{\"timestamp\": 1, \"context\": \"\xff\"}]",
    );
    assert_eq!(
        refused(&path).to_string(),
        format!("'{}' is not UTF-8 at byte 30", path.display())
    );
}

#[test]
fn legacy_records_can_be_refused() {
    let strict = LoadOptions {
        permissive_legacy: false,
        ..LoadOptions::default()
    };
    for name in ["legacy.json", "mixed.jsonl"] {
        let error = load_events(&fixture(&format!("versions/{name}")), None, &strict)
            .expect_err("legacy records");
        assert_eq!(error.to_string(), "Legacy record conversion is disabled");
    }
}

#[test]
fn separators_of_unicode_inside_strings_are_text() {
    let loaded = load(&fixture("line_ends/separators.jsonl"));
    let all = events(&loaded);
    assert_eq!(steps(&all), [0, 1, 2]);
    let text = "before\u{2028}line\u{2029}paragraph\u{85}next";
    assert!(all.iter().all(|event| event.context == Some(text.into())));
}

#[test]
fn every_line_end() {
    for name in ["lf", "crlf", "cr"] {
        let loaded = load(&fixture(&format!("line_ends/{name}.jsonl")));
        assert_eq!(steps(&events(&loaded)), [0, 1, 2], "{name}");
        assert_eq!(loaded.damage, []);
    }
    let mixed = load(&fixture("line_ends/mixed.jsonl"));
    assert_eq!(steps(&events(&mixed)), [0, 1, 2, 3]);
}

#[test]
fn a_broken_line_between_carriage_returns_hides_nothing() {
    let folder = folder();
    let text = format!("{}x\r{}", lines(1), lines(2)).replace('\n', "\r");
    let path = write(&folder, "cr.jsonl", text);
    assert!(
        refused(&path).to_string().ends_with("at line 2"),
        "{:?}",
        refused(&path)
    );
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 3);
    let lines: Vec<_> = loaded.damage.iter().map(|damage| damage.line).collect();
    assert_eq!(lines, [Some(2)]);
}

#[test]
fn values_that_strict_readers_spoil_are_kept() {
    let all = events(&load(&fixture("odd_values/odd.jsonl")));
    assert_eq!(steps(&all), [0, 1, 2, 3, 4, 5]);
    let number = |key: &str| all[0].metadata.get(key).and_then(Value::as_number);
    assert!(number("loss").is_some_and(f64::is_nan));
    assert_eq!(number("grad"), Some(f64::INFINITY));
    assert_eq!(
        all[1].metadata.get("big"),
        Some(&Value::Big("1180591620717411303424".into()))
    );
    let context = all[2].context.as_ref().expect("a context");
    assert!(context.code_points().any(|point| point == 0xd800));
    // For a repeated key, the last value counts.
    assert_eq!(all[3].rank, 1);
    assert_eq!(all[3].metadata, object(r#"{"a": 2}"#));
    assert_eq!(all[4].host, "café");
}

#[test]
fn integers_beyond_64_bits_are_a_clear_error() {
    let path = fixture("odd_values/too_big.jsonl");
    assert_eq!(
        refused(&path).to_string(),
        "allocator_allocated_bytes must fit a signed 64-bit integer"
    );
    let loaded = load_around_damage(&path);
    assert_eq!(steps(&events(&loaded)), [0, 2]);
    assert_eq!(loaded.damage[0].line, Some(2));
    assert_eq!(
        loaded.damage[0].field.as_deref(),
        Some("allocator_allocated_bytes")
    );
}

#[test]
fn items_that_are_no_records_are_skipped_when_asked() {
    let folder = folder();
    let good = line("{}");
    let good = good.trim();
    for document in [
        format!("[{good}, 5,\n {good}, {{\"timestamp\": \"x\"}}]"),
        format!("{{\"events\": [{good}, 5,\n {good}, {{\"timestamp\": \"x\"}}]}}"),
    ] {
        let path = write(&folder, "document.json", &document);
        let loaded = load_around_damage(&path);
        assert_eq!(events(&loaded).len(), 2, "{document}");
        let listed: Vec<_> = loaded
            .damage
            .iter()
            .map(|damage| {
                let bytes = damage.bytes.clone().expect("a place");
                let bytes = usize::try_from(bytes.start).expect("small")
                    ..usize::try_from(bytes.end).expect("small");
                (damage.line, document[bytes].to_owned())
            })
            .collect();
        assert_eq!(
            listed,
            [
                (Some(1), "5".to_owned()),
                (Some(2), "{\"timestamp\": \"x\"}".to_owned())
            ]
        );
        assert_eq!(loaded.sessions[0].damage, loaded.damage);
    }
}

#[test]
fn a_list_that_breaks_off_gives_its_whole_records_when_asked() {
    let folder = folder();
    let good = line("{}");
    let document = format!("[{good}, {good}, {}", &good[..100]);
    let path = write(&folder, "document.json", &document);
    assert!(matches!(refused(&path), LoadError::Json { .. }));
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 2);
    assert_eq!(loaded.damage.len(), 1, "{:?}", loaded.damage);
    assert_eq!(loaded.damage[0].line, Some(3));
    let bytes = loaded.damage[0].bytes.clone().expect("a place");
    assert_eq!(bytes.end, document.len() as u64);
}

#[test]
fn equal_metadata_after_an_odd_line_is_not_mixed_up() {
    // The general parser reads the second line, because white space follows it. The scanner reads
    // the third line.
    let folder = folder();
    let step = |n: i64| {
        line(&format!(
            r#"{{"metadata": {{"step": {n}}}, "timestamp_ns": {n}}}"#
        ))
    };
    let spaced = |n: i64| step(n).replace('\n', " \n");
    let broken = |n: i64| step(n).replace('\n', "x\n");
    for odd in [spaced(2), broken(2)] {
        let text = format!("{}{odd}{}{}", step(1), step(2), step(1));
        let path = write(&folder, "steps.jsonl", text);
        let loaded = load_sessions(&path, &skip()).expect("it loads");
        for event in events(&loaded) {
            let step = event.metadata.get("step").and_then(Value::as_int);
            assert_eq!(step, Some(event.timestamp_ns), "{odd}");
        }
    }
}

#[test]
fn a_record_may_not_go_on_in_the_next_line() {
    let folder = folder();
    let whole = line(r#"{"metadata": {"a": 1, "b": 2}}"#);
    for place in [r#""rank""#, r#""b""#, r#""allocator_active_bytes""#] {
        for end in ["\n", "\r", "\r\n"] {
            let broken = whole.replace(place, &format!("{end}{place}"));
            let path = write(&folder, "x.jsonl", format!("{whole}{broken}{whole}"));
            assert!(
                refused(&path).to_string().ends_with("at line 2"),
                "{place} {end:?}"
            );
            let loaded = load_around_damage(&path);
            assert_eq!(events(&loaded).len(), 2, "{place} {end:?}");
            assert_eq!(loaded.damage.len(), 2, "{place} {end:?}");
        }
    }
}

#[test]
fn a_record_is_the_same_however_its_file_is_laid_out() {
    let folder = folder();
    let expected = event(r#"{"context": "a, b", "metadata": {"k": [1, {"x": null}]}}"#);
    let record = record(r#"{"context": "a, b", "metadata": {"k": [1, {"x": null}]}}"#);
    for layout in [Layout::Line, Layout::Compact, Layout::Indented] {
        for writer in [Writer::new(layout), Writer::new(layout).sorted()] {
            let one = writer.map_to_string(&record);
            let path = write(&folder, "list.json", format!("[{one},\n{one}]"));
            assert_eq!(events(&load(&path)), [expected.clone(), expected.clone()]);
            let path = write(&folder, "one.json", &one);
            assert_eq!(events(&load(&path)), std::slice::from_ref(&expected));
        }
    }
}
