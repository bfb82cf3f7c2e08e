//! Breaks long lines of text between words, so that they fit a terminal.

/// The properties of a terminal, or of a file that is read on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whether severities and headlines of reports are printed in colour.
    pub colours: bool,
    /// The largest length of a line in characters; longer text is wrapped.
    pub width: usize,
}

impl Terminal {
    /// Properties of an unknown terminal: no colours, and the width of 80 columns that every
    /// terminal has.
    pub const PLAIN: Self = Self {
        colours: false,
        width: 80,
    };

    /// Encloses a text in an ANSI escape sequence with the given code, such as `1` for bold; without
    /// colours, the text stays unchanged.
    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Breaks a text between words so that no line is longer than `width` characters, unless a single
/// word is longer. Every line starts with `indent`.
pub fn wrap(text: &str, indent: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let needed = indent.len() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && needed > width {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    let lines: Vec<String> = lines.iter().map(|line| format!("{indent}{line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", "", 7), "one two\nthree");
        assert_eq!(wrap("one two", "  ", 7), "  one\n  two");
        assert_eq!(wrap("immeasurable", "", 5), "immeasurable");
        assert_eq!(wrap("code()  # why", "", 8), "code()\n# why");
    }
}
