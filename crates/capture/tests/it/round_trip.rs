//! Written events can be loaded unchanged, also from a file that is cut off anywhere.

use proptest::prelude::*;
use stormlog_analysis::{EventRef, LoadOptions, load_sessions};
use stormlog_capture::store::{Sink, SinkConfig};
use stormlog_format::{Counters, Event, Map, SessionStatus, Text, Value};

use crate::events::{sample, session};

fn any_text() -> impl Strategy<Value = Text> {
    prop_oneof![
        Just("plain".to_owned()),
        any::<String>(),
        Just("\u{2028}\u{85}\"\\\n\0é😀".to_owned()),
    ]
    .prop_map(Text::from)
}

fn a_name() -> impl Strategy<Value = Text> {
    any_text().prop_filter("names are not blank", |text| !text.is_blank())
}

fn a_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        proptest::num::f64::NORMAL.prop_map(Value::Float),
        any_text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            proptest::collection::vec((any_text(), inner), 0..4)
                .prop_map(|entries| Value::Map(sorted(entries))),
        ]
    })
}

/// Files contain keys in order, so an object equals the loaded one only when it is sorted.
fn sorted(mut entries: Vec<(Text, Value)>) -> Map {
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
    entries.into_iter().collect()
}

prop_compose! {
    fn an_event()(
        number in 0..1000_i64,
        event_type in a_name(),
        host in a_name(),
        context in proptest::option::of(any_text()),
        counters in proptest::array::uniform3(0..i64::MAX),
        known in any::<bool>(),
        ranks in (0..64_i64, 64..1000_i64),
        metadata in proptest::collection::vec((any_text(), a_value()), 0..4),
    ) -> Event {
        let [allocated, reserved, used] = counters;
        Event {
            event_type,
            host,
            context,
            rank: ranks.0,
            world_size: ranks.1,
            counters: Counters {
                allocator_allocated_bytes: Some(allocated),
                allocator_reserved_bytes: Some(reserved),
                allocator_change_bytes: Some(-allocated),
                device_used_bytes: Some(used),
                allocator_active_bytes: known.then_some(allocated),
                ..Counters::default()
            },
            metadata: sorted(metadata),
            ..sample("one", number)
        }
    }
}

fn written(events: &[Event], config: SinkConfig) {
    let sink = Sink::open(config).unwrap();
    sink.start_session(Some(session("one"))).unwrap();
    for event in events {
        sink.append(event).unwrap();
    }
    sink.close(SessionStatus::Completed).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_loaded(events in proptest::collection::vec(an_event(), 0..30)) {
        let folder = tempfile::tempdir().unwrap();
        let config = SinkConfig {
            flush_every_events: 4,
            rollover_max_events: 10,
            ..SinkConfig::new(folder.path())
        };
        written(&events, config);
        let loaded = load_sessions(folder.path(), &LoadOptions::default()).unwrap();
        prop_assert!(loaded.damage.is_empty());
        let mut expected = events;
        expected.sort_by_key(|event| event.timestamp_ns);
        let found: Vec<Event> = loaded.sessions[0].events.iter().map(EventRef::to_event).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn every_prefix_of_a_segment_loads() {
    let folder = tempfile::tempdir().unwrap();
    let mut events: Vec<Event> = (0..4).map(|number| sample("one", number)).collect();
    events[1].context = Some("\u{2028} \"é😀\"".into());
    events[2]
        .metadata
        .insert("list", Value::List(vec![Value::Null, Value::Float(0.5)]));
    written(&events, SinkConfig::new(folder.path().join("whole")));
    let whole = std::fs::read(folder.path().join("whole/segment-000001.jsonl")).unwrap();
    let cut = folder.path().join("cut");
    std::fs::create_dir(&cut).unwrap();
    let segment = cut.join("segment-000001.jsonl");
    std::fs::copy(
        folder.path().join("whole/manifest.json"),
        cut.join("manifest.json"),
    )
    .unwrap();
    for length in 0..=whole.len() {
        std::fs::write(&segment, &whole[..length]).unwrap();
        let loaded = load_sessions(&cut, &LoadOptions::default())
            .unwrap_or_else(|error| panic!("{length} bytes do not load: {error}"));
        let complete = whole[..length].split(|byte| *byte == b'\n').count() - 1;
        let found = loaded.sessions[0].events.len();
        // A line without its newline counts once it is complete.
        let is_line_complete = whole.get(length) == Some(&b'\n');
        assert_eq!(
            found,
            complete + usize::from(is_line_complete),
            "{length} bytes"
        );
    }
}
