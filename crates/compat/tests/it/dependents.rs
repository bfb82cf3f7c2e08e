//! Tests which crates depend on this one.

use std::fs;
use std::path::Path;

/// Only the program and the Python crate match stormlog 0.3.9. The other crates must not depend on
/// its rules.
#[test]
fn only_the_program_and_the_python_crate_depend_on_compat() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut dependents = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let entry = entry.unwrap();
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else {
            continue;
        };
        let depends = |line: &str| line.trim_start().starts_with("stormlog-compat");
        if manifest.lines().any(depends) {
            dependents.push(entry.file_name().into_string().unwrap());
        }
    }
    dependents.sort();
    assert_eq!(dependents, ["python", "stormlog"]);
}
