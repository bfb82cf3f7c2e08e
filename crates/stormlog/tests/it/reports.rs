//! What people read of analyses and comparisons.

use crate::support::{stormlog, transcript};

#[test]
fn analyses_read_like_this() {
    for name in ["h200_leak_graph", "h200_clean_train", "two_ranks"] {
        let path = format!("fixtures/runs/{name}");
        insta::assert_snapshot!(format!("text_of_{name}"), transcript(&["analyze", &path]));
        let markdown = transcript(&["analyze", &path, "--format", "md"]);
        insta::assert_snapshot!(format!("md_of_{name}"), markdown);
    }
}

const CLEAN: &str = "fixtures/runs/h200_clean_train/events.jsonl.gz";
const LEAKING: &str = "fixtures/runs/h200_leak_graph/events.jsonl.gz";

#[test]
fn comparisons_read_like_this() {
    for format in ["text", "md", "github"] {
        let arguments = [
            "compare",
            CLEAN,
            LEAKING,
            "--max-peak-growth",
            "20%",
            "--max-gap-growth",
            "512MiB",
            "--fail-on",
            "new-findings",
            "--format",
            format,
        ];
        insta::assert_snapshot!(format!("comparison_as_{format}"), transcript(&arguments));
    }
    insta::assert_snapshot!(
        "comparison_without_data",
        transcript(&[
            "compare",
            LEAKING,
            "fixtures/runs/two_ranks",
            "--max-slope",
            "10MB/min",
            "--rank",
            "0"
        ])
    );
}

#[test]
fn colours_are_for_terminals_alone() {
    let mut command = stormlog(&["compare", CLEAN, LEAKING]);
    let output = command.env_remove("NO_COLOR").output().expect("it starts");
    assert!(!String::from_utf8_lossy(&output.stdout).contains('\u{1b}'));
}
