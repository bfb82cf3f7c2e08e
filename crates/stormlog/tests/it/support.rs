//! Runs the program and normalizes its output.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// The root of the repository; paths in snapshots are relative to it.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// The program, started at the root of the repository.
pub(crate) fn stormlog(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("stormlog").expect("the program is built");
    command
        .args(arguments)
        .current_dir(root())
        .env_remove("RUST_BACKTRACE")
        .env("NO_COLOR", "1");
    command
}

/// Exit code, standard output and standard error, for a snapshot.
pub(crate) fn transcript(arguments: &[&str]) -> String {
    let output = stormlog(arguments).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    format!(
        "$ stormlog {}\n-- exit code {}\n-- standard output\n{}\n-- standard error\n{}\n",
        arguments.join(" "),
        output.status.code().expect("it was not killed"),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Standard output of a run that must be fine.
pub(crate) fn out(arguments: &[&str]) -> String {
    let output = stormlog(arguments).output().expect("it starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// An empty folder that goes away with the test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}
