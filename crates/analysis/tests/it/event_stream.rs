//! Tests that streamed events have the same rows in the same order as loaded ones.

use std::fmt::Write as _;

use flate2::Compression;
use stormlog_analysis::query::{EventFilter, EventRow, Store};
use stormlog_format::Map;

use crate::support::{folder, gzip, write};

/// One event of a session, with metadata of a given length.
struct Line<'a> {
    session: &'a str,
    time_ns: i64,
    kind: &'a str,
    padding: usize,
}

impl Line<'_> {
    fn text(&self) -> String {
        let Line {
            session,
            time_ns,
            kind,
            padding,
        } = self;
        let padding = "x".repeat(*padding);
        format!(
            r#"{{"schema_version": 3, "session_id": "{session}", "timestamp_ns": {time_ns}, "event_type": "{kind}", "collector": "c", "sampling_interval_ms": 20, "pid": 1, "host": "h", "rank": 0, "local_rank": 0, "world_size": 1, "device_id": 0, "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 2, "allocator_active_bytes": null, "allocator_inactive_bytes": null, "allocator_change_bytes": -1, "device_used_bytes": 3, "device_free_bytes": 7, "device_total_bytes": 10, "context": null, "metadata": {{"p": "{padding}"}}}}"#
        )
    }
}

const PADDING: usize = 8000;

fn lines(session: &str, times: impl Iterator<Item = i64>) -> String {
    let mut out = String::new();
    for time_ns in times {
        let kind = match time_ns % 97 {
            0 => "warning",
            _ => "sample",
        };
        let line = Line {
            session,
            time_ns,
            kind,
            padding: PADDING,
        };
        let _ = writeln!(out, "{}", line.text());
    }
    out
}

fn manifest(segments: &[(&str, &str)], sessions: &[(&str, &str)]) -> String {
    let segments = segments.iter().map(|(name, session)| {
        format!(r#"{{"filename": "{name}", "event_count": 1, "size_bytes": 1, "closed": true, "session_id": "{session}"}}"#)
    });
    let sessions = sessions.iter().map(|(id, status)| {
        format!(r#"{{"session_id": "{id}", "status": "{status}", "started_at_ns": 1, "ended_at_ns": null, "host": "h", "pid": 1, "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1, "source": "t"}}"#)
    });
    format!(
        r#"{{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink", "segments": [{}], "sessions": [{}]}}"#,
        segments.collect::<Vec<_>>().join(", "),
        sessions.collect::<Vec<_>>().join(", ")
    )
}

/// The rows of a loaded and of a streamed result, and the warnings of the latter.
fn both(path: &std::path::Path, filter: &EventFilter) -> (Vec<Map>, Vec<Map>, Vec<String>) {
    let loaded = Store::open(&[path]);
    let loaded = loaded.events(filter).iter().map(EventRow::to_map).collect();
    let store = Store::open(&[path]);
    let streamed = store.event_stream(filter).collect();
    let warnings = store.warnings().into_iter();
    (
        loaded,
        streamed,
        warnings.map(|warning| warning.message).collect(),
    )
}

#[test]
fn the_rows_are_those_of_loaded_events() {
    streams_the_rows_of_loaded_events(|name, text| (name.to_owned(), text.into_bytes()));
}

#[test]
fn the_rows_of_compressed_segments_are_those_of_loaded_events() {
    streams_the_rows_of_loaded_events(|name, text| {
        (
            format!("{name}.gz"),
            gzip(text.as_bytes(), Compression::none()),
        )
    });
}

/// `stored` is given the name and the lines of a segment, and returns the name and the content of
/// its file.
fn streams_the_rows_of_loaded_events(stored: impl Fn(&str, String) -> (String, Vec<u8>)) {
    let folder = folder();
    let write_segment = |name: &str, text: String| {
        let (name, content) = stored(name, text);
        write(&folder, &format!("sink/{name}"), content);
    };
    // Two sessions at the same time, one of them in two files, with neighbours out of order.
    let swapped = |n: i64| 10 * (n ^ 1);
    write_segment("segment-000001.jsonl", lines("s1", (0..300).map(swapped)));
    write_segment("segment-000002.jsonl", lines("s1", (300..600).map(swapped)));
    write_segment(
        "segment-000003.jsonl",
        lines("s2", (0..600).map(|n| 5 + 10 * n)),
    );
    // The same times in another source, which is compressed and has no manifest.
    let mut text = lines("s3", (150..270).map(|n| 10 * n));
    let stop = Line {
        session: "s3",
        time_ns: 2_700,
        kind: "stop",
        padding: 1,
    };
    let _ = writeln!(text, "{}", stop.text());
    write(
        &folder,
        "other_events.jsonl.gz",
        gzip(text.as_bytes(), Compression::none()),
    );
    let segments = [
        ("segment-000001.jsonl", "s1"),
        ("segment-000002.jsonl", "s1"),
        ("segment-000003.jsonl", "s2"),
    ];
    let sessions = [("s1", "interrupted"), ("s2", "completed")];
    write(
        &folder,
        "sink/manifest.json",
        manifest(&segments, &sessions),
    );
    let some = |text: &str| Some(text.into());
    let filters = [
        EventFilter::default(),
        EventFilter {
            limit: Some(400),
            ..EventFilter::default()
        },
        EventFilter {
            limit: Some(0),
            ..EventFilter::default()
        },
        EventFilter {
            has_alert: Some(true),
            ..EventFilter::default()
        },
        EventFilter {
            session_id: some("s2"),
            ..EventFilter::default()
        },
        EventFilter {
            status: some("completed"),
            ..EventFilter::default()
        },
        EventFilter {
            time_start_ns: Some(2_000),
            time_end_ns: Some(3_000),
            ..EventFilter::default()
        },
        EventFilter {
            event_type: some("stop"),
            ..EventFilter::default()
        },
        EventFilter {
            session_id: some("nobody"),
            ..EventFilter::default()
        },
    ];
    let mut rows = 0;
    for filter in filters {
        let (loaded, streamed, warnings) = both(folder.path(), &filter);
        assert_eq!(streamed.len(), loaded.len(), "{filter:?}");
        assert!(streamed == loaded, "{filter:?}");
        assert!(warnings.is_empty(), "{warnings:?}");
        rows += streamed.len();
    }
    assert!(rows > 2400, "{rows}");
}

#[test]
fn events_far_out_of_order_are_counted() {
    let folder = folder();
    let line = |time_ns| {
        Line {
            session: "s",
            time_ns,
            kind: "sample",
            padding: 1,
        }
        .text()
            + "\n"
    };
    // The clock went back by more events than are sorted at a time.
    let text: String = (20_000..40_000).chain(0..20_000).map(line).collect();
    write(&folder, "sink/segment-000001.jsonl", text);
    let segments = [("segment-000001.jsonl", "s")];
    write(
        &folder,
        "sink/manifest.json",
        manifest(&segments, &[("s", "completed")]),
    );
    let (loaded, streamed, warnings) = both(folder.path(), &EventFilter::default());
    assert_eq!(streamed.len(), loaded.len());
    let [warning] = warnings.as_slice() else {
        panic!("one warning: {warnings:?}");
    };
    assert!(
        warning.contains("events are listed after events of a later time"),
        "{warning}"
    );
}

#[test]
fn compressed_segments_of_the_same_time_are_merged() {
    let folder = folder();
    // Each segment has more events than are sorted at a time.
    for (number, session) in [(1, "s1"), (2, "s2")] {
        let line = |time_ns| {
            let line = Line {
                session,
                time_ns,
                kind: "sample",
                padding: 1,
            };
            line.text() + "\n"
        };
        let text: String = (0..20_000).map(line).collect();
        write(
            &folder,
            &format!("sink/segment-00000{number}.jsonl.gz"),
            gzip(text.as_bytes(), Compression::fast()),
        );
    }
    // A file so large that the events are streamed.
    write(&folder, "events.jsonl", lines("s3", 0..1100));
    let segments = [
        ("segment-000001.jsonl", "s1"),
        ("segment-000002.jsonl", "s2"),
    ];
    let sessions = [("s1", "completed"), ("s2", "completed")];
    write(
        &folder,
        "sink/manifest.json",
        manifest(&segments, &sessions),
    );
    let (loaded, streamed, warnings) = both(folder.path(), &EventFilter::default());
    assert!(warnings.is_empty(), "{warnings:?}");
    assert!(streamed == loaded);
}

#[test]
fn a_session_that_the_manifest_does_not_know_has_its_status() {
    let folder = folder();
    let mut text = lines("s1", 0..1200);
    for (session, kind) in [("gone", "sample"), ("ended", "stop")] {
        let line = Line {
            session,
            time_ns: 5000,
            kind,
            padding: 1,
        };
        let _ = writeln!(text, "{}", line.text());
    }
    text.push_str("{\"torn\": ");
    write(&folder, "sink/segment-000001.jsonl", text);
    let segments = [("segment-000001.jsonl", "s1")];
    write(
        &folder,
        "sink/manifest.json",
        manifest(&segments, &[("s1", "running")]),
    );
    let (loaded, streamed, warnings) = both(folder.path(), &EventFilter::default());
    assert!(streamed == loaded);
    assert!(
        warnings.is_empty(),
        "a torn last line is no news: {warnings:?}"
    );
    let statuses: Vec<String> = streamed[streamed.len() - 2..]
        .iter()
        .filter_map(|row| Some(row.get("session_status")?.as_text()?.to_string()))
        .collect();
    assert_eq!(statuses, ["completed", "incomplete"]);
}
