//! Prints JSON and lines of text on standard output.

use std::io::{self, Write};

use serde_json::Value;

/// Prints a JSON document on standard output.
pub(crate) fn json(document: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints lines on standard output.
pub(crate) fn lines(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
