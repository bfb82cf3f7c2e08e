//! Tests damage: every prefix of a segment loads, and damaged places are listed.

use stormlog_analysis::LoadError;

use crate::support::{events, folder, line, lines, load, load_around_damage, refused, write};

#[test]
fn every_prefix_of_a_segment_gives_its_whole_lines() {
    let folder = folder();
    let text = format!(
        "{}{}{}",
        line(r#"{"context": "caf\u00e9 \"q\""}"#),
        line(r#"{"timestamp_ns": 6, "metadata": {"a": [1, {"b": "}"}]}}"#),
        line(r#"{"timestamp_ns": 7, "rank": 1, "world_size": 2}"#)
    );
    let whole = events(&load(&write(&folder, "whole.jsonl", &text)));
    assert_eq!(whole.len(), 3);
    let mut ends = Vec::new();
    for (place, byte) in text.bytes().enumerate() {
        if byte == b'\n' {
            ends.push(place);
        }
    }
    for cut in 0..=text.len() {
        let path = write(&folder, "cut.jsonl", &text[..cut]);
        let loaded = load(&path);
        // A complete record without a newline counts.
        let expected = ends.iter().filter(|end| cut >= **end).count();
        assert_eq!(events(&loaded), whole[..expected], "cut at {cut}");
        let is_torn = !ends.iter().any(|end| cut == *end || cut == *end + 1) && cut > 0;
        assert_eq!(loaded.damage.len(), usize::from(is_torn), "cut at {cut}");
    }
}

#[test]
fn a_tear_inside_a_character_is_skipped_when_asked() {
    let folder = folder();
    let mut text = lines(2).into_bytes();
    text.extend(b"{\"context\": \"caf\xc3");
    let path = write(&folder, "torn.jsonl", text);
    assert!(matches!(refused(&path), LoadError::NotUtf8 { .. }));
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 2);
    assert_eq!(loaded.damage[0].line, Some(3));
}

#[test]
fn what_is_told_of_damage_reads_as_a_sentence() {
    let folder = folder();
    let path = write(&folder, "x.jsonl", format!("{}[]\n{}", lines(1), lines(1)));
    let loaded = load_around_damage(&path);
    let start = lines(1).len();
    assert_eq!(
        loaded.damage[0].to_string(),
        format!(
            "'{}' line 2 (bytes {start} to {}): not an object",
            path.display(),
            start + 3
        )
    );
}

#[test]
fn very_many_damaged_lines_are_counted_not_listed() {
    let folder = folder();
    let count = 150_000;
    let text = format!("{}{}", lines(1), "x\n".repeat(count));
    let path = write(&folder, "x.jsonl", &text);
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 1);
    assert!(loaded.damage.len() <= 100_001, "{}", loaded.damage.len());
    let last = loaded.damage.last().expect("damage");
    assert_eq!(last.reason, "and 50000 more damaged places");
    assert_eq!(last.file, path);

    // A file of several parts, each of which is full of damage.
    let count = 240_000;
    let line = "x".repeat(100);
    let text = format!("{}{}", lines(1), format!("{line}\n").repeat(count));
    let loaded = load_around_damage(&write(&folder, "large.jsonl", text));
    let last = loaded.damage.last().expect("damage");
    let listed = loaded.damage.len() - 1;
    assert!((90_000..=100_000).contains(&listed), "{listed}");
    let more = count - listed;
    assert_eq!(last.reason, format!("and {more} more damaged places"));

    let count = 150_000;
    let items = vec![r#"{"a": 1}"#; count].join(",\n");
    for (name, text) in [
        ("list.json", format!("[{items}]")),
        ("object.json", format!("{{\"events\": [{items}]}}")),
    ] {
        let path = write(&folder, name, text);
        let loaded = load_around_damage(&path);
        assert_eq!(loaded.damage.len(), 100_001);
        assert_eq!(loaded.damage[99_999].line, Some(100_000));
    }
}
