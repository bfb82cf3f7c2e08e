//! Makes text from artifacts harmless for a terminal, for Markdown and for logs. Characters that
//! would move the cursor, change colours or reorder the line are replaced by visible escape codes.

use std::borrow::Cow;
use std::path::Path;

/// Replaces control characters and characters that change the text direction by escape codes.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for ch in text.chars() {
        if is_active(ch) {
            out.extend(ch.escape_default());
        } else {
            out.push(ch);
        }
    }
    Cow::Owned(out)
}

/// The text of a path, harmless for a terminal.
pub fn path_for_terminal(path: &Path) -> String {
    for_terminal(&path.to_string_lossy()).into_owned()
}

/// Whether a character is a control character, an invisible character or one that changes the text
/// direction, which a terminal or a browser would act on instead of printing it.
pub(crate) fn is_active(ch: char) -> bool {
    ch.is_control()
        || matches!(ch, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}')
        || matches!(ch, '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
        || matches!(ch, '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::for_terminal;

    #[test]
    fn escapes_what_acts() {
        assert_eq!(for_terminal("plain é 日本"), "plain é 日本");
        assert_eq!(for_terminal("a\u{1b}[31mred\n"), "a\\u{1b}[31mred\\n");
        assert_eq!(for_terminal("\u{202e}txt"), "\\u{202e}txt");
        assert_eq!(for_terminal("\u{9b}2J"), "\\u{9b}2J");
    }
}
