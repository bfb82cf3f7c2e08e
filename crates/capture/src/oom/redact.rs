//! Keeps what looks like a secret out of files that people send around.

use std::borrow::Cow;

use stormlog_format::{Map, Text, Value};

const HIDDEN: &str = "[redacted]";

/// Parts of names whose text is nobody's business.
const SECRET_NAMES: [&str; 9] = [
    "secret",
    "password",
    "passwd",
    "credential",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "authorization",
];

/// How the tokens of well-known services begin.
const SECRET_STARTS: [&str; 9] = [
    "sk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "hf_",
    "xoxb-",
    "AKIA",
    "Bearer ",
];

/// The shortest text that can be a token of such a service.
const SECRET_LENGTH: usize = 16;

/// The value with everything hidden that looks like a secret. Numbers never are: a count of
/// tokens is no token.
pub fn redacted(value: Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(redacted_map(map)),
        Value::List(items) => Value::List(items.into_iter().map(redacted).collect()),
        Value::Text(text) => Value::Text(redacted_text(text)),
        other => other,
    }
}

/// The entries with everything hidden that looks like a secret.
pub(crate) fn redacted_map(map: Map) -> Map {
    map.into_iter()
        .map(|(key, value)| {
            let hide = is_secret_name(&key.to_str_lossy());
            let value = match value {
                Value::Text(_) if hide => Value::text(HIDDEN),
                Value::Text(line) if key == "command_line" => {
                    Value::text(&*redacted_command_line(&line.to_str_lossy()))
                }
                other => redacted(other),
            };
            (key, value)
        })
        .collect()
}

/// Whether what has this name is nobody's business.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    name == "token"
        || name.ends_with("_token")
        || SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The text with everything hidden that looks like a secret: words that begin as a token does,
/// what follows a secret's name and `=`, and who logs in to an address.
pub fn redacted_text(text: Text) -> Text {
    let Some(plain) = text.as_str() else {
        return text;
    };
    let rules = [without_tokens, without_assignments, without_logins];
    let mut hidden = Cow::Borrowed(plain);
    for rule in rules {
        if let Some(changed) = rule(&hidden) {
            hidden = Cow::Owned(changed);
        }
    }
    match hidden {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => changed.into(),
    }
}

/// A command line without secrets: also without the word after a flag that names one.
pub fn redacted_command_line(line: &str) -> String {
    let mut hide_next = false;
    let words = line.split(' ').map(|word| {
        if std::mem::take(&mut hide_next) && !word.starts_with('-') {
            return HIDDEN;
        }
        hide_next = word.starts_with('-') && is_secret_name(word.trim_start_matches('-'));
        word
    });
    let line = words.collect::<Vec<_>>().join(" ");
    redacted_text(line.into()).to_str_lossy().into_owned()
}

/// Nothing when no word begins as a token does.
fn without_tokens(plain: &str) -> Option<String> {
    let mut out = String::with_capacity(plain.len());
    let mut rest = plain;
    let mut changed = false;
    while let Some((at, start)) = first_start(rest) {
        let body = &rest[at + start.len()..];
        let end = body
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.~+/=".contains(c)))
            .unwrap_or(body.len());
        let at_word = rest[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric());
        out.push_str(&rest[..at]);
        if at_word && end >= SECRET_LENGTH {
            out.push_str(HIDDEN);
            changed = true;
        } else {
            out.push_str(&rest[at..at + start.len() + end]);
        }
        rest = &body[end..];
    }
    out.push_str(rest);
    changed.then_some(out)
}

fn first_start(text: &str) -> Option<(usize, &'static str)> {
    SECRET_STARTS
        .iter()
        .filter_map(|start| Some((text.find(start)?, *start)))
        .min()
}

/// Nothing when no secret's name is given a value: `name=value`, or `"name": "value"` as in a
/// document that is torn or was never JSON.
fn without_assignments(plain: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = plain;
    let mut changed = false;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(at + 1);
        let is_entry = before.ends_with(':');
        out.push_str(before);
        rest = after;
        let name = if is_entry {
            quoted_name(&before[..at])
        } else {
            let other = |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c));
            before[..at].rsplit(other).next()
        };
        if !name.is_some_and(is_secret_name) {
            continue;
        }
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let (start, end) = value_of(rest, if is_entry { blank } else { 0 });
        let is_quoted = start > 0 && rest[..start].ends_with(['"', '\'']);
        if end > start && (is_quoted || !is_entry) {
            out.push_str(&rest[..start]);
            out.push_str(HIDDEN);
            rest = &rest[end..];
            changed = true;
        }
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// The name in quotes that a text ends with.
fn quoted_name(before: &str) -> Option<&str> {
    let before = before.trim_end_matches(' ');
    let quote = before.chars().next_back().filter(|c| "'\"".contains(*c))?;
    before[..before.len() - 1].rsplit(quote).next()
}

/// Where the value at a place of a text begins and ends, without its quotes.
fn value_of(text: &str, at: usize) -> (usize, usize) {
    let quote = text[at..].chars().next().filter(|c| "'\"".contains(*c));
    let start = at + quote.map_or(0, char::len_utf8);
    let mut is_escaped = false;
    let end = text[start..].find(|c: char| match quote {
        Some(quote) => {
            let ends = c == quote && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        }
        None => c.is_whitespace() || "'\"&,;)".contains(c),
    });
    (start, end.map_or(text.len(), |end| start + end))
}

/// Nothing when no address names who logs in.
fn without_logins(plain: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = plain;
    let mut changed = false;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        rest = after;
        let host_ends = |c: char| c.is_whitespace() || "/?#'\"<>".contains(c);
        let authority = &rest[..rest.find(host_ends).unwrap_or(rest.len())];
        if let Some(login) = authority.rfind('@').filter(|login| *login > 0) {
            out.push_str(HIDDEN);
            rest = &rest[login..];
            changed = true;
        }
    }
    out.push_str(rest);
    changed.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::{Layout, Writer, parse};

    fn check(before: &str, after: &str) {
        let value = redacted(parse(before.as_bytes()).unwrap());
        assert_eq!(Writer::new(Layout::Line).to_string(&value), after);
    }

    #[test]
    fn secrets_are_hidden_and_nothing_else() {
        check(
            r#"{"WANDB_API_KEY": "abc", "nested": [{"hf_token": "x"}], "max_tokens": 5}"#,
            r#"{"WANDB_API_KEY": "[redacted]", "nested": [{"hf_token": "[redacted]"}], "max_tokens": 5}"#,
        );
        check(
            r#""failed with sk-abcdefghijklmnop0123 at step 3""#,
            r#""failed with [redacted] at step 3""#,
        );
        check(
            r#""task-force hf_hub ask-me""#,
            r#""task-force hf_hub ask-me""#,
        );
        check(
            r#"{"token": 5, "stage": "tokenize"}"#,
            r#"{"token": 5, "stage": "tokenize"}"#,
        );
    }

    #[test]
    fn secrets_in_words_are_hidden_too() {
        for (before, after) in [
            (
                "login failed: password=hunter2, user=me",
                "login failed: password=[redacted], user=me",
            ),
            ("api-key='a b' x=1", "api-key='[redacted]' x=1"),
            ("steps=5 token= done", "steps=5 token= done"),
            (
                "GET https://me:pw@host:8080/path?a=b",
                "GET https://[redacted]@host:8080/path?a=b",
            ),
            (
                "mail me@host, see https://host/@me",
                "mail me@host, see https://host/@me",
            ),
            ("=é=\u{301}://@", "=é=\u{301}://@"),
            (
                r#"{"api_key" : "a\"b", 'token': 'x', "n": 1, "password": 5"#,
                r#"{"api_key" : "[redacted]", 'token': '[redacted]', "n": 1, "password": 5"#,
            ),
            (
                r#"torn {"api_key": "abc"#,
                r#"torn {"api_key": "[redacted]"#,
            ),
            ("\"token\":", "\"token\":"),
        ] {
            assert_eq!(redacted_text(before.into()), *after);
        }
    }

    #[test]
    fn a_command_line_keeps_its_words_but_not_its_secrets() {
        check(
            r#"{"command_line": "python train.py --hf-token abc --lr 3 --api-key=def --password"}"#,
            r#"{"command_line": "python train.py --hf-token [redacted] --lr 3 --api-key=[redacted] --password"}"#,
        );
        check(
            r#"{"text": "the flag --password is wrong"}"#,
            r#"{"text": "the flag --password is wrong"}"#,
        );
    }
}
