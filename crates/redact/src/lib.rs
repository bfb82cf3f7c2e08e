//! Removes everything that looks like a secret from all text that is written. All text of the
//! watched program, such as its command line and its error messages, passes through this crate
//! before it is written to sinks, bundles and exports.
//!
//! Secrets are found by the name of a value ([`names`]), by the format of a token ([`formats`]), or
//! by their position in a command ([`arguments`]) or an address ([`addresses`]). Each rule for
//! secrets reads a text only once, because a text may be a whole file.

mod addresses;
mod arguments;
mod assignments;
mod file_names;
mod formats;
mod lines;
mod marks;
mod names;
mod near;
mod prose;

use std::borrow::Cow;

use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::{Map, Text, Value};

use arguments::{Arguments, Origin};
pub use file_names::redacted_path;
pub use lines::LineFilter;
pub use names::is_secret;
use names::is_secret_name;

/// The text that is written in place of a secret.
pub const HIDDEN: &str = "[redacted]";

/// Keys in JSON objects whose value, if it is a text, is read as a command line.
const COMMAND_LINES: [&str; 5] = ["command_line", "cmdline", "command", "cmd", "argv"];

/// Replaces everything in a JSON value that looks like a secret. Numbers are not replaced, because
/// a number such as a count of tokens is not a secret.
pub fn redacted(value: Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(redacted_map(map)),
        Value::List(items) => Value::List(redacted_list(items)),
        Value::Text(text) => Value::Text(redacted_text(text)),
        other => other,
    }
}

/// Replaces everything in the entries of a JSON object that looks like a secret.
pub fn redacted_map(map: Map) -> Map {
    map.into_iter()
        .map(|(key, value)| {
            let name = key.to_str_lossy();
            let value = match value {
                Value::Text(line) if COMMAND_LINES.contains(&&*name) => {
                    Value::Text(without_secrets(line, Origin::Command))
                }
                value if is_secret_name(&name) => hidden(value, &name),
                other => redacted(other),
            };
            (key, value)
        })
        .collect()
}

/// Removes secrets from a list, which may be the words of a command line.
fn redacted_list(items: Vec<Value>) -> Vec<Value> {
    // The rules need valid UTF-8, so they read copies of the words, in which lone surrogates are
    // replaced. A word without a secret keeps its original bytes.
    let words: Vec<Option<String>> = items
        .iter()
        .map(|item| match item {
            Value::Text(word) => Some(word.to_str_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let mut arguments = Arguments::new(Origin::Command);
    let pairs = items.into_iter().zip(&words);
    let items = pairs.map(|(item, word)| match (item, word) {
        (Value::Text(text), Some(word)) => match arguments.take(word) {
            Some(secret) => Value::text(&*with_hidden(word, secret.start, secret.end)),
            None => Value::Text(redacted_text(text)),
        },
        (other, _) => redacted(other),
    });
    items.collect()
}

/// Replaces every text in a JSON value if the name of the value is the name of a secret.
fn hidden(value: Value, name: &str) -> Value {
    match value {
        Value::Text(text) if is_secret(name, &text.to_str_lossy()) => Value::text(HIDDEN),
        Value::Text(text) => Value::Text(redacted_text(text)),
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

/// Replaces everything in a text that looks like a secret.
pub fn redacted_text(text: Text) -> Text {
    without_secrets(text, Origin::Text)
}

/// Replaces everything in a string that looks like a secret.
pub fn redacted_str(text: &str) -> Cow<'_, str> {
    without_secrets_in(text, Origin::Text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A value as JSON with its secrets replaced; `None` when there is nothing to replace.
pub fn redacted_json(value: &Value, layout: Layout) -> Option<String> {
    let hidden = redacted(value.clone());
    if hidden == *value {
        return None;
    }
    // The JSON texts are compared because NaN is not equal to itself.
    let written = |value: &Value| Writer::new(layout).to_string(value);
    let text = written(&hidden);
    (text != written(value)).then_some(text)
}

fn without_secrets(text: Text, origin: Origin) -> Text {
    match without_secrets_in(&text.to_str_lossy(), origin) {
        Some(changed) => changed.into(),
        None => text,
    }
}

/// A function that returns the text without secrets, or `None` when there is nothing to replace.
type Rule<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Applies all rules for secrets to a text; returns `None` when there is nothing to replace.
fn without_secrets_in(text: &str, origin: Origin) -> Option<String> {
    // The rule for the formats of tokens comes last, because a name or a command shows exactly
    // where a secret ends, while the format of a token shows only where it may end.
    let rules: [Rule<'_>; 8] = [
        &addresses::without_private_keys,
        &addresses::without_webhooks,
        &addresses::without_logins,
        &assignments::without_assignments,
        &assignments::without_phrases,
        &|text| arguments::without_arguments(text, origin),
        &formats::without_tokens,
        &|text| near::without_neighbours(text, origin),
    ];
    let mut hidden = Cow::Borrowed(text);
    for rule in rules {
        if let Some(changed) = rule(&hidden) {
            hidden = Cow::Owned(changed);
        }
    }
    match hidden {
        Cow::Owned(changed) if changed != text => Some(changed),
        _ => None,
    }
}

/// Joins the words of a command into one line and removes its secrets. Joining the words here is
/// more exact than filtering an already joined line, which does not show whether a secret contained
/// a space.
pub fn redacted_words(words: &[String]) -> String {
    let mut arguments = Arguments::new(Origin::Command);
    let hidden = words.iter().map(|word| match arguments.take(word) {
        Some(secret) => with_hidden(word, secret.start, secret.end),
        None => without_secrets_in(word, Origin::Text).unwrap_or_else(|| word.clone()),
    });
    let line = hidden.collect::<Vec<_>>().join(" ");
    without_secrets_in(&line, Origin::Command).unwrap_or(line)
}

/// Removes secrets from one record; the record is parsed, because escapes in its JSON text may hide
/// a secret from the rules.
fn redacted_line(line: &str) -> Option<String> {
    let record = line.strip_suffix('\n').unwrap_or(line);
    let Ok(value) = parse(record.as_bytes()) else {
        return without_secrets_in(line, Origin::Command);
    };
    let mut text = redacted_json(&value, Layout::Line)?;
    text.push_str(&line[record.len()..]);
    Some(text)
}

/// Whether a record must be parsed to decide whether it contains a secret: it has a text with
/// escapes, or one of the rules may apply.
fn may_hold_secret(line: &str) -> bool {
    memchr::memchr(b'\\', line.as_bytes()).is_some()
        || (marks::has_mark(line)
            && (assignments::has_secret_container(line)
                || without_secrets_in(line, Origin::Command).is_some()))
}

/// The text with `[redacted]` in place of the bytes from `start` to `end`.
fn with_hidden(text: &str, start: usize, end: usize) -> String {
    [&text[..start], HIDDEN, &text[end..]].concat()
}

/// Builds a copy of a text in which secrets are replaced, from the first to the last.
#[derive(Default)]
struct Hidden<'a> {
    plain: &'a str,
    out: String,
    done: usize,
}

impl<'a> Hidden<'a> {
    fn new(plain: &'a str) -> Self {
        Self {
            plain,
            ..Self::default()
        }
    }

    fn hide(&mut self, start: usize, end: usize) {
        self.out.push_str(&self.plain[self.done..start]);
        self.out.push_str(HIDDEN);
        self.done = end;
    }

    /// The copy of the text with all replacements, or `None` when nothing was replaced.
    fn finish(mut self) -> Option<String> {
        (self.done > 0).then(|| {
            self.out.push_str(&self.plain[self.done..]);
            self.out
        })
    }
}

#[cfg(test)]
mod tests;
