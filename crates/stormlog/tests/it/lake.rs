//! `stormlog lake` runs another program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{folder, stormlog};

#[test]
fn without_the_program_there_is_a_hint() {
    let empty = folder();
    let output = stormlog(&["lake", "ingest", "run", "--to", "lake"])
        .env("PATH", empty.path())
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.starts_with("error: the program 'stormlog-lake' is not installed\nhint: "),
        "{text}"
    );
}

#[test]
fn arguments_output_and_exit_code_are_passed_on() {
    let bin = folder();
    let program = bin.path().join("stormlog-lake");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 2\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let output = stormlog(&["lake", "ingest", "--help", "a b", "--to", "-"])
        .env("PATH", bin.path())
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"ingest --help a b --to -\n");
}
