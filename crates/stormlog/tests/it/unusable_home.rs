//! `run` where the user's directories cannot be used, as in containers with an unknown user.

use std::fs;

use crate::support::{folder, out, stormlog};

#[test]
fn a_home_that_cannot_be_written_to_costs_only_the_view_from_inside() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let root = folder.path().join("run");
    let root = root.to_str().expect("text");
    let output = stormlog(&["run", "--dir", root, "--", "sh", "-c", "echo ran; exit 7"])
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", file.join("home"))
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{errors}");
    assert_eq!(output.stdout, b"ran\n");
    assert!(
        errors
            .starts_with("stormlog: the program is recorded only from outside: set XDG_CACHE_HOME"),
        "{errors}"
    );
    let sessions = out(&["query", "sessions", root, "--json"]);
    assert!(sessions.contains("stormlog.run.host"), "{sessions}");
}
