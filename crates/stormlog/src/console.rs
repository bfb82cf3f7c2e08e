//! The streams of a command: results go to `out`, everything else to `err`. The console also
//! contains the services to which results can be logged.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde::Serialize;
use stormlog_report::Terminal;
use stormlog_report::document::pretty;

use crate::Exit;
use crate::services::Services;

/// Where a command prints (standard output and standard error, or buffers in tests), and the
/// experiment trackers to which it can log.
pub struct Console<'a> {
    /// The stream for the results of a command, normally standard output.
    pub out: &'a mut dyn Write,
    /// The stream for progress, warnings and errors, normally standard error.
    pub err: &'a mut dyn Write,
    /// Whether `out` is a terminal.
    pub out_is_terminal: bool,
    /// Whether `err` is a terminal.
    pub err_is_terminal: bool,
    /// Experiment trackers such as W&B; `None` when the program runs without Python.
    pub services: Option<&'a mut dyn Services>,
    /// The exit code that a command has decided on before it prints its result. Unless the code is
    /// success, the program exits with it even when the result cannot be written.
    pub decided: Option<Exit>,
}

/// Marks a failed write to `out` or `err`, to distinguish it from other I/O errors.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the output")]
pub(crate) struct StreamFailure;

/// An output stream that marks its write errors with [`StreamFailure`].
pub(crate) struct Stream<'a>(pub(crate) &'a mut dyn Write);

impl Stream<'_> {
    fn marked<T>(result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, StreamFailure),
        })
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::marked(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::marked(self.0.flush())
    }
}

impl<'a> Console<'a> {
    /// Makes a console that writes to standard output and standard error of this process, given as
    /// `out` and `err`, and that has no experiment trackers.
    pub fn of_process(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self {
            out,
            err,
            out_is_terminal: std::io::stdout().is_terminal(),
            err_is_terminal: std::io::stderr().is_terminal(),
            services: None,
            decided: None,
        }
    }

    /// Prints the result of a command as indented JSON.
    pub(crate) fn print_json(&mut self, document: &impl Serialize) -> io::Result<()> {
        self.out.write_all(pretty(document).as_bytes())
    }

    /// The width and the colours for text that is written to the file `output`, or to standard
    /// output if no file is given.
    pub fn terminal(&self, output: Option<&Path>) -> Terminal {
        if output.is_some() || !self.out_is_terminal {
            return Terminal::PLAIN;
        }
        Terminal {
            colours: self.colours(),
            // Text narrower than 40 columns is not readable, and text wider than 120 columns is
            // hard to read.
            width: self.width().clamp(40, 120),
        }
    }

    /// The width of the terminal in columns; 80 when neither stream is a terminal or the size of
    /// the terminal is unknown.
    pub fn width(&self) -> usize {
        let size = if self.out_is_terminal {
            rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()
        } else if self.err_is_terminal {
            rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok()
        } else {
            None
        };
        let columns = size.map(|size| usize::from(size.ws_col));
        // Some terminals report a width of zero, which is treated as unknown.
        columns.filter(|columns| *columns > 0).unwrap_or(80)
    }

    /// Whether results may be coloured: only on a terminal, and only if the environment variable
    /// `NO_COLOR` is not set.
    pub fn colours(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.out_is_terminal && !refused
    }
}
