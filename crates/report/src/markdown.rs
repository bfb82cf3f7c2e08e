//! Escapes texts from artifacts (files of recordings) for Markdown.

use stormlog_format::Text;

use crate::escape::is_active;

/// A zero-width space. GitHub looks for mentions (`@name`), references (`#12`) and addresses in the
/// rendered text, where a backslash or an entity for the character itself has no effect.
const BREAK: &str = "&#8203;";

/// Escapes a text so that it cannot break a table, start markup, become a link or notify a user.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '\\' | '&' | '~' => {
                out.push('\\');
                out.push(ch);
            }
            '@' | '#' => {
                out.push('\\');
                out.push(ch);
                out.push_str(BREAK);
            }
            ':' if rest.as_str().starts_with("//") => {
                out.push(ch);
                out.push_str(BREAK);
            }
            '.' if out.ends_with("www") => {
                out.push_str(BREAK);
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

/// An id as code, which GitHub searches neither for mentions nor for addresses. Escapes have no
/// effect in code, except that of `|` in a table.
pub(crate) fn code(id: &Text) -> String {
    let mut out = String::from("`");
    for ch in id.to_str_lossy().chars() {
        match ch {
            '|' => out.push_str("\\|"),
            '`' => out.push('\''),
            ch if is_active(ch) => out.extend(ch.escape_default()),
            ch => out.push(ch),
        }
    }
    out.push('`');
    out
}

#[cfg(test)]
mod tests {
    use super::{code, escaped};

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(escaped("a|b\nc"), "a\\|b c");
        assert_eq!(
            escaped("a\u{202e}b\u{1b}[0m\u{7}"),
            "a\\\\u{202e}b\\\\u{1b}\\[0m\\\\u{7}"
        );
        assert_eq!(escaped("<b>&copy;~~"), "\\<b\\>\\&copy;\\~\\~");
    }

    #[test]
    fn names_are_neither_links_nor_mentions() {
        assert_eq!(escaped("[x](y)"), "\\[x\\](y)");
        assert_eq!(escaped("https://x.org"), "https:&#8203;//x.org");
        assert_eq!(escaped("www.x.org"), "www&#8203;.x.org");
        assert_eq!(escaped("@octocat"), "\\@&#8203;octocat");
        assert_eq!(escaped("a@x.org #12"), "a\\@&#8203;x.org \\#&#8203;12");
        // The entity of a mention is text and not an entity.
        assert_eq!(escaped("&#64;octocat"), "\\&\\#&#8203;64;octocat");
    }

    #[test]
    fn an_id_cannot_end_its_code_or_its_cell() {
        assert_eq!(code(&"leak_1|`@a`\n".into()), "`leak_1\\|'@a'\\n`");
    }
}
