//! The share of secrets that the filter hides in texts that nobody wrote with its rules in mind, and
//! the share of ordinary texts that it changes (`fixtures/secrets/survey*.txt`).

use stormlog_format::{Text, Value};
use stormlog_redact::{LineFilter, redacted, redacted_str, redacted_words};

use crate::forms::{Form, forms, ordinary};
use crate::secrets::{line, map, words};

/// The forms of which a secret is still readable.
fn survivors(forms: &[Form], outputs: impl Fn(&str) -> Vec<String>) -> Vec<&str> {
    let leaks = |form: &&Form| {
        let outputs = outputs(&form.text);
        outputs
            .iter()
            .any(|output| form.leaks_into(output).is_some())
    };
    forms.iter().filter(leaks).map(|form| &*form.text).collect()
}

fn in_sink(key: &str, text: &str) -> String {
    let line = format!("{}\n", line(&map("metadata", map(key, Value::text(text)))));
    LineFilter::default().redacted(&line).unwrap_or(line)
}

fn of_command(text: &str) -> Vec<String> {
    let record = map("command_line", Value::text(text));
    vec![
        redacted_words(&words(text)),
        line(&redacted(record)),
        in_sink("command_line", text),
    ]
}

fn of_message(text: &str) -> Vec<String> {
    vec![redacted_str(text).into_owned(), in_sink("note", text)]
}

#[test]
fn of_a_hundred_secrets_at_least_98_are_hidden() {
    let (commands, mut messages): (Vec<_>, Vec<_>) = forms("survey.txt")
        .into_iter()
        .partition(|form| form.is_command);
    for message in &mut messages {
        message.text = message.text.replace("\\n", "\n");
    }
    assert!(commands.len() >= 300 && messages.len() >= 200);
    let mut failures = Vec::new();
    let mut check = |what: &str, all: usize, survivors: &[&str]| {
        if survivors.len() * 50 > all {
            let listed = survivors.join("\n");
            failures.push(format!(
                "{} of {all} {what} with a secret:
{listed}",
                survivors.len()
            ));
        }
    };
    check(
        "commands",
        commands.len(),
        &survivors(&commands, of_command),
    );
    check(
        "messages",
        messages.len(),
        &survivors(&messages, of_message),
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn of_two_hundred_ordinary_texts_at_most_one_is_changed() {
    let lines = ordinary("survey_ordinary.txt");
    let mut is_command = true;
    let mut changed = Vec::new();
    for text in &lines {
        is_command &= text != "# Text";
        let joined = words(text).join(" ");
        let record = map("metadata", map("note", Value::Text(Text::from(&**text))));
        let kept = redacted_str(text) == *text
            && redacted(record.clone()) == record
            && (!is_command || redacted_words(&words(text)) == joined);
        if !kept {
            changed.push(format!("{text}\n    becomes {}", redacted_str(text)));
        }
    }
    assert!(
        changed.len() * 200 <= lines.len(),
        "{} of {} changed:\n{}",
        changed.len(),
        lines.len(),
        changed.join("\n")
    );
}
