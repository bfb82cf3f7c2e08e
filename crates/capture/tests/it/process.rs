//! Children: this test binary again, running one of its own tests as a program.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The variable that turns a test into a child's program.
const ROLE: &str = "STORMLOG_TEST_DIRECTORY";

/// The directory that a child was given; `None` in the parent.
pub(crate) fn given_directory() -> Option<std::path::PathBuf> {
    std::env::var_os(ROLE).map(Into::into)
}

/// A child that runs the named test in its role as a program.
pub(crate) fn child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Ends a child that was started here.
pub(crate) fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
