//! Escapes texts from artifacts (files of recordings) for Markdown.

use crate::escape::is_active;

/// Escapes a text so that it cannot break a table, start markup or become a link.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '\\' | '@' | '#' => {
                out.push('\\');
                out.push(ch);
            }
            '\n' | '\r' | '\t' => out.push(' '),
            // A control character is printed as its escape code; the backslash at the start of the
            // code must be escaped itself, because it is Markdown syntax.
            ch if is_active(ch) => {
                out.push('\\');
                out.extend(ch.escape_default());
            }
            ch => out.push(ch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(escaped("a|b\nc"), "a\\|b c");
        assert_eq!(
            escaped("a\u{202e}b\u{1b}[0m\u{7}"),
            "a\\\\u{202e}b\\\\u{1b}\\[0m\\\\u{7}"
        );
        assert_eq!(escaped("[x](http://y)"), "\\[x\\](http://y)");
    }
}
