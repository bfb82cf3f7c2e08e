//! Keeps what looks like a secret out of files that people send around: by the names of values
//! here, by what a text looks like in [`words`].

mod words;

use stormlog_format::{Map, Value};

use words::is_number;
pub use words::redacted_text;

const HIDDEN: &str = "[redacted]";

/// Parts of names whose text is nobody's business.
const SECRET_NAMES: [&str; 13] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "authorization",
    "authtoken",
    "set_cookie",
    "amz_signature",
];

/// What comes before `_token` in the settings of tokenizers, whose texts are words.
const WORDS_OF_TOKENIZERS: [&str; 8] = ["bos", "cls", "eos", "mask", "pad", "sep", "start", "unk"];

/// Names of values that are command lines.
const COMMAND_LINES: [&str; 4] = ["command_line", "cmdline", "command", "cmd"];

/// The value with everything hidden that looks like a secret. Numbers never are: a count of
/// tokens is no token.
pub fn redacted(value: Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(redacted_map(map)),
        Value::List(items) => Value::List(redacted_list(items)),
        Value::Text(text) => Value::Text(redacted_text(text)),
        other => other,
    }
}

/// The entries with everything hidden that looks like a secret.
pub(crate) fn redacted_map(map: Map) -> Map {
    map.into_iter()
        .map(|(key, value)| {
            let name = key.to_str_lossy();
            let value = match value {
                Value::Text(line) if COMMAND_LINES.contains(&&*name) => {
                    Value::text(&*redacted_command_line(&line.to_str_lossy()))
                }
                value if is_secret_name(&name) => hidden(value, &name),
                other => redacted(other),
            };
            (key, value)
        })
        .collect()
}

/// A list may be the words of a command line.
fn redacted_list(items: Vec<Value>) -> Vec<Value> {
    let mut hide = false;
    let items = items.into_iter().map(|item| match item {
        Value::Text(word) => {
            let is_after_flag = std::mem::take(&mut hide);
            let plain = word.to_str_lossy();
            if is_after_flag && !plain.starts_with('-') {
                return Value::text(HIDDEN);
            }
            hide = is_secret_flag(&plain);
            Value::Text(redacted_text(word))
        }
        other => redacted(other),
    });
    items.collect()
}

/// What has a secret's name, with every text in it hidden.
fn hidden(value: Value, name: &str) -> Value {
    match value {
        Value::Text(text) if is_secret(name, &text.to_str_lossy()) => Value::text(HIDDEN),
        Value::List(items) => {
            Value::List(items.into_iter().map(|item| hidden(item, name)).collect())
        }
        Value::Map(map) => Value::Map(
            map.into_iter()
                .map(|(key, value)| (key, hidden(value, name)))
                .collect(),
        ),
        other => other,
    }
}

/// Whether what has this name is nobody's business.
fn is_secret_name(name: &str) -> bool {
    let name = plain_name(name);
    is_token(&name) || name == "sig" || SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Whether a text of this name is nobody's business: nothing, or that there is none, is no
/// secret, and a number beside a token is how many or how long.
pub fn is_secret(name: &str, text: &str) -> bool {
    let is_said = !matches!(
        text.to_ascii_lowercase().as_str(),
        "" | "none" | "null" | "true" | "false" | HIDDEN
    );
    let counts = is_token(&plain_name(name)) && is_number(text);
    is_said && !counts && is_secret_name(name)
}

fn is_token(plain_name: &str) -> bool {
    match plain_name.strip_suffix("token") {
        Some("") => true,
        Some(before) => before.strip_suffix('_').is_some_and(|before| {
            let last = before.rsplit('_').next().unwrap_or(before);
            !WORDS_OF_TOKENIZERS.contains(&last)
        }),
        None => false,
    }
}

/// `X-Api-Key`, `apiKey` and `API_KEY` are all the same name.
fn plain_name(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            plain.push('_');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        match c {
            '-' | '.' | ' ' => plain.push('_'),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

/// A command line without secrets: also without the word after a flag that names one.
fn redacted_command_line(line: &str) -> String {
    let words = line.split(' ').map(str::to_owned).collect();
    redacted_words(words)
}

/// The words of a command in one line, without secrets. Better than a line that somebody put
/// together: of that nobody knows whether a secret had a blank in it.
pub fn redacted_words(words: Vec<String>) -> String {
    let mut hide = false;
    let words = words.into_iter().map(|word| {
        // Two blanks in a row.
        if word.is_empty() {
            return word;
        }
        if std::mem::take(&mut hide) && !word.starts_with('-') {
            return HIDDEN.to_owned();
        }
        hide = is_secret_flag(&word);
        redacted_text(word.into()).to_str_lossy().into_owned()
    });
    let line = words.collect::<Vec<_>>().join(" ");
    redacted_text(line.into()).to_str_lossy().into_owned()
}

/// Whether the next word is what this one names.
fn is_secret_flag(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && is_secret_name(word.trim_start_matches('-'))
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
    fn what_is_inside_of_a_secret_is_one() {
        check(
            r#"{"api_key": ["a", 1], "password": {"of": {"me": "b"}}, "accessToken": "c"}"#,
            r#"{"api_key": ["[redacted]", 1], "password": {"of": {"me": "[redacted]"}}, "accessToken": "[redacted]"}"#,
        );
    }

    #[test]
    fn names_are_the_same_however_they_are_written() {
        for name in [
            "X-Api-Key",
            "apiKey",
            "API_KEY",
            "my.token",
            "X-Amz-Signature",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["tokenizer", "max_tokens", "signature", "eos_token", "key"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn evidence_stays() {
        for text in [
            r#"{"eos_token": "</s>", "tokenizer.pad_token": "<pad>"}"#,
            r#"{"time_per_token": "0.31", "api_key": null, "password": "None"}"#,
        ] {
            check(text, text);
        }
    }

    #[test]
    fn a_command_line_keeps_its_words_but_not_its_secrets() {
        check(
            r#"{"command_line": "python train.py --hf-token  abc --lr 3 --api-key=def --password"}"#,
            r#"{"command_line": "python train.py --hf-token  [redacted] --lr 3 --api-key=[redacted] --password"}"#,
        );
        check(
            r#"{"text": "the flag --password is wrong"}"#,
            r#"{"text": "the flag --password is wrong"}"#,
        );
        check(
            r#"{"argv": ["x", "--api-key", "abc", "--lr", "3", "--token=def"]}"#,
            r#"{"argv": ["x", "--api-key", "[redacted]", "--lr", "3", "--token=[redacted]"]}"#,
        );
        let words = ["x", "--password", "a b", "-H", "X-Api-Key: c", "--lr", "3"];
        assert_eq!(
            redacted_words(words.map(str::to_owned).to_vec()),
            "x --password [redacted] -H X-Api-Key: [redacted] --lr 3"
        );
    }
}
