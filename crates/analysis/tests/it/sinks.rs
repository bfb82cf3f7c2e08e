//! Tests sinks: segments, manifests and the sessions in them.

use stormlog_analysis::{LoadError, default_session, load_events, manifest_path, segment_paths};
use stormlog_format::SessionStatus;

use crate::support::{
    events, fixture, folder, line, lines, load, load_around_damage, raise, refused, steps, write,
};

#[test]
fn sessions_come_in_selection_order_with_their_events_in_time_order() {
    let loaded = load(&fixture("two_ranks"));
    let facts: Vec<_> = loaded
        .sessions
        .iter()
        .map(|session| {
            (
                session.summary.status,
                session.summary.rank,
                session.events.len(),
                session.sources.len(),
            )
        })
        .collect();
    assert_eq!(
        facts,
        [
            (SessionStatus::Completed, 0, 11, 1),
            (SessionStatus::Interrupted, 1, 8, 1)
        ]
    );
    assert_eq!(
        steps(&events(&loaded)),
        (0..11).chain(0..8).collect::<Vec<_>>()
    );
    assert_eq!(loaded.damage, []);
}

#[test]
fn a_manifest_stands_for_its_folder() {
    let by_folder = load(&fixture("two_ranks"));
    let by_manifest = load(&fixture("two_ranks/manifest.json"));
    assert_eq!(events(&by_folder), events(&by_manifest));
    assert_eq!(
        manifest_path(&fixture("two_ranks/segment-000002.jsonl")),
        Some(fixture("two_ranks/manifest.json"))
    );
    assert_eq!(segment_paths(&fixture("two_ranks")).len(), 2);
}

#[test]
fn one_segment_takes_its_session_from_the_manifest_beside_it() {
    let loaded = load(&fixture("two_ranks/segment-000002.jsonl"));
    let chosen = default_session(&loaded).expect("a session");
    assert_eq!(chosen.summary.status, SessionStatus::Interrupted);
    assert_eq!(chosen.events.len(), 8);
    // The other session of the manifest is listed without events.
    assert_eq!(loaded.sessions.len(), 2);
}

#[test]
fn a_named_session_or_a_clear_error() {
    let path = fixture("two_ranks");
    let id = "7f3a0000-0000-4000-8000-000000000002";
    let (rows, _) = load_events(&path, Some(id), &raise()).expect("it is there");
    assert_eq!(rows.len(), 8);
    let missing = load_events(&path, Some("nobody"), &raise()).expect_err("it is not there");
    assert_eq!(
        missing.to_string(),
        "Requested session_id not found: nobody"
    );
}

#[test]
fn a_torn_last_line_is_skipped_and_reported() {
    let loaded = load(&fixture("torn_last_line"));
    assert_eq!(steps(&events(&loaded)), [0, 1, 2, 3, 4]);
    let [damage] = loaded.damage.as_slice() else {
        panic!("one damaged place: {:?}", loaded.damage);
    };
    assert_eq!(damage.line, Some(3));
    assert!(damage.file.ends_with("segment-000002.jsonl"));
    let size = damage.file.metadata().expect("it exists").len();
    assert_eq!(damage.bytes.as_ref().map(|bytes| bytes.end), Some(size));
    assert_eq!(
        damage.reason,
        "the last line is incomplete; everything before it is loaded"
    );
    assert_eq!(loaded.sessions[0].damage, loaded.damage);
}

#[test]
fn a_broken_line_elsewhere_is_an_error_that_names_it() {
    let error = refused(&fixture("broken_middle_line"));
    let file = fixture("broken_middle_line/segment-000001.jsonl");
    assert_eq!(
        error.to_string(),
        format!(
            "Malformed telemetry JSONL record in {} at line 3",
            file.display()
        )
    );
}

#[test]
fn broken_lines_are_skipped_one_by_one_when_asked() {
    let loaded = load_around_damage(&fixture("broken_middle_line"));
    assert_eq!(steps(&events(&loaded)), [0, 1, 3, 5]);
    let text = std::fs::read(fixture("broken_middle_line/segment-000001.jsonl")).expect("readable");
    let listed: Vec<_> = loaded
        .damage
        .iter()
        .map(|damage| {
            let bytes = damage.bytes.clone().expect("a place");
            let bytes = usize::try_from(bytes.start).expect("small")
                ..usize::try_from(bytes.end).expect("small");
            // The damage covers exactly the line, including its newline.
            assert_eq!(text[bytes.end - 1], b'\n');
            assert!(bytes.start == 0 || text[bytes.start - 1] == b'\n');
            assert!(!text[bytes.start..bytes.end - 1].contains(&b'\n'));
            (damage.line, damage.field.as_deref())
        })
        .collect();
    assert_eq!(
        listed,
        [(Some(3), None), (Some(5), Some("device_used_bytes"))]
    );
}

#[test]
fn a_missing_segment_is_reported_with_the_events_lost() {
    let loaded = load(&fixture("missing_segment"));
    assert_eq!(steps(&events(&loaded)), [0, 1, 2, 503, 504, 505]);
    let [damage] = loaded.damage.as_slice() else {
        panic!("one damaged place: {:?}", loaded.damage);
    };
    assert!(damage.file.ends_with("segment-000002.jsonl"));
    assert_eq!(
        damage.reason,
        "segment is missing; 500 events of it are lost"
    );
    // The session that lost events lists the damage too.
    assert_eq!(loaded.sessions[0].damage, loaded.damage);
}

#[test]
fn a_segment_with_fewer_events_than_its_manifest_lists_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = [
        "manifest.json",
        "segment-000001.jsonl",
        "segment-000002.jsonl",
    ];
    for name in names {
        let from = fixture("two_ranks").join(name);
        std::fs::copy(from, folder.path().join(name)).expect("copied");
    }
    assert_eq!(load(folder.path()).damage, []);
    let segment = folder.path().join("segment-000001.jsonl");
    let text = std::fs::read_to_string(&segment).expect("text");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let left = lines[..lines.len() - 1].concat();
    std::fs::write(&segment, &left).expect("written");
    let loaded = load(folder.path());
    let [damage] = loaded.damage.as_slice() else {
        panic!("one damaged place: {:?}", loaded.damage);
    };
    assert_eq!(damage.file, segment);
    assert_eq!(damage.reason, "segment is cut off: it has 10 of 11 events");
    // A newline that is missing is no event, and neither is a secret that was removed.
    for changed in [text.trim_end().to_owned(), text.replace("node-01", "n")] {
        std::fs::write(&segment, changed).expect("written");
        assert_eq!(load(folder.path()).damage, []);
    }
    // A segment that was compressed without a change of its name is not cut off.
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    std::fs::write(&segment, packed).expect("written");
    assert_eq!(load(folder.path()).damage, []);
}

#[test]
fn a_segment_that_is_listed_many_times_is_checked_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "segment-000001.jsonl";
    let from = fixture("two_ranks").join(name);
    std::fs::copy(from, folder.path().join(name)).expect("copied");
    let entry = format!(
        r#"{{"filename": "{name}", "event_count": 99, "size_bytes": 999999, "closed": true, "session_id": "s"}}"#
    );
    let entries = vec![entry; 5000].join(", ");
    let manifest = format!(
        r#"{{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink", "sessions": [], "segments": [{entries}]}}"#
    );
    std::fs::write(folder.path().join("manifest.json"), manifest).expect("written");
    let loaded = load(folder.path());
    let reasons = loaded.damage.iter().map(|damage| damage.reason.as_str());
    let reasons: Vec<&str> = reasons.collect();
    assert_eq!(reasons, ["segment is cut off: it has 11 of 99 events"]);
}

#[test]
fn segments_outside_the_sink_are_refused_and_reported() {
    let loaded = load(&fixture("segment_outside_sink/sink"));
    assert_eq!(steps(&events(&loaded)), [0, 1]);
    assert!(
        events(&loaded)
            .iter()
            .all(|event| event.session_id != "secret")
    );
    let reasons: Vec<&str> = loaded
        .damage
        .iter()
        .map(|damage| damage.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "refused segment '/etc/hostname': it is outside the sink",
            "refused segment '../secret.jsonl': it is outside the sink",
            "refused segment 'linked.jsonl': it is outside the sink",
            "refused segment './../sink/../secret.jsonl': it is outside the sink",
            "refused: a link that leads outside the sink",
        ]
    );
}

#[test]
fn a_sink_that_was_never_flushed_has_its_session() {
    for path in ["never_flushed", "never_flushed/manifest.json"] {
        let loaded = load(&fixture(path));
        assert_eq!(loaded.sessions.len(), 1, "{path}");
        assert_eq!(loaded.sessions[0].summary.status, SessionStatus::Running);
        assert!(loaded.sessions[0].events.is_empty());
        assert_eq!(loaded.damage, []);
    }
}

#[test]
fn numbers_that_no_file_can_have_spoil_their_entry_only() {
    let folder = folder();
    write(&folder, "segment-000001.jsonl", lines(2));
    for (size, listed) in [
        ("NaN", false),
        ("Infinity", true),
        ("1e999", true),
        ("123456789012345678901", true),
    ] {
        let manifest = format!(
            r#"{{"schema_version": 2, "sessions": [{{"session_id": "x", "status": "running",
                "started_at_ns": {size}, "host": "h", "source": "s"}}],
                "segments": [{{"filename": "segment-000001.jsonl", "event_count": {size}}}]}}"#
        );
        write(&folder, "manifest.json", manifest);
        let loaded = load(folder.path());
        assert_eq!(events(&loaded).len(), 2, "{size}");
        assert_eq!(
            loaded
                .damage
                .iter()
                .any(|damage| damage.reason.starts_with("ignored: segment 0")),
            listed,
            "{size}: {:?}",
            loaded.damage
        );
    }
}

#[test]
fn a_folder_without_telemetry_is_an_error_with_its_name() {
    let folder = folder();
    assert!(matches!(
        refused(folder.path()),
        LoadError::NotAnArtifact(path) if path == folder.path()
    ));
    for missing in [
        "nothing",
        "nothing.jsonl",
        "nothing/manifest.json",
        "manifest.json",
    ] {
        let path = folder.path().join(missing);
        assert!(
            matches!(refused(&path), LoadError::NotFound(_)),
            "{missing}: {:?}",
            refused(&path)
        );
    }
}

#[test]
fn the_manifest_of_another_program_makes_no_sink() {
    let folder = folder();
    let path = write(
        &folder,
        "manifest.json",
        r#"{"name": "a web page", "icons": []}"#,
    );
    assert!(matches!(
        refused(folder.path()),
        LoadError::NotAnArtifact(_)
    ));
    assert!(matches!(refused(&path), LoadError::NoEvents { .. }));
}

#[test]
fn records_without_a_session_get_that_of_their_segment() {
    let folder = folder();
    write(
        &folder,
        "manifest.json",
        r#"{"schema_version": 2, "sessions": [], "segments":
            [{"filename": "segment-000001.jsonl", "session_id": "from-manifest"}]}"#,
    );
    write(&folder, "segment-000001.jsonl", r#"{"timestamp_ns": 5}"#);
    write(&folder, "segment-000002.jsonl", "{\"timestamp_ns\": 6}\n");
    let loaded = load(folder.path());
    let ids: Vec<String> = loaded
        .sessions
        .iter()
        .map(|session| session.summary.session_id.to_string())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&"from-manifest".to_owned()));
    assert!(ids.iter().any(|id| id.starts_with("legacy-")));
}

#[test]
fn large_segments_are_read_in_parts_and_keep_their_order() {
    let folder = folder();
    let filler = "x".repeat(2000);
    let mut text = String::new();
    for n in 0..9000 {
        text += &line(&format!(
            r#"{{"timestamp_ns": {n}, "metadata": {{"fill": "{filler}{}"}}}}"#,
            n % 7
        ));
    }
    assert!(text.len() > 16 << 20);
    let broken = text.find('\n').expect("lines") + 1;
    write(&folder, "segment-000001.jsonl", &text);
    let loaded = load(folder.path());
    let times: Vec<i64> = events(&loaded)
        .iter()
        .map(|event| event.timestamp_ns)
        .collect();
    assert_eq!(times, (0..9000).collect::<Vec<_>>());

    // A damaged line far into the file is reported with its number in the file.
    let place = text[12 << 20..].find('\n').expect("lines") + (12 << 20) + 1;
    text.replace_range(place..=place, "[");
    text.replace_range(broken..=broken, "[");
    write(&folder, "segment-000001.jsonl", &text);
    let loaded = load_around_damage(folder.path());
    let number = text[..place].matches('\n').count() as u64 + 1;
    let numbers: Vec<_> = loaded.damage.iter().map(|damage| damage.line).collect();
    assert_eq!(numbers, [Some(2), Some(number)]);
    let starts: Vec<_> = loaded
        .damage
        .iter()
        .filter_map(|damage| Some(damage.bytes.clone()?.start))
        .collect();
    assert_eq!(starts, [broken as u64, place as u64]);
    assert!(refused(folder.path()).to_string().ends_with("at line 2"));
}
