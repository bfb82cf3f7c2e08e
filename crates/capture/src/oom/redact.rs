//! Keeps what looks like a secret out of files that people send around.

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
            let hide = is_secret_name(&key) && matches!(value, Value::Text(_));
            let value = if hide {
                Value::text(HIDDEN)
            } else {
                redacted(value)
            };
            (key, value)
        })
        .collect()
}

fn is_secret_name(name: &Text) -> bool {
    let name = name.to_str_lossy().to_lowercase().replace('-', "_");
    name == "token"
        || name.ends_with("_token")
        || SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The text with every word hidden that begins as a token does.
pub(crate) fn redacted_text(text: Text) -> Text {
    let Some(plain) = text.as_str() else {
        return text;
    };
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
    if !changed {
        return text;
    }
    out.push_str(rest);
    out.into()
}

fn first_start(text: &str) -> Option<(usize, &'static str)> {
    SECRET_STARTS
        .iter()
        .filter_map(|start| Some((text.find(start)?, *start)))
        .min()
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
}
