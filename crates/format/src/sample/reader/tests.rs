use proptest::prelude::*;

use super::super::SampleNumbers;
use super::*;
use crate::event::{Event, Version};
use crate::json::Writer;
use crate::skeleton::Matcher;
use crate::value::{Map, Value};

const COUNTERS: Counters = Counters {
    allocator_allocated_bytes: Some(1),
    allocator_reserved_bytes: Some(2),
    allocator_active_bytes: Some(3),
    allocator_inactive_bytes: Some(4),
    allocator_change_bytes: Some(5),
    device_used_bytes: Some(6),
    device_free_bytes: Some(7),
    device_total_bytes: Some(8),
};

fn read(metadata: &[u8]) -> Sample {
    SampleReader::default().read_text(COUNTERS, metadata)
}

/// Reads a sample from metadata that are given as numbers; `None` if they have no integers.
fn read_numbered(reader: &mut SampleReader, text: &[u8]) -> Option<Sample> {
    let mut matcher = Matcher::default();
    matcher.learn(text);
    let shown = String::from_utf8_lossy(text);
    assert_eq!(matcher.matches(text), Some(text.len()), "{shown}");
    Some(reader.read_numbered(COUNTERS, matcher.matched()?))
}

fn event(metadata: Map) -> Event {
    Event {
        version: Version::V3,
        session_id: "s".into(),
        timestamp_ns: 1,
        event_type: "sample".into(),
        collector: "c".into(),
        sampling_interval_ms: 100,
        pid: 1,
        host: "h".into(),
        job_id: None,
        rank: 0,
        local_rank: 0,
        world_size: 1,
        device_id: 0,
        counters: COUNTERS,
        context: None,
        metadata,
    }
}

#[test]
fn a_known_layout_gives_the_same_sample_as_a_new_one() {
    let texts: [&[u8]; 19] = [
        br#"{"step": 1, "host_memory": {"anonymous": 3, "limit": 8}, "pinned_bytes": 4}"#,
        br#"{"step": 200, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
        br#"{"step": -1, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
        br#"{"step": 1.5, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
        br#"{"step": null, "host_memory": {"anonymous": 30, "limit": 9}, "pinned_bytes": 0}"#,
        br#"{"step": 1, "host_memory": {"anonymous": 3, "limit": 8}, "pinned_bytes": 4"#,
        br#"{"step": 1, "host_memory": {"anonymous": 3, "limit": 8}, "pinned_bytes": 4} "#,
        br#"{"step": 1, "step": 2}"#,
        br#"{"step": 1, "step": null}"#,
        br#"{"step": 7, "step": null}"#,
        br#"{"step": 3, "processes": [[7, 1, 2]]}"#,
        br#"{"step": 4, "processes": [[8, 1, 2]]}"#,
        br#"{"step": 5, "processes": [[8, -1, 2, 4], ["x"], [1, 2.5, 3], [9, 9, 9, 0]]}"#,
        br#"{"step": 6, "processes": [[7, 11, 2, 4], ["x"], [3, 2.5, 3], [6, 0, -1, 5]]}"#,
        br#"{"step": 7, "processes": []}"#,
        br#"{"step": 4, "other": {"step": 5}}"#,
        br#"{"backend": "cuda"}"#,
        br#"{"step": 8, "collector_partial_fields": ["device_used_bytes"]}"#,
        br#"{"step": 9, "collector_partial_fields": []}"#,
    ];
    let mut reader = SampleReader::default();
    for turn in 0..3 {
        for text in texts {
            if let Some(known) = read_numbered(&mut reader, text) {
                let shown = String::from_utf8_lossy(text);
                assert_eq!(known, read(text), "turn {turn}: {shown}");
            }
        }
    }
    assert!(reader.layouts.read(|_| Some(())).is_some());
}

#[test]
fn numbers_and_processes_are_read() {
    let sample = read(
        br#"{"step": 12, "optimizer": 1, "step_count": 40, "allocator_read_ns": 5,
            "host_memory": {"anonymous": 3, "shared": 4, "file": 0}, "step": 13,
            "processes": [[7, 1, 2, 3], ["x"], [8, -1, 5, 0], [9, 0, 0]]}"#,
    );
    let known: Vec<_> = sample.numbers.known().collect();
    assert_eq!(
        known,
        [
            (SampleNumber::Step, 13),
            (SampleNumber::Optimizer, 1),
            (SampleNumber::StepCount, 40),
            (SampleNumber::AllocatorReadNs, 5),
            (SampleNumber::HostAnonymous, 3),
            (SampleNumber::HostShared, 4),
            (SampleNumber::HostFile, 0),
        ]
    );
    let processes = sample.processes.iter();
    let processes: Vec<_> = processes
        .map(|one| (one.pid, one.anonymous, one.shared))
        .collect();
    assert_eq!(processes, [(7, 1, 2), (9, 0, 0)]);
}

#[test]
fn a_value_that_is_no_count_is_unknown_and_not_zero() {
    for value in [
        "-1",
        "-9223372036854775808",
        "9223372036854775808",
        "99999999999999999999999",
        "1.0",
        "1e3",
        "NaN",
        "Infinity",
        "-Infinity",
        "true",
        "null",
        "\"5\"",
        "[5]",
        "{}",
    ] {
        let text = format!(
            r#"{{"step": {value}, "pinned_bytes": 9, "host_memory": {{"file": {value}}},
                "processes": [[{value}, 1, 2], [7, {value}, 2], [7, 1, {value}]]}}"#
        );
        let sample = read(text.as_bytes());
        let known: Vec<_> = sample.numbers.known().collect();
        assert_eq!(known, [(SampleNumber::Pinned, 9)], "{value}");
        assert_eq!(sample.processes, [], "{value}");
    }
    for text in [
        r#"{"host_memory": [1, 2], "processes": {"7": 1}, "collector_partial_fields": 7}"#,
        r#"{"host_memory": 7, "processes": [7, null, [], [[7, 1, 2]]]}"#,
        "",
        "[]",
        "5",
    ] {
        let nothing = Sample {
            counters: COUNTERS,
            ..Sample::default()
        };
        assert_eq!(read(text.as_bytes()), nothing, "{text}");
    }
}

#[test]
fn a_number_is_read_in_its_place_only() {
    let own = |text: &[u8]| read(text).numbers[SampleNumber::Own];
    assert_eq!(own(br#"{"a": {"process_device_used_bytes": 5}}"#), None);
    let both = br#"{"a": "process_device_used_bytes", "process_device_used_bytes": 7}"#;
    assert_eq!(own(both), Some(7));
    let swapped = read(br#"{"anonymous": 5, "host_memory": {"step": 6}}"#);
    assert_eq!(swapped.numbers, SampleNumbers::default());
}

#[test]
fn broken_metadata_are_read_up_to_the_mistake() {
    let sample = read(br#"{"step": 3, "pinned_bytes": 9, "host_memory": {"anonymous""#);
    let known: Vec<_> = sample.numbers.known().collect();
    assert_eq!(known, [(SampleNumber::Step, 3), (SampleNumber::Pinned, 9)]);
}

#[test]
fn text_and_map_agree_on_keys_that_are_repeated_or_escaped() {
    for text in [
        r#"{"host_memory": {"anonymous": 1, "file": 1}, "host_memory": {"shared": 2}}"#,
        r#"{"host_memory": {"anonymous": 1}, "host_memory": 2}"#,
        r#"{"processes": [[7, 1, 2]], "processes": 5}"#,
        r#"{"s\u0074ep": 5, "host_memory": {"f\u0069le": 6}}"#,
        r#"{"step": 1, "s\u0074ep": -2}"#,
        r#"{"step": -0}"#,
        r#"{"collector_partial_fields": ["device_used_bytes"], "collector_partial_fields": []}"#,
    ] {
        let Ok(Value::Map(map)) = parse(text.as_bytes()) else {
            panic!("{text} is no object")
        };
        assert_eq!(read(text.as_bytes()), Sample::of_event(&event(map)));
    }
}

#[test]
fn only_so_many_processes_are_read() {
    let rows = vec!["[7, 1, 2]"; MOST_PROCESSES + 1].join(", ");
    let text = format!(r#"{{"processes": [{rows}]}}"#);
    assert_eq!(read(text.as_bytes()).processes.len(), MOST_PROCESSES);
}

#[test]
fn keys_and_columns_are_unique() {
    for number in SampleNumber::ALL {
        let key = number.key().as_bytes();
        assert_eq!(SampleNumber::of_key(number.place(), key), Some(number));
    }
    let mut columns: Vec<_> = SampleNumber::ALL
        .into_iter()
        .filter_map(SampleNumber::column)
        .collect();
    let count = columns.len();
    columns.sort_unstable();
    columns.dedup();
    assert_eq!(columns.len(), count);
}

/// Values as a recorder writes them, and values that it never writes.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (0..i64::MAX).prop_map(Value::Int),
        1 => any::<i64>().prop_map(Value::Int),
        1 => any::<f64>().prop_map(Value::Float),
        1 => Just(Value::Big("9223372036854775808".into())),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null),
        1 => ".{0,4}".prop_map(Value::text),
        1 => Just(Value::List(vec![Value::Int(1)])),
    ]
}

prop_compose! {
    fn any_metadata()(
        values in proptest::collection::vec(proptest::option::of(any_value()), SampleNumber::ALL.len()),
        rows in proptest::collection::vec(proptest::collection::vec(any_value(), 0..5), 0..4),
        has_host in any::<bool>(),
        partial in proptest::option::of(0_usize..8),
        other in any_value(),
    ) -> Map {
        let (mut metadata, mut host) = (Map::new(), Map::new());
        for (number, value) in SampleNumber::ALL.into_iter().zip(values) {
            let object = match number.place() {
                Place::Metadata => &mut metadata,
                Place::HostMemory => &mut host,
            };
            if let Some(value) = value {
                object.insert(number.key(), value);
            }
        }
        metadata.insert("other", other);
        if has_host {
            metadata.insert(metadata_keys::HOST_MEMORY, Value::Map(host));
        }
        let rows = rows.into_iter().map(Value::List);
        metadata.insert(metadata_keys::PROCESSES, Value::List(rows.collect()));
        if let Some(partial) = partial {
            let name = Value::from(COUNTERS.named()[partial].0);
            metadata.insert(metadata_keys::COLLECTOR_PARTIAL_FIELDS, Value::List(vec![name]));
        }
        metadata
    }
}

/// The metadata with other integers, some of them of the other sign.
fn with_other_integers(value: &Value) -> Value {
    match value {
        Value::Int(value) => Value::Int(value.wrapping_mul(7).wrapping_sub(3)),
        Value::List(items) => Value::List(items.iter().map(with_other_integers).collect()),
        Value::Map(map) => Value::Map(
            map.iter()
                .map(|(key, value)| (key.clone(), with_other_integers(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    /// What a recorder writes into a line of a segment is what each way of reading it finds.
    #[test]
    fn writer_and_reader_agree(metadata in any_metadata()) {
        let mut reader = SampleReader::default();
        let other = with_other_integers(&Value::Map(metadata.clone()));
        let other = other.as_map().cloned().unwrap_or_default();
        for metadata in [&metadata, &other, &metadata] {
            let event = event(metadata.clone());
            let sample = Sample::of_event(&event);
            for number in SampleNumber::ALL {
                let object = match number.place() {
                    Place::Metadata => Some(metadata),
                    Place::HostMemory => metadata.object(metadata_keys::HOST_MEMORY),
                };
                let written = object.and_then(|object| object.int(number.key()));
                prop_assert_eq!(sample.numbers[number], written.filter(|value| *value >= 0));
            }
            let text = Writer::new(crate::json::Layout::Line).sorted().map_to_string(metadata);
            prop_assert!(event.to_line().contains(&text));
            prop_assert_eq!(&reader.read_text(COUNTERS, text.as_bytes()), &sample);
            if let Some(numbered) = read_numbered(&mut reader, text.as_bytes()) {
                prop_assert_eq!(&numbered, &sample);
            }
        }
    }
}
