//! Finds secrets beside a word such as `password`, `token` or `key`, whatever is between them:
//! `token 'X' rejected`, `password is X`, `<apiKey>X</apiKey>`, `('password', 'X')`.
//!
//! The word only makes a secret likely, so a value must also look like one: its characters are of
//! several kinds, or it is long and random.

use std::ops::Range;

use super::Hidden;
use super::arguments::Origin;
use super::assignments::trimmed;
use super::formats::looks_random;
use super::names::{Nearness, nearness};
use super::prose::is_common_word;

/// How many words may stand between the word for a secret and the secret.
const MOST_BETWEEN: usize = 6;

/// The greatest distance in bytes between the word for a secret and the secret.
const FARTHEST: usize = 96;

/// A value with at least this many letters and digits in a row, some of them digits, looks random.
const LONG_RUN: usize = 16;

/// The least length of a value that looks like a password.
const SHORTEST: usize = 8;

/// Replaces the secrets that follow or precede a word for secrets; returns `None` when there are
/// none.
pub(super) fn without_neighbours(plain: &str, origin: Origin) -> Option<String> {
    let mut out = Hidden::new(plain);
    let mut done = 0;
    // The last word for a secret, and how many words came after it.
    let mut last: Option<(Nearness, usize, usize)> = None;
    // A random text that no word for a secret preceded.
    let mut waiting: Option<Range<usize>> = None;
    let mut previous = "";
    for (start, end) in words(plain) {
        if start < done {
            continue;
        }
        let word = &plain[start..end];
        let previous = std::mem::replace(&mut previous, word);
        if let Some(found) = nearness(word) {
            if let Some(secret) = waiting.take().filter(|one| start - one.end <= FARTHEST / 4) {
                out.hide(secret.start, secret.end);
            }
            last = Some((found, end, 0));
            continue;
        }
        let shape = shape_of(word);
        if let Some(range) = alone(plain, (start, end), previous, origin) {
            out.hide(range.start, range.end);
            done = range.end;
            (last, waiting) = (None, None);
            continue;
        }
        if let Some((found, at, between)) = &mut last {
            let is_near = *between < MOST_BETWEEN && start - *at <= FARTHEST;
            let is_secret = match shape {
                Shape::Random | Shape::Strong => true,
                Shape::Password => *found == Nearness::Password,
                Shape::Word => false,
            };
            if is_near && is_secret && !is_expression(plain, start, end) {
                out.hide(start, end);
                done = end;
                waiting = None;
                *between += 1;
                continue;
            }
            *between += usize::from(!is_common_word(word));
            if !is_near {
                last = None;
            }
        } else if (shape == Shape::Random && is_quoted(plain, start, end)) || shape == Shape::Strong
        {
            waiting = Some(start..end);
        }
    }
    out.finish()
}

/// The words of a text: runs of bytes that occur in names and secrets.
fn words(plain: &str) -> impl Iterator<Item = (usize, usize)> {
    let is_between = |byte: u8| {
        byte.is_ascii_whitespace() || b"'\"`()[]{}<>,;|&=:?\\".contains(&byte) || !byte.is_ascii()
    };
    let bytes = plain.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && is_between(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && !is_between(bytes[at]) {
            at += 1;
        }
        (start < at).then_some((start, at))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Word,
    /// At least eight characters of three kinds.
    Password,
    /// A password with letters of both cases, digits and a sign that is in no name.
    Strong,
    /// A long run of letters and digits, as in tokens and keys.
    Random,
}

fn shape_of(word: &str) -> Shape {
    let bytes = word.as_bytes();
    if bytes.len() < SHORTEST
        || bytes.starts_with(b"0x")
        || bytes.starts_with(b"-")
        || bytes.contains(&b'/') && !is_base64(bytes)
    {
        return Shape::Word;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = bytes
        .iter()
        .filter(|byte| byte.is_ascii_alphabetic())
        .count();
    if digits == 0 || letters == 0 {
        return Shape::Word;
    }
    let mut runs = bytes.split(|byte| !byte.is_ascii_alphanumeric());
    let is_long = |run: &[u8]| {
        run.len() >= LONG_RUN && run.iter().filter(|b| b.is_ascii_digit()).count() >= 2
    };
    if runs.any(is_long) || is_groups(bytes) || (is_base64(bytes) && looks_random(word, 24)) {
        return Shape::Random;
    }
    let has = |test: fn(&u8) -> bool| usize::from(bytes.iter().any(test));
    let kinds = has(u8::is_ascii_lowercase)
        + has(u8::is_ascii_uppercase)
        + has(|byte| b"!%+^@#$&*~".contains(byte))
        + 1;
    let is_name = bytes.iter().any(|byte| b"-_./".contains(byte));
    if kinds >= 3 && !is_name && is_strong(bytes) {
        Shape::Strong
    } else if kinds >= 3 && !is_name {
        Shape::Password
    } else {
        Shape::Word
    }
}

/// Whether a text has letters of both cases, a digit, and a sign that is in no name. A percent sign
/// before two hexadecimal digits encodes another character.
fn is_strong(bytes: &[u8]) -> bool {
    let has = |test: fn(&u8) -> bool| bytes.iter().any(test);
    let is_sign = |at: usize| match bytes[at] {
        b'!' | b'^' | b'#' => true,
        b'%' => !bytes[at + 1..].iter().take(2).all(u8::is_ascii_hexdigit),
        _ => false,
    };
    bytes.len() >= SHORTEST
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && (0..bytes.len()).any(is_sign)
}

/// The part of a word that is a secret whatever is beside it: a strong password in a command or after
/// the name of a user (`joe:X`), a long text of letters of both cases and digits in a command, and a
/// password after a flag of one letter.
fn alone(
    plain: &str,
    (start, end): (usize, usize),
    previous: &str,
    origin: Origin,
) -> Option<Range<usize>> {
    let before = &plain[..start];
    let user = before
        .strip_suffix(':')
        .and_then(|before| before.bytes().next_back());
    let is_login = user.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_command = origin == Origin::Command;
    if !is_command && !is_login {
        return None;
    }
    let word = &plain[start..end];
    let mut at = start;
    for part in word.split('/') {
        let flag = if part.starts_with('-') {
            2.min(part.len())
        } else {
            0
        };
        let value = part.get(flag..).unwrap_or_default();
        let bytes = value.as_bytes();
        if is_strong(bytes) && !bytes.contains(&b'.') || is_command && is_mixed(bytes) {
            return Some(at + flag..at + part.len());
        }
        at += part.len() + 1;
    }
    let is_short_flag =
        matches!(previous.as_bytes(), [b'-', letter] if letter.is_ascii_alphabetic());
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_value = is_command && is_short_flag && digits >= 2 && shape_of(word) == Shape::Password;
    is_value.then_some(start..end)
}

/// Whether a text has at least 24 letters and digits in a row and nothing else, with letters of both
/// cases and three digits. A hash has letters of one case.
fn is_mixed(bytes: &[u8]) -> bool {
    let has = |test: fn(&u8) -> bool| bytes.iter().filter(|byte| test(byte)).count();
    let bytes_end = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    bytes.len() >= 24
        && has(u8::is_ascii_alphanumeric) + bytes_end == bytes.len()
        && has(u8::is_ascii_lowercase) >= 3
        && has(u8::is_ascii_uppercase) >= 3
        && has(u8::is_ascii_digit) >= 3
}

/// Whether a text may be base64: letters, digits, `+`, `/` and `=`.
fn is_base64(bytes: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let parts = bytes.split(|byte| *byte == b'/').count();
    bytes.len() >= 24 && bytes.iter().all(fits) && (parts - 1) * 12 <= bytes.len()
}

/// Whether a text is in groups of capitals and digits, as licence keys are: `A1B2C-D3E4F`.
fn is_groups(bytes: &[u8]) -> bool {
    let mut groups = bytes.split(|byte| *byte == b'-');
    let is_group = |group: &[u8]| {
        (4..=8).contains(&group.len())
            && group
                .iter()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    bytes.contains(&b'-') && groups.all(is_group)
}

/// Whether a word is part of a program or of an address: a call, an element, or a host.
fn is_expression(plain: &str, start: usize, end: usize) -> bool {
    let after = plain[end..].bytes().next();
    let before = trimmed(&plain[..start]);
    matches!(after, Some(b'(' | b'[')) || before.ends_with("sha256:") || before.ends_with("SHA256:")
}

fn is_quoted(plain: &str, start: usize, end: usize) -> bool {
    let quote = |byte: Option<u8>| byte.is_some_and(|byte| b"'\"`".contains(&byte));
    quote(plain[..start].bytes().next_back()) && quote(plain[end..].bytes().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_before_another_one_stays_in_order() {
        let hidden = |text: &str| without_neighbours(text, Origin::Text);
        assert_eq!(
            hidden("'aB3!efgh' joe:aB3!efgh password").as_deref(),
            Some("'aB3!efgh' joe:[redacted] password")
        );
        assert_eq!(
            hidden("assert 'aB3!efgh' == password").as_deref(),
            Some("assert '[redacted]' == password")
        );
        assert_eq!(hidden("the token limit of Qwen2.5-7B-Instruct"), None);
    }
}
