//! Prints failures: what failed, where, and what the user can do about it. No other module of the
//! program prints errors.

use std::io;

use stormlog_report::escape::for_terminal;

use crate::console::{Console, StreamFailure};

/// An error with a hint for the user on how to fix it, which is printed after the error.
#[derive(Debug)]
pub(crate) struct Hinted {
    pub(crate) error: anyhow::Error,
    pub(crate) hint: String,
}

impl std::fmt::Display for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Returned by a command that has already printed its error message, so that no message is printed
/// again.
#[derive(Debug, thiserror::Error)]
#[error("see above")]
pub(crate) struct AlreadyPrinted;

/// Adds a hint for the user to an error; the hint is printed on a line of its own after the error.
pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    Hinted {
        error: error.into(),
        hint: hint.into(),
    }
    .into()
}

/// Whether a write failed because the reader closed the output (`stormlog show … | head`), which is
/// not a failure of the command.
pub(crate) fn reader_went_away(error: &anyhow::Error) -> bool {
    io_errors(error).any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Whether the error is a failed write to standard output or standard error, and not to a file.
pub(crate) fn is_of_stream(error: &anyhow::Error) -> bool {
    let mut inner = io_errors(error).filter_map(io::Error::get_ref);
    inner.any(|inner| inner.downcast_ref::<StreamFailure>().is_some())
}

/// The I/O errors among an error and its causes.
fn io_errors(error: &anyhow::Error) -> impl Iterator<Item = &io::Error> {
    error.chain().filter_map(|cause| cause.downcast_ref())
}

/// Prints an error, its causes and its hint.
pub(crate) fn print(error: &anyhow::Error, console: &mut Console<'_>) {
    if error.is::<AlreadyPrinted>() {
        return;
    }
    // Paths and values in the message are untrusted and are escaped; only the line ends of the
    // message are kept.
    let message = format!("{error:#}");
    let lines: Vec<_> = message.split('\n').map(for_terminal).collect();
    let _ = writeln!(console.err, "error: {}", lines.join("\n"));
    let hint = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Hinted>());
    if let Some(hinted) = hint {
        let _ = writeln!(console.err, "hint: {}", hinted.hint);
    }
}
