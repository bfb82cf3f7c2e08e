//! Keeps what looks like a secret out of files that people send around. Everything that holds
//! text of the watched program passes through here before it is written: sinks, bundles, command
//! lines, messages, exports.
//!
//! Secrets are found by the name of a value ([`names`]), by the format of a token ([`formats`]), by
//! the place in a command ([`arguments`]) or in an address ([`addresses`]). Each rule walks a text
//! once, since a text may be a whole file.

mod addresses;
mod arguments;
mod assignments;
mod formats;
mod lines;
mod marks;
mod names;
mod prose;

use std::borrow::Cow;

use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::{Map, Text, Value};

use arguments::{Arguments, Origin};
pub use lines::LineFilter;
pub use names::is_secret;
use names::is_secret_name;

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[redacted]";

/// Names of values that are command lines.
const COMMAND_LINES: [&str; 5] = ["command_line", "cmdline", "command", "cmd", "argv"];

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

/// A list may be the words of a command line.
fn redacted_list(items: Vec<Value>) -> Vec<Value> {
    // Lossy copies: what decides about a word is the words before it.
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

/// What has a secret's name, with every text in it hidden.
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

/// The text with everything hidden that looks like a secret.
pub fn redacted_text(text: Text) -> Text {
    without_secrets(text, Origin::Text)
}

fn without_secrets(text: Text, origin: Origin) -> Text {
    match without_secrets_in(&text.to_str_lossy(), origin) {
        Some(changed) => changed.into(),
        None => text,
    }
}

/// Gives a text without what it hides, nothing when there is nothing to hide.
type Rule<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Nothing when there is nothing to hide.
fn without_secrets_in(text: &str, origin: Origin) -> Option<String> {
    // Tokens come last: a name or a command shows where a secret ends, a format only where it may.
    let rules: [Rule<'_>; 7] = [
        &addresses::without_private_keys,
        &addresses::without_webhooks,
        &addresses::without_logins,
        &assignments::without_assignments,
        &assignments::without_phrases,
        &|text| arguments::without_arguments(text, origin),
        &formats::without_tokens,
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

/// The words of a command in one line, without secrets. Better than a line that was put together
/// elsewhere: that does not show whether a secret had a blank in it.
pub fn redacted_words(words: &[String]) -> String {
    let mut arguments = Arguments::new(Origin::Command);
    let hidden = words.iter().map(|word| match arguments.take(word) {
        Some(secret) => with_hidden(word, secret.start, secret.end),
        None => without_secrets_in(word, Origin::Text).unwrap_or_else(|| word.clone()),
    });
    let line = hidden.collect::<Vec<_>>().join(" ");
    without_secrets_in(&line, Origin::Command).unwrap_or(line)
}

/// The record is parsed: a text in it may have escapes, behind which no rule sees a secret.
fn redacted_line(line: &str) -> Option<String> {
    let record = line.strip_suffix('\n').unwrap_or(line);
    let Ok(value) = parse(record.as_bytes()) else {
        return without_secrets_in(line, Origin::Command);
    };
    let hidden = redacted(value.clone());
    if hidden == value {
        return None;
    }
    let mut text = Writer::new(Layout::Line).to_string(&hidden);
    text.push_str(&line[record.len()..]);
    Some(text)
}

/// Whether a record must be parsed to know: a text with escapes, or one in which a rule applies.
fn may_hold_secret(line: &str) -> bool {
    memchr::memchr(b'\\', line.as_bytes()).is_some()
        || (marks::has_mark(line)
            && (assignments::has_secret_container(line)
                || without_secrets_in(line, Origin::Command).is_some()))
}

/// The text with one part of it hidden.
fn with_hidden(text: &str, start: usize, end: usize) -> String {
    [&text[..start], HIDDEN, &text[end..]].concat()
}

/// A text from which parts are taken, in their order.
struct Hidden<'a> {
    plain: &'a str,
    out: String,
    done: usize,
}

impl<'a> Hidden<'a> {
    fn new(plain: &'a str) -> Self {
        Self {
            plain,
            out: String::new(),
            done: 0,
        }
    }

    fn hide(&mut self, start: usize, end: usize) {
        self.out.push_str(&self.plain[self.done..start]);
        self.out.push_str(HIDDEN);
        self.done = end;
    }

    /// Nothing when nothing was hidden.
    fn finish(mut self) -> Option<String> {
        (self.done > 0).then(|| {
            self.out.push_str(&self.plain[self.done..]);
            self.out
        })
    }
}

#[cfg(test)]
mod tests;
