//! Secrets in the middle of a text: what begins as a token does, what is given to a secret's
//! name, who logs in to an address, keys in their armour. Each rule walks the text once, since
//! a text may be a whole file.

use std::borrow::Cow;

use stormlog_format::Text;

use super::{HIDDEN, is_secret, is_secret_name};

/// The tokens of a well-known service.
struct Token {
    start: &'static str,
    /// What comes after that, besides letters and digits.
    others: &'static str,
    /// Whether it may be a word unless there is a digit in it.
    has_digit: bool,
}

const TOKENS: [Token; 25] = [
    with_digit("sk-", "-_"),
    token("sk_live_", "_"),
    token("sk_test_", "_"),
    token("rk_live_", "_"),
    token("ghp_", ""),
    token("gho_", ""),
    token("ghs_", ""),
    token("ghu_", ""),
    token("ghr_", ""),
    token("github_pat_", "_"),
    token("glpat-", "-_."),
    token("hf_", ""),
    token("xoxb-", "-"),
    token("xoxp-", "-"),
    token("xoxa-", "-"),
    token("xapp-", "-"),
    token("AKIA", ""),
    token("ASIA", ""),
    with_digit("AIza", "-_"),
    with_digit("nvapi-", "-_"),
    with_digit("npm_", ""),
    with_digit("pypi-", "-_"),
    with_digit("wandb_v1_", "_"),
    // A JSON Web Token, or other JSON in base64.
    with_digit("eyJ", "-_.+/="),
    token("Bearer ", "-_.~+/="),
];

const fn token(start: &'static str, others: &'static str) -> Token {
    Token {
        start,
        others,
        has_digit: false,
    }
}

const fn with_digit(start: &'static str, others: &'static str) -> Token {
    Token {
        has_digit: true,
        ..token(start, others)
    }
}

impl Token {
    /// How many bytes of a text that begins with one it takes, and whether that is no word.
    fn at_start_of(&self, text: &str) -> Option<(usize, bool)> {
        let start = text.get(..self.start.len())?;
        let is_start = match self.start {
            "Bearer " => start.eq_ignore_ascii_case(self.start),
            plain => start == plain,
        };
        let body = is_start.then(|| &text[self.start.len()..])?;
        let is_other = |c: char| !(c.is_ascii_alphanumeric() || self.others.contains(c));
        let body = &body[..body.find(is_other).unwrap_or(body.len())];
        let has_digit = || body.contains(|c: char| c.is_ascii_digit());
        (body.len() >= SECRET_LENGTH).then(|| {
            (
                self.start.len() + body.len(),
                !self.has_digit || has_digit(),
            )
        })
    }
}

/// How a header says what follows.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "digest", "negotiate"];

/// The longest text that is a number and not a secret in digits.
const LONGEST_NUMBER: usize = 15;

/// The shortest text that is more than a word: after the start of a token, or after `token:`.
const SECRET_LENGTH: usize = 16;

/// The text with everything hidden that looks like a secret.
pub fn redacted_text(text: Text) -> Text {
    let rules = [
        without_private_keys,
        without_tokens,
        without_assignments,
        without_logins,
    ];
    let mut hidden = text.to_str_lossy();
    let mut is_changed = false;
    for rule in rules {
        if let Some(changed) = rule(&hidden) {
            hidden = Cow::Owned(changed);
            is_changed = true;
        }
    }
    if is_changed {
        let hidden = hidden.into_owned();
        return hidden.into();
    }
    drop(hidden);
    text
}

/// Whether a text is a number.
pub(super) fn is_number(text: &str) -> bool {
    text.len() <= LONGEST_NUMBER && text.parse::<f64>().is_ok()
}

/// Nothing when no word begins as a token does.
fn without_tokens(plain: &str) -> Option<String> {
    let mut out = String::new();
    let (mut done, mut at, mut is_in_word) = (0, 0, false);
    while let Some(c) = plain[at..].chars().next() {
        let found = if is_in_word {
            None
        } else {
            let text = &plain[at..];
            TOKENS.iter().find_map(|token| token.at_start_of(text))
        };
        is_in_word = c.is_alphanumeric();
        let Some((length, is_secret)) = found else {
            at += c.len_utf8();
            continue;
        };
        if is_secret {
            out.push_str(&plain[done..at]);
            out.push_str(HIDDEN);
            done = at + length;
        }
        at += length;
    }
    finished(out, plain, done)
}

/// The text when something was taken out of it, with the rest that was not looked at.
fn finished(mut out: String, plain: &str, done: usize) -> Option<String> {
    (done > 0).then(|| {
        out.push_str(&plain[done..]);
        out
    })
}

/// Nothing when no secret's name is given a value: `name=value`, `name: value`, or
/// `"name": "value"` as in a document that is torn, lies in another, or was never JSON.
fn without_assignments(plain: &str) -> Option<String> {
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(next) = plain[at..].find(['=', ':']) {
        let sign = at + next;
        let value = value_of_secret(&plain[at..sign], &plain[sign..]);
        at = sign + 1;
        if let Some((start, end)) = value {
            out.push_str(&plain[done..sign + start]);
            out.push_str(HIDDEN);
            at = sign + end;
            done = at;
        }
    }
    finished(out, plain, done)
}

/// Where the value begins and ends that is given to what a text ends with, when that is a
/// secret's name. The rest begins with the sign that gives it.
fn value_of_secret(before: &str, rest: &str) -> Option<(usize, usize)> {
    let (name, is_quoted) = name_at_end(trimmed(before))?;
    if !is_secret_name(name) {
        return None;
    }
    let is_entry = rest.starts_with(':');
    let after = &rest[1..];
    let blanks = after.len() - after.trim_start_matches([' ', '\t']).len();
    // 'a= b' gives nothing to a.
    if blanks > 0 && !is_entry && trimmed(before).len() == before.len() {
        return None;
    }
    let (start, end) = value_at_start(&after[blanks..], is_quoted, is_entry)?;
    let value = &after[blanks + start..blanks + end];
    // In a message a token is a word.
    let is_word = is_entry && !is_quoted && name.eq_ignore_ascii_case("token");
    let is_message = is_word && value.len() < SECRET_LENGTH;
    let begin = 1 + blanks;
    (!is_message && is_secret(name, value)).then_some((begin + start, begin + end))
}

/// The name that a text ends with, and whether it is in quotes.
fn name_at_end(text: &str) -> Option<(&str, bool)> {
    if let Some(inner) = text.strip_suffix(['"', '\'']) {
        let inner = inner.trim_end_matches('\\');
        return Some((inner.rsplit(['"', '\'']).next()?, true));
    }
    let other = |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c));
    Some((text.rsplit(other).next()?, false))
}

/// Where the value that a text begins with begins and ends, without its quotes.
fn value_at_start(text: &str, is_quoted: bool, is_entry: bool) -> Option<(usize, usize)> {
    let slashes = text.len() - text.trim_start_matches('\\').len();
    let quote = text[slashes..].chars().next();
    if let Some(quote) = quote.filter(|quote| "'\"".contains(*quote)) {
        let start = slashes + quote.len_utf8();
        return Some((start, start + quoted_length(&text[start..], quote, slashes)));
    }
    // Without quotes where the name has them it is a number, or none; and '==' gives nothing.
    if is_quoted || text.starts_with(['[', '{', '=']) {
        return None;
    }
    let length = word_length(text);
    let is_scheme = |scheme: &&str| text[..length].eq_ignore_ascii_case(scheme);
    if !is_entry || !SCHEMES.iter().any(is_scheme) {
        return Some((0, length));
    }
    let after = text[length..].trim_start_matches(' ');
    Some((0, text.len() - after.len() + word_length(after)))
}

fn trimmed(text: &str) -> &str {
    text.trim_end_matches([' ', '\t'])
}

fn word_length(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || "'\"&,;)}\\".contains(c);
    text.find(ends).unwrap_or(text.len())
}

/// How long the value is that ends with the quote that it began with, or with its line. In a
/// document inside of another there are slashes before the quotes around it, and more than twice
/// as many before those that are part of it.
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

/// Nothing when no address names who logs in.
fn without_logins(plain: &str) -> Option<String> {
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(next) = plain[at..].find("://") {
        at += next + 3;
        let rest = &plain[at..];
        let host_ends = |c: char| c.is_whitespace() || "/?#'\"<>".contains(c);
        let authority = &rest[..rest.find(host_ends).unwrap_or(rest.len())];
        let login = authority.rfind('@').map(|end| &authority[..end]);
        if let Some(login) = login.filter(|login| !matches!(*login, "" | HIDDEN)) {
            out.push_str(&plain[done..at]);
            out.push_str(HIDDEN);
            at += login.len();
            done = at;
        }
    }
    finished(out, plain, done)
}

/// Nothing when there is no private key in its armour.
fn without_private_keys(plain: &str) -> Option<String> {
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(next) = plain[at..].find("PRIVATE KEY-----") {
        let body = at + next + "PRIVATE KEY-----".len();
        let end = plain[body..].find("-----END");
        let end = end.map_or(plain.len(), |end| body + end);
        out.push_str(&plain[done..body]);
        out.push_str(HIDDEN);
        done = end;
        // Past the line that ends it, which says the same words.
        let line = plain[end..].find("KEY-----");
        at = line.map_or(end, |line| end + line + "KEY-----".len());
    }
    finished(out, plain, done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str) {
        assert_eq!(redacted_text(before.into()), *after);
    }

    #[test]
    fn secrets_in_words_are_hidden() {
        for (before, after) in [
            (
                "login failed: password=hunter2, user=me",
                "login failed: password=[redacted], user=me",
            ),
            ("api-key='a b' x=1", "api-key='[redacted]' x=1"),
            ("password = hunter2, n = 1", "password = [redacted], n = 1"),
            ("accessToken=abc", "accessToken=[redacted]"),
            (
                "GET https://me:pw@host:8080/path?a=b&sig=x%2B",
                "GET https://[redacted]@host:8080/path?a=b&sig=[redacted]",
            ),
            (
                "-H Authorization: Bearer abc --lr 3",
                "-H Authorization: [redacted] --lr 3",
            ),
            (
                "'Authorization': 'Basic YTpi', x",
                "'Authorization': '[redacted]', x",
            ),
            ("x-api-key: abc\nn: 1", "x-api-key: [redacted]\nn: 1"),
            ("a bearer abcdefghijklmnop1", "a [redacted]"),
            (
                "key eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc!",
                "key [redacted]!",
            ),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
                "a\n-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nb",
            ),
        ] {
            check(before, after);
            check(after, after);
        }
    }

    #[test]
    fn secrets_in_documents_inside_of_documents_are_hidden() {
        for (before, after) in [
            (
                r#"{"api_key" : "a\"b", 'token': 'x', "n": 1, "password": 5"#,
                r#"{"api_key" : "[redacted]", 'token': '[redacted]', "n": 1, "password": 5"#,
            ),
            (
                r#"torn {"api_key": "abc"#,
                r#"torn {"api_key": "[redacted]"#,
            ),
            (
                r#"{"m": "{\"api_key\": \"a\\\"b\", \"n\": 1}""#,
                r#"{"m": "{\"api_key\": \"[redacted]\", \"n\": 1}""#,
            ),
        ] {
            check(before, after);
        }
        // A quote that nobody closes hides its line and not the file.
        check("password: 'a\nstep 3", "password: '[redacted]\nstep 3");
    }

    #[test]
    fn evidence_stays() {
        for text in [
            "steps=5 token= done",
            "mail me@host, see https://host/@me and git@host:a/b",
            "=é=\u{301}://@",
            "\"token\":",
            "hf_hub_download_from_cache in hf_cache/models/bert/layer.0",
            "sk-learn/pipeline/fit_transform, disk-0123456789abcdef0",
            "eos_token=</s> pad_token='<pad>' time_per_token=0.31 ms, token=5",
            "password=None, api_key=\"\", secret: false",
            "unexpected token: 'x' in line 3; bad token: layer",
            "Bearer of bad news",
            "if token == x: y",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn a_text_that_no_file_can_hold_is_looked_at_too() {
        let odd = Text::from_bytes(b"password=abc \xed\xa0\x80");
        assert!(
            redacted_text(odd)
                .to_str_lossy()
                .starts_with("password=[redacted] ")
        );
        let odd = Text::from_bytes(b"\xed\xa0\x80");
        assert_eq!(redacted_text(odd.clone()), odd);
    }

    #[test]
    fn a_large_text_takes_no_more_than_its_length() {
        let text = "hf_x sk-y sk-sk- \"token\": \"5\" ://@ PRIVATE KEY= ".repeat(20_000);
        let begun = std::time::Instant::now();
        check(&text, &text);
        assert!(begun.elapsed().as_secs() < 5);
    }
}
