//! Tests that streaming gives the same events as loading.

use stormlog_format::Event;

use crate::support::{events, fixture, load_around_damage, skip, streamed};

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
