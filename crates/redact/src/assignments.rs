//! Finds secrets that a text assigns to a name: `name=value`, `name: value`, `"name": "value"`.

use super::Hidden;
use super::names::{is_secret, is_secret_name, is_token_name};
use super::prose::is_common_word;

/// Authentication schemes that precede the secret in a header, as in `Authorization: Bearer X`.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "digest", "negotiate"];

/// The least length of a text after `token:` that counts as a secret; a shorter text is taken for a
/// word of a sentence.
const SECRET_LENGTH: usize = 16;

/// A value that is assigned to the name of a secret, such as `password`, is hidden without further
/// checks if the value is longer than this number of bytes. A shorter value is checked first,
/// because it may be a placeholder or an ordinary word.
/// The limit also bounds the time for a text such as `pwd=/pwd=/pwd=/…`, in which the value of each
/// name is the whole rest of the text.
const LONGEST_VALUE: usize = 1024;

/// Replaces each secret that is assigned to a name such as `password` by [`HIDDEN`](super::HIDDEN);
/// returns `None` when there is no such secret. Secrets are also found in a JSON document that is
/// invalid, is cut off, or is itself a string in another JSON document.
pub(super) fn without_assignments(plain: &str) -> Option<String> {
    let mut out = Hidden::new(plain);
    let mut at = 0;
    for sign in memchr::memchr2_iter(b'=', b':', plain.as_bytes()) {
        // An assignment sign inside a value that is already hidden is skipped.
        if sign < at {
            continue;
        }
        let value = value_of_secret(&plain[at..sign], &plain[sign..]);
        at = sign + 1;
        if let Some((start, end)) = value {
            out.hide(sign + start, sign + end);
            at = sign + end;
        }
    }
    out.finish()
}

/// If the text `before` ends with the name of a secret, returns where the value of this name begins
/// and ends in `rest`. The argument `rest` begins with the assignment sign, `=` or `:`.
fn value_of_secret(before: &str, rest: &str) -> Option<(usize, usize)> {
    let (name, is_quoted) = name_at_end(trimmed(before))?;
    if !is_secret_name(name) {
        return None;
    }
    let is_entry = rest.starts_with(':');
    let after = &rest[1..];
    let blanks = after.len() - after.trim_start_matches([' ', '\t']).len();
    // In `'a:', 'b'` the quote after the colon ends the word `a:` and does not begin a value.
    let opened = before
        .as_bytes()
        .get(before.len().wrapping_sub(name.len() + 1));
    let is_closed = opened.is_some_and(|quote| b"'\"".contains(quote));
    if !is_quoted && is_closed && opened == after.as_bytes().first() {
        return None;
    }
    // In `a= b`, the blank after the equals sign means that nothing is assigned to `a`.
    if blanks > 0 && !is_entry && trimmed(before).len() == before.len() {
        return None;
    }
    // The HTTP header `Cookie: a=X; b=Y` has several values, so its whole line counts as one value.
    let is_line = is_entry && name.to_ascii_lowercase().ends_with("cookie");
    let (start, end) = value_at_start(&after[blanks..], is_quoted, is_entry, is_line)?;
    // No ordinary value is longer than `LONGEST_VALUE`, so a longer value is hidden without further
    // checks, which bounds the time.
    if end - start > LONGEST_VALUE {
        return Some((1 + blanks + start, 1 + blanks + end));
    }
    let value = &after[blanks + start..blanks + end];
    // In a message, "token" may be an ordinary word, and a sentence may follow the colon after it.
    let is_text = is_entry && !is_quoted;
    let is_word = name.eq_ignore_ascii_case("token") && value.len() < SECRET_LENGTH;
    let is_message = is_text && (is_word || (start == 0 && is_common_word(value)));
    // Lines of a program are recorded too, and in a language model `token` is a number or a tensor.
    let is_statement = !is_entry && !is_quoted && start == 0 && blanks > 0;
    let is_code = (is_statement && is_token_name(name) && is_expression(value))
        || (!is_quoted && start == 0 && is_call(value))
        || (is_statement && is_variable(value));
    let begin = 1 + blanks;
    (!is_message && !is_code && is_secret(name, value)).then_some((begin + start, begin + end))
}

/// Whether a value is an expression of a program: a variable, or the beginning of a call or of an
/// element, such as `model(ids`.
fn is_expression(value: &str) -> bool {
    let end = value.find(['(', '[']);
    let (name, is_variable) = match end {
        Some(end) => (&value[..end], false),
        None => (value, true),
    };
    let is_name = |c: char| c.is_ascii_alphabetic() || "_.".contains(c);
    let is_name_of_call = |c: char| is_name(c) || c.is_ascii_digit();
    if is_variable {
        name.len() < SECRET_LENGTH && name.chars().all(is_name)
    } else {
        name.starts_with(is_name) && name.chars().all(is_name_of_call)
    }
}

/// Whether a value is a call or an element of a module, such as `os.getenv(`, or of the environment.
fn is_call(value: &str) -> bool {
    value.find(['(', '[']).is_some_and(|end| {
        let name = &value[..end];
        let fits = |byte: u8| byte.is_ascii_lowercase() || b"._".contains(&byte);
        name == "env" || (name.contains(['.', '_']) && name.bytes().all(fits))
    })
}

/// Whether a value is a variable of several words, such as `api_key` or `tokenizer.eos_token`.
fn is_variable(value: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    value.contains(['.', '_']) && value.split(['.', '_']).all(is_word)
}

/// The name at the end of a text, and whether the name is in quotes.
fn name_at_end(text: &str) -> Option<(&str, bool)> {
    if let Some(inner) = text.strip_suffix(['"', '\'']) {
        let inner = inner.trim_end_matches('\\');
        return Some((inner.rsplit(['"', '\'']).next()?, true));
    }
    let other = |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c));
    Some((text.rsplit(other).next()?, false))
}

/// Where the value at the start of a text begins and ends, without the value's quotes.
fn value_at_start(
    text: &str,
    is_quoted: bool,
    is_entry: bool,
    is_line: bool,
) -> Option<(usize, usize)> {
    let slashes = text.len() - text.trim_start_matches('\\').len();
    let quote = text[slashes..].chars().next();
    if let Some(quote) = quote.filter(|quote| "'\"".contains(*quote)) {
        let start = slashes + quote.len_utf8();
        return Some((start, start + quoted_length(&text[start..], quote, slashes)));
    }
    // A value without quotes after a name in quotes is a number or null, and `==` is a comparison,
    // so neither is hidden.
    if is_quoted || text.starts_with(['[', '{', '=']) {
        return None;
    }
    let length = if is_line {
        line_length(text)
    } else {
        word_length(text)
    };
    let is_scheme = |scheme: &&str| text[..length].eq_ignore_ascii_case(scheme);
    if !is_entry || !SCHEMES.iter().any(is_scheme) {
        return Some((0, length));
    }
    let after = text[length..].trim_start_matches(' ');
    Some((0, text.len() - after.len() + word_length(after)))
}

pub(super) fn trimmed(text: &str) -> &str {
    text.trim_end_matches([' ', '\t'])
}

fn line_length(text: &str) -> usize {
    text.find(['\n', '\'', '"']).unwrap_or(text.len())
}

fn word_length(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || "'\"&,;)}\\".contains(c);
    text.find(ends).unwrap_or(text.len())
}

/// The length of a quoted value, which ends at its closing quote or at the end of the line. The
/// argument `slashes` is the number of backslashes before the opening quote. It is not zero if the
/// value is in a JSON document that is itself a string in another JSON document. The closing quote
/// has the same number of backslashes before it, and a quote inside the value has more than twice
/// that number.
fn quoted_length(text: &str, quote: char, slashes: usize) -> usize {
    let ends = text.match_indices([quote, '\n']).find_map(|(at, found)| {
        if found == "\n" {
            return Some(at);
        }
        let before = at - text[..at].trim_end_matches('\\').len();
        let is_end = before < slashes || before % (2 * slashes + 2) == slashes;
        is_end.then(|| at - before.min(slashes))
    });
    ends.unwrap_or(text.len())
}

/// Replaces the quoted password in an SQL statement that sets a password; returns `None` when the
/// text has no such statement.
pub(super) fn without_phrases(plain: &str) -> Option<String> {
    let mut out = Hidden::new(plain);
    let mut done = 0;
    for quote in memchr::memchr2_iter(b'\'', b'"', plain.as_bytes()) {
        if quote < done {
            continue;
        }
        let before = &plain[..quote];
        let words = before.trim_end_matches(' ');
        let is_phrase = words.len() < before.len()
            && (ends_with(words, "password") || ends_with(words, "identified by"));
        if is_phrase {
            let mark = char::from(plain.as_bytes()[quote]);
            let end = quote + 1 + quoted_length(&plain[quote + 1..], mark, 0);
            out.hide(quote + 1, end);
            done = end + 1;
        }
    }
    out.finish()
}

fn ends_with(text: &str, end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    let last = start.and_then(|start| text.as_bytes().get(start..));
    last.is_some_and(|last| last.eq_ignore_ascii_case(end.as_bytes()))
}

/// Whether a JSON document assigns an object or a list to the name of a secret.
pub(super) fn has_secret_container(plain: &str) -> bool {
    memchr::memchr2_iter(b'{', b'[', plain.as_bytes()).any(|at| {
        let before = plain[..at].trim_end_matches(' ').strip_suffix("\":");
        let name = before.and_then(|before| before.rsplit('"').next());
        name.is_some_and(is_secret_name)
    })
}
