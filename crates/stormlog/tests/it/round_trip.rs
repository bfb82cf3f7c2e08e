//! What is converted and loaded again is the same, through every format.

use proptest::collection::vec;
use proptest::prelude::*;
use stormlog::{Console, Dialect, Exit};
use stormlog_analysis::{LoadOptions, load_sessions};
use stormlog_format::{Counters, Event, Map, Text, Value, Version};

fn name() -> impl Strategy<Value = Text> {
    // Tables are read without the white space around a name.
    "[!-~]([ -~\u{e9}\u{2028}\u{1f600}]{0,7}[!-~])?".prop_map(Text::from)
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        prop::num::f64::NORMAL.prop_map(Value::Float),
        ".{0,8}".prop_map(Value::text),
        Just(Value::Big("123456789012345678901".into())),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::List),
            object(inner).prop_map(Value::Map),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map> {
    let entry = ("[a-z\"',{}\n\u{e9}]{0,5}".prop_map(Text::from), value);
    vec(entry, 0..4).prop_map(|entries| entries.into_iter().collect())
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = || 0..1_i64 << 52;
    let maybe = || prop::option::of(0..1_i64 << 52);
    let names = (name(), name(), name(), name(), prop::option::of(name()));
    let numbers = (
        any::<u32>(),
        0..1_000_000_i64,
        -1..100_000_i64,
        -1..16_i64,
        1..9_i64,
    );
    let counters = (
        bytes(),
        bytes(),
        maybe(),
        maybe(),
        any::<i32>(),
        bytes(),
        maybe(),
    );
    // An empty context is none in a table.
    let context = prop::option::of("[a-z,\"'\r\n]{1,12}");
    let total = any::<bool>();
    (
        names,
        numbers,
        counters,
        total,
        context,
        object(value()),
        0..8_i64,
    )
        .prop_map(
            |(names, numbers, counters, total, context, metadata, rank)| Event {
                version: Version::V3,
                session_id: names.0,
                timestamp_ns: i64::from(numbers.0),
                event_type: names.1,
                collector: names.2,
                sampling_interval_ms: numbers.1,
                pid: numbers.2,
                host: names.3,
                job_id: names.4,
                rank: rank % numbers.4,
                local_rank: rank % numbers.4,
                world_size: numbers.4,
                device_id: numbers.3,
                counters: Counters {
                    allocator_allocated_bytes: Some(counters.0),
                    allocator_reserved_bytes: Some(counters.1),
                    allocator_active_bytes: counters.2,
                    allocator_inactive_bytes: counters.3,
                    allocator_change_bytes: Some(i64::from(counters.4)),
                    device_used_bytes: Some(counters.5),
                    device_free_bytes: counters.6,
                    device_total_bytes: total.then_some(1 << 53),
                },
                context: context.map(Text::from),
                metadata,
            },
        )
}

fn convert(from: &std::path::Path, to: &std::path::Path) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        out_is_terminal: false,
        err_is_terminal: false,
        services: None,
        decided: None,
    };
    let arguments = ["convert".into(), from.into(), to.into()];
    let exit = stormlog::run(Dialect::Stormlog, arguments, &mut console);
    assert_eq!(exit, Exit::Fine, "{}", String::from_utf8_lossy(&err));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_on_the_way(events in vec(event(), 1..6)) {
        let folder = tempfile::tempdir().expect("a folder");
        let first = folder.path().join("first.jsonl");
        let lines: String = events.iter().map(|event| event.to_line() + "\n").collect();
        std::fs::write(&first, lines).expect("writable");
        let mut last = first;
        for name in ["a.json", "b.csv", "c.jsonl.gz", "d.json.zst", "e.csv.gz", "f.jsonl"] {
            let next = folder.path().join(name);
            convert(&last, &next);
            last = next;
            let loaded = load_sessions(&last, &LoadOptions::default()).expect("it loads");
            let found = loaded.sessions.iter().flat_map(|session| session.events.iter());
            // Lines, since the order of metadata's keys is not kept.
            let mut found: Vec<String> = found.map(|event| event.to_event().to_line()).collect();
            found.sort();
            let mut expected: Vec<String> = events.iter().map(Event::to_line).collect();
            expected.sort();
            prop_assert_eq!(&found, &expected, "{}", name);
        }
    }
}
