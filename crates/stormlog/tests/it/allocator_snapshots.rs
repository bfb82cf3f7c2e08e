//! `stormlog show` and `stormlog plot` on snapshots of PyTorch's allocator.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{folder, out, stormlog};

const REAL: &str = "fixtures/snapshots/h200_train/cuda_allocator_snapshot.pickle";
/// `[{"device": 0, "total_size": 9, "blocks": [{"address": 7, "size": 5}]}]`, as older versions of
/// PyTorch give: no history, and one block.
const WITHOUT_HISTORY: &[u8] = b"\x80\x04]}\x8c\x06deviceK\0s\x8c\x0atotal_sizeK\x09s\
    \x8c\x06blocks]}\x8c\x07addressK\x07s\x8c\x04sizeK\x05sasa.";

fn snapshot(folder: &Path, pickle: &[u8]) -> String {
    let path = folder.join("snapshot.pickle");
    fs::write(&path, pickle).expect("a snapshot");
    path.to_string_lossy().into_owned()
}

/// The output of a run that must fail with exit code 1 and a hint.
fn refused(arguments: &[&str]) -> String {
    let output = stormlog(arguments).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.starts_with("error: ") && text.contains("\nhint: "),
        "{text}"
    );
    text
}

#[test]
fn what_only_a_history_knows_is_unknown_without_one() {
    let folder = folder();
    let path = snapshot(folder.path(), WITHOUT_HISTORY);
    let text = out(&["show", &path]);
    let row = text.lines().last().expect("a line");
    let words: Vec<&str> = row.split_whitespace().take(4).collect();
    assert_eq!(words, ["unknown", "5", "B", "unknown"], "{text}");
    let document: Value = serde_json::from_str(&out(&["show", "--json", &path])).expect("JSON");
    let holder = &document["devices"][0]["holders"][0];
    assert_eq!(holder["now_bytes"], 5);
    for key in ["at_peak_bytes", "allocations", "allocated_bytes"] {
        assert_eq!(holder[key], Value::Null, "{key}");
    }
}

#[test]
fn a_pickle_of_something_else_is_refused() {
    let folder = folder();
    let path = snapshot(folder.path(), b"\x80\x04}\x8c\x05modelK\x07s.");
    for command in ["show", "plot"] {
        let text = refused(&[command, &path]);
        assert!(text.contains("neither segments nor traces"), "{text}");
    }
    let path = snapshot(folder.path(), b"\x80\x04}\x8c\x08segments]s.");
    assert!(refused(&["plot", &path]).contains("has no allocated device memory"));
}

#[test]
fn commands_for_telemetry_say_what_a_snapshot_is_read_by() {
    for arguments in [&["analyze", REAL][..], &["plot", REAL, REAL]] {
        let text = refused(arguments);
        assert!(text.contains("use 'stormlog show' or"), "{text}");
    }
}

#[test]
fn flags_that_a_page_of_a_snapshot_has_not_are_refused() {
    let folder = folder();
    let page = folder.path().join("page.html");
    let page = page.to_str().expect("a path");
    for (flag, value) in [("--kind", "heatmap"), ("--title", "x"), ("--from", "1s")] {
        let text = refused(&["plot", REAL, "-o", page, flag, value]);
        assert!(text.contains(&format!("'{flag}'")), "{text}");
    }
    assert!(refused(&["plot", REAL, "-o", "a.png"]).contains("only be drawn as an HTML page"));
    out(&["plot", REAL, "-o", page, "--theme", "dark"]);
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("embedding.weight") && page.contains("step (train.py:26)"));
}

#[cfg(unix)]
#[test]
fn names_that_cannot_be_read_are_warned_of_and_nobody_waits_for_them() {
    let folder = folder();
    let path = snapshot(folder.path(), WITHOUT_HISTORY);
    let names = folder.path().join("cuda_tensor_attribution.json");
    let warned = || {
        let output = stormlog(&["show", &path]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // The file has no end, and its reported size is 0.
    std::os::unix::fs::symlink("/dev/zero", &names).expect("a link");
    assert!(warned().contains("it is a character device, not a regular file"));
    fs::remove_file(&names).expect("the link");
    fs::write(&names, "{").expect("a file");
    assert!(warned().contains("warning: tensor names are not shown: cannot read '"));
    let sparse = fs::File::create(&names).expect("a file");
    sparse.set_len((64 << 20) + 1).expect("its size");
    assert!(warned().contains("it is a sparse file"));
    fs::write(&names, vec![b' '; (64 << 20) + 1]).expect("a file");
    assert!(warned().contains("larger than 64 MiB"));
}
