//! What a sink's writer did not keep is reported by `show`, `validate` and `analyze`.

use serde_json::Value;

use crate::support::{folder, out, root};

const KEYS: &str = r#""dropped_event_count": 3,
  "thinned": {"samples_dropped": 1234567, "segments": 57, "until_ns": 1794700000100000000},
  "pruned": {"segments": 2, "events": 20000},"#;

/// The fixture of two ranks, with a manifest that counts what is missing.
fn sink() -> (tempfile::TempDir, String) {
    let folder = folder();
    let source = root().join("fixtures/runs/two_ranks");
    for entry in std::fs::read_dir(source).expect("the fixture").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
        }
    }
    let manifest = folder.path().join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let counted = text.replacen('{', &format!("{{{KEYS}"), 1);
    std::fs::write(&manifest, counted).expect("written");
    let path = folder.path().to_string_lossy().into_owned();
    (folder, path)
}

#[test]
fn text_has_a_line_for_each_kind() {
    let (_folder, path) = sink();
    let thinned = "1,234,567 samples removed before 2026-11-14 23:46:40 UTC; \
                   the first, last, lowest and highest values of each interval are kept";
    let pruned = "20,000 events in 2 segments deleted by retention";
    let dropped = "3 events could not be written";
    for command in ["show", "validate", "analyze"] {
        let text = out(&[command, &path]);
        for (label, line) in [
            ("thinned", thinned),
            ("pruned", pruned),
            ("dropped", dropped),
        ] {
            let found = text.lines().find(|text| text.ends_with(line));
            assert!(
                found.is_some_and(|text| text.trim_start().starts_with(label)),
                "{command}: no '{line}' in {text}"
            );
        }
    }
}

#[test]
fn json_has_the_counts() {
    let (_folder, path) = sink();
    let show = &["show", "--json"][..];
    let validate = &["validate", "--json"][..];
    let analyze = &["analyze", "--format", "json"][..];
    for (command, place) in [(show, ""), (validate, "/files/0"), (analyze, "/coverage")] {
        let arguments: Vec<&str> = command.iter().copied().chain([&*path]).collect();
        let document: Value = serde_json::from_str(&out(&arguments)).expect("JSON");
        let object = document.pointer(place).expect("an object");
        assert_eq!(
            object["thinned"]["samples_dropped"], 1_234_567,
            "{command:?}"
        );
        assert_eq!(object["pruned"]["events"], 20_000, "{command:?}");
        assert_eq!(object["dropped_events"], 3, "{command:?}");
    }
}

#[test]
fn nothing_is_said_when_all_was_kept() {
    let path = root().join("fixtures/runs/two_ranks");
    let path = path.to_string_lossy();
    for command in ["show", "validate", "analyze"] {
        let text = out(&[command, &path]);
        for word in ["thinned", "pruned", "dropped"] {
            assert!(!text.contains(word), "{command}: {text}");
        }
    }
}
