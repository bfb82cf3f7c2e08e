//! Where a command writes: results to `out`, everything else to `err`.

use std::io::{IsTerminal, Write};

/// The two streams of a command and what they can show.
pub struct Console<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Progress, warnings and errors.
    pub err: &'a mut dyn Write,
    /// Whether a person reads the results as they come.
    pub out_is_terminal: bool,
    /// Whether a person reads the rest as it comes.
    pub err_is_terminal: bool,
}

impl<'a> Console<'a> {
    /// The streams of this process.
    pub fn of_process(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self {
            out,
            err,
            out_is_terminal: std::io::stdout().is_terminal(),
            err_is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Whether results may be coloured: on a terminal, unless `NO_COLOR` is set.
    pub fn colours(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.out_is_terminal && !refused
    }
}
