//! Escapes texts inside GitHub annotations (`::error title=...::...`), so that no text from an
//! artifact can end its annotation or begin another one.

use crate::escape::is_active;

/// Escapes the message of a GitHub annotation, the text after its second `::`.
pub(crate) fn message(text: &str) -> String {
    escaped(text, |_| None)
}

/// Escapes a property of a GitHub annotation, such as its title. Unlike in a message, `:` and `,`
/// are escaped too, because they would end the property.
pub(crate) fn property(text: &str) -> String {
    escaped(text, |ch| match ch {
        ':' => Some("%3A"),
        ',' => Some("%2C"),
        _ => None,
    })
}

fn escaped(text: &str, also: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        let code = match ch {
            '%' => Some("%25"),
            '\r' => Some("%0D"),
            '\n' => Some("%0A"),
            ch => also(ch),
        };
        match code {
            Some(code) => out.push_str(code),
            // The log of a workflow is shown on a terminal and on a web page, so control characters
            // are printed as escape codes.
            None if is_active(ch) => out.extend(ch.escape_default()),
            None => out.push(ch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_place() {
        assert_eq!(message("50 %\r\n::error::a,b"), "50 %25%0D%0A::error::a,b");
        assert_eq!(
            message("\u{1b}[31m\u{7}\u{202e}"),
            "\\u{1b}[31m\\u{7}\\u{202e}"
        );
        assert_eq!(property("a: b, 5 %"), "a%3A b%2C 5 %25");
    }
}
