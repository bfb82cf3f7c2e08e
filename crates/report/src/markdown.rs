//! Texts inside Markdown that stay texts.

/// Text that cannot break a table, start markup or become a link.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '\\' | '@' | '#' => {
                out.push('\\');
                out.push(ch);
            }
            ch if ch.is_control() => out.push(' '),
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
        assert_eq!(escaped("[x](http://y)"), "\\[x\\](http://y)");
    }
}
