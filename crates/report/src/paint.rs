//! Colours of text on a terminal.

/// Colours text for a terminal, or leaves it unchanged if `colours` is false.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) colours: bool,
}

impl Paint {
    /// Encloses the text in an ANSI escape sequence with the given code, such as `1` for bold.
    pub(crate) fn with(self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}
