//! Tests that streaming gives the same events as loading.

use std::path::Path;

use stormlog_analysis::{Events, LoadOptions, ParsedFiles, load_sessions, stream_lines};
use stormlog_format::Event;

use crate::support::{events, fixture, folder, lines, load_around_damage, skip, streamed, write};

fn sorted(mut all: Vec<Event>) -> Vec<String> {
    all.sort_by_key(|event| event.timestamp_ns);
    let mut lines: Vec<String> = all.iter().map(Event::to_line).collect();
    lines.sort();
    lines
}

#[test]
fn every_story_streams_as_it_loads() {
    let runs = fixture(".");
    let mut seen = 0;
    let mut folders = vec![runs];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("readable");
        for path in entries.map(|entry| entry.expect("readable").path()) {
            if path.is_dir() {
                folders.push(path.clone());
            }
            let Ok((all, damage)) = streamed(&path, &skip()) else {
                continue;
            };
            let loaded = load_around_damage(&path);
            assert_eq!(sorted(events(&loaded)), sorted(all), "{}", path.display());
            assert_eq!(loaded.damage, damage, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

/// Streams the lines of a file into `parsed`; returns whether all of them are complete records.
fn parse(file: &Path, parsed: &mut ParsedFiles) -> bool {
    let size = file.metadata().expect("a file").len();
    let mut blocks = Vec::new();
    let mut take = |events: &Events| blocks.push(events.clone());
    let read = stream_lines(file, None, 0..size, &skip(), &mut take).expect("it streams");
    parsed.add(file, 0..size, &blocks);
    read.are_complete
}

#[test]
fn a_file_that_was_streamed_is_not_parsed_again_unless_it_has_changed() {
    let folder = folder();
    let file = write(&folder, "run.jsonl", lines(300));
    let mut parsed = ParsedFiles::default();
    assert!(parse(&file, &mut parsed));
    let load = || {
        let options = LoadOptions {
            parsed: Some(&parsed),
            ..skip()
        };
        events(&load_sessions(&file, &options).expect("it loads"))
    };
    let first = load();
    assert_eq!(first, events(&load_around_damage(&file)));
    // The same number of bytes, none of them an event: only the events in memory are left.
    let size = usize::try_from(file.metadata().expect("a file").len()).expect("small");
    write(&folder, "run.jsonl", "x".repeat(size));
    assert_eq!(load(), first);
    write(&folder, "run.jsonl", lines(301));
    assert_eq!(load().len(), 301);
}

#[test]
fn lines_that_are_not_records_of_the_current_format_are_not_complete() {
    let folder = folder();
    for more in ["\n", "{\"a\": 1}\n", "x\n"] {
        let file = write(&folder, "run.jsonl", lines(3) + more);
        assert!(!parse(&file, &mut ParsedFiles::default()), "{more:?}");
    }
}
