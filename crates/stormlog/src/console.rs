//! Where a command writes: results to `out`, everything else to `err`; and who can log a result
//! elsewhere.

use std::io::{IsTerminal, Write};

use crate::services::Services;

/// The two streams of a command, what they can show, and the services at hand.
pub struct Console<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Progress, warnings and errors.
    pub err: &'a mut dyn Write,
    /// Whether a person reads the results as they come.
    pub out_is_terminal: bool,
    /// Whether a person reads the rest as it comes.
    pub err_is_terminal: bool,
    /// Experiment trackers; none where the program runs without Python.
    pub services: Option<&'a mut dyn Services>,
}

impl<'a> Console<'a> {
    /// The streams of this process.
    pub fn of_process(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self {
            out,
            err,
            out_is_terminal: std::io::stdout().is_terminal(),
            err_is_terminal: std::io::stderr().is_terminal(),
            services: None,
        }
    }

    /// Whether results may be coloured: on a terminal, unless `NO_COLOR` is set.
    pub fn colours(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.out_is_terminal && !refused
    }
}
