//! How a failure is told: what, where, and what to do. Nowhere else are errors printed.

use crate::console::Console;

/// An error with a hint for what to do about it.
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

/// Adds what to do to an error.
pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    Hinted {
        error: error.into(),
        hint: hint.into(),
    }
    .into()
}

/// Prints an error, its causes and its hint.
pub(crate) fn print(error: &anyhow::Error, console: &mut Console<'_>) {
    let _ = writeln!(console.err, "error: {error:#}");
    let hint = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Hinted>());
    if let Some(hinted) = hint {
        let _ = writeln!(console.err, "hint: {}", hinted.hint);
    }
}

/// Whether what failed was writing to somebody who does not read any more.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
