//! The folder that `stormlog run` leaves under torchrun: one artifact for each rank.

use crate::support::{folder, out, transcript};

const FOLDER: &str = "fixtures/runs/h200_shared_gpu";

#[test]
fn is_shown_as_one() {
    insta::assert_snapshot!(transcript(&["show", FOLDER]));
}

#[test]
fn is_valid_whatever_lies_beside_the_ranks() {
    let text = out(&["validate", FOLDER]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("fixtures/runs/h200_shared_gpu/rank0.jsonl.gz: 561 events"));
}

#[test]
fn is_converted_into_one_file() {
    let folder = folder();
    let all = folder.path().join("all.jsonl");
    out(&["convert", FOLDER, all.to_str().expect("text")]);
    let text = std::fs::read_to_string(&all).expect("written");
    assert_eq!(text.lines().count(), 1122);
}

#[test]
fn is_drawn_as_one() {
    let folder = folder();
    let picture = folder.path().join("ranks.svg");
    let path = picture.to_str().expect("text");
    out(&["plot", FOLDER, "--kind", "ranks", "-o", path]);
    let svg = std::fs::read_to_string(&picture).expect("written");
    assert!(svg.contains("rank 0") && svg.contains("rank 1"));
}
