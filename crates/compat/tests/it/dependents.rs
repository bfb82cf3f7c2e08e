//! Tests which crates depend on this one.

use std::fs;
use std::path::Path;

/// Only the front ends match stormlog 0.3.9: the program, the Python crate and the lake. The other
/// crates must not depend on its rules.
#[test]
fn only_front_ends_depend_on_compat() {
    assert_eq!(dependents_in(".."), ["python", "stormlog"]);
    assert_eq!(dependents_in("../../lake/crates"), ["ask", "lake"]);
}

/// The crates of a folder whose manifest lists this crate.
fn dependents_in(folder: &str) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut dependents = Vec::new();
    for entry in fs::read_dir(crates).expect("a folder") {
        let entry = entry.expect("an entry");
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else {
            continue;
        };
        let depends = |line: &str| line.trim_start().starts_with("stormlog-compat");
        if manifest.lines().any(depends) {
            dependents.push(entry.file_name().into_string().expect("a name"));
        }
    }
    dependents.sort();
    dependents
}
