//! Cleans strings from artifacts before they are displayed, because artifacts are untrusted: a
//! string may be very long or contain control characters.

use crate::escape::is_active;

/// The longest label in characters; a longer one is cut, so that a drawing stays small.
const LONGEST: usize = 240;
/// The longest paragraph in characters, such as the verdict; a longer one is cut.
const LONGEST_PARAGRAPH: usize = 1200;

/// Cleans a label from an artifact: one line, without control characters, invisible characters and
/// characters that change the text direction, and not longer than a label may be.
pub fn clean(text: &str) -> String {
    clean_to(text, LONGEST)
}

/// A paragraph like [`clean_paragraph`], without the backticks around code, which are markup.
pub(crate) fn plain_paragraph(text: &str) -> String {
    clean_paragraph(text).replace('`', "")
}

/// Cleans a text of several sentences like a label, but allows it to be longer.
pub(crate) fn clean_paragraph(text: &str) -> String {
    clean_to(text, LONGEST_PARAGRAPH)
}

fn clean_to(text: &str, longest: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(longest));
    for (index, character) in text.chars().enumerate() {
        if index >= longest {
            clean.push('…');
            break;
        }
        match character {
            // XML does not allow U+FFFE and U+FFFF, so these two characters are replaced.
            '\u{fffe}' | '\u{ffff}' => clean.push('\u{fffd}'),
            character if !is_active(character) => clean.push(character),
            character if character.is_control() || character.is_whitespace() => clean.push(' '),
            _ => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_length() {
        assert_eq!(clean("a\u{1b}[31m\nb\u{202e}c"), "a [31m bc");
        assert_eq!(
            clean("a\u{200b}b\u{feff}\u{e0041}c\u{61c}d\u{2028}e"),
            "abcd e"
        );
        assert_eq!(clean(&"x".repeat(500)).chars().count(), LONGEST + 1);
    }
}
