//! Removes the time windows from a rollup file before it is parsed. The time windows are most of a
//! rollup file's bytes, and most queries need only the totals.

use crate::skeleton::after_string;

/// The text of a rollup file with every list of time windows replaced by an empty list. All text
/// except the time windows is copied, so that invalid JSON stays invalid.
pub fn without_windows(json: &[u8]) -> Vec<u8> {
    const KEY: &[u8] = b"\"windows\"";
    let mut kept = Vec::with_capacity(json.len().min(1 << 16));
    let mut rest = json;
    while let Some(quote) = memchr::memchr(b'"', rest) {
        let end = after_string(rest, quote);
        let text = &rest[quote..end];
        kept.extend_from_slice(&rest[..end]);
        rest = &rest[end..];
        if text == KEY
            && let Some((before, list)) = list_after_colon(rest)
        {
            kept.extend_from_slice(&rest[..before]);
            kept.extend_from_slice(b"[]");
            rest = &rest[before + list..];
        }
    }
    kept.extend_from_slice(rest);
    kept
}

/// The number of bytes between the end of a key and the list that is its value, and the length of
/// the list. The result is `None` when the value is not a list or the list does not end.
fn list_after_colon(text: &[u8]) -> Option<(usize, usize)> {
    let blank = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_whitespace()).count();
    let colon = blank(text);
    (text.get(colon) == Some(&b':')).then_some(())?;
    let before = colon + 1 + blank(&text[colon + 1..]);
    (text.get(before) == Some(&b'[')).then_some(())?;
    let list = &text[before..];
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        at += memchr::memchr3(b'"', b'[', b']', list.get(at..)?)?;
        match list[at] {
            b'"' => at = after_string(list, at),
            b'[' => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some((before, at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skimmed(json: &str) -> String {
        String::from_utf8(without_windows(json.as_bytes())).expect("text")
    }

    #[test]
    fn lists_of_windows_are_emptied() {
        let json = r#"{"a": [1], "windows" : [{"x": "]", "y": ["\\\""]}, {}], "b": "windows"}"#;
        let kept = r#"{"a": [1], "windows" : [], "b": "windows"}"#;
        assert_eq!(skimmed(json), kept);
        assert_eq!(
            skimmed(r#"[{"windows": []}, {"windows": [[1], 2]}]"#),
            r#"[{"windows": []}, {"windows": []}]"#
        );
    }

    #[test]
    fn everything_else_stays() {
        for json in [
            "",
            "{",
            "\"",
            r#""windows"#,
            r#"{"windows": {"a": 1}}"#,
            r#"{"windows": [1, "#,
            r#"{"windows": ["never ended]}"#,
            r#"{"\\"windows": [1]}"#,
            "\"\\",
        ] {
            assert_eq!(skimmed(json), json);
        }
    }
}
