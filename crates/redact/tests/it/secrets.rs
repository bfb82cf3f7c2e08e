//! The secret filter against `fixtures/secrets`: no form of a secret reaches a file, and ordinary
//! text stays as it is.

use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Map, Text, Value};
use stormlog_redact::{LineFilter, redacted, redacted_text, redacted_words};

use crate::forms::{Form, forms, ordinary};

/// The words of a line, as a shell finds them.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    words
}

pub(crate) fn map(name: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(name, value);
    Value::Map(map)
}

pub(crate) fn line(value: &Value) -> String {
    Writer::new(Layout::Line).to_string(value)
}

/// All ways in which a text reaches a file, by name.
fn outputs(form: &Form) -> Vec<(&'static str, String)> {
    let text = &*form.text;
    let exception = format!("Command failed:\n{text}\n  at line 3");
    let message = |text: &str| redacted_text(Text::from(text)).to_str_lossy().into_owned();
    let in_map = |name: &str, value: Value| line(&redacted(map(name, value)));
    let in_sink = |name: &str, value: Value| {
        let line = format!("{}\n", line(&map("metadata", map(name, value))));
        LineFilter::default().redacted(&line).unwrap_or(line)
    };
    let mut outputs = vec![
        ("command line", in_map("command_line", Value::text(text))),
        ("message", message(text)),
        ("exception", message(&exception)),
        ("metadata", in_map("note", Value::text(text))),
        ("sink", in_sink("note", Value::text(text))),
        ("lines in a sink", in_sink("note", Value::text(&*exception))),
    ];
    if form.is_command {
        let words = words(text);
        let list = words.iter().map(|word| Value::text(&**word));
        let argv = Value::List(list.collect());
        let repr = format!("failed: {words:?}");
        outputs.extend([
            ("repr", message(&repr)),
            ("repr in a sink", in_sink("note", Value::text(&*repr))),
            ("argv", in_map("command", argv.clone())),
            ("argv in a sink", in_sink("argv", argv)),
            ("words", redacted_words(&words)),
        ]);
    }
    outputs
}

#[test]
fn no_form_of_a_secret_gets_through() {
    let mut leaks = Vec::new();
    for form in forms("forms.txt") {
        for (name, output) in outputs(&form) {
            if let Some(part) = form.leaks_into(&output) {
                leaks.push(format!("{name}: {part} of {} in {output}", form.text));
            }
        }
    }
    assert!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
}

#[test]
fn ordinary_text_stays_byte_for_byte() {
    let mut changes = Vec::new();
    for text in ordinary("ordinary.txt") {
        let before = Text::from(&*text);
        let mut check = |name: &str, output: &str, expected: &str| {
            if output != expected {
                changes.push(format!("{name}: {expected}\n    becomes {output}"));
            }
        };
        check("message", &redacted_text(before).to_str_lossy(), &text);
        let record = map("metadata", map("note", Value::text(&*text)));
        check("metadata", &line(&redacted(record.clone())), &line(&record));
        let written = format!("{}\n", line(&record));
        let hidden = LineFilter::default().redacted(&written);
        check("sink", hidden.as_deref().unwrap_or(&written), &written);
    }
    assert!(
        changes.is_empty(),
        "{} changes:\n{}",
        changes.len(),
        changes.join("\n")
    );
}

/// Only commands are judged as commands: `--password is wrong` would hide a word there.
#[test]
fn ordinary_command_lines_stay() {
    let mut changes = Vec::new();
    let programs = [
        "python ",
        "torchrun ",
        "docker ",
        "git ",
        "srun ",
        "curl ",
        "pip ",
        "deepspeed ",
    ];
    let lines = ordinary("ordinary.txt").into_iter();
    let commands = lines.filter(|line| programs.iter().any(|program| line.starts_with(program)));
    for text in commands {
        let joined = words(&text).join(" ");
        let output = redacted_words(&words(&text));
        if output != joined {
            changes.push(format!("{joined}\n    becomes {output}"));
        }
    }
    assert!(
        changes.is_empty(),
        "{} changes:\n{}",
        changes.len(),
        changes.join("\n")
    );
}

/// Texts designed to make a rule read the same bytes again and again.
#[test]
fn a_hostile_text_takes_no_more_than_its_length() {
    let pieces = [
        "token=<",
        "pass:*",
        "pass:'",
        "--password ",
        "--password '",
        "curl -u ",
        "login login ",
        "://@",
        "a@://",
        "PRIVATE KEY-----",
        "-----END",
        "hf_",
        "sk-",
        "eyJ.",
        "Bearer ",
        "cookie: ",
        "password '",
        "\"token\": {",
        "[redacted]",
        "\\\"",
        "hooks.slack.com/services/",
        "xoxe.",
        "12345678:",
        "{\"password\":[",
        "$",
        "pass=$",
        "set configure set token ",
        "--token\\\n",
    ];
    for piece in pieces {
        let text = piece.repeat((1 << 16) / piece.len());
        let begun = std::time::Instant::now();
        let _ = redacted_text(Text::from(&*text));
        let _ = redacted_words(std::slice::from_ref(&text));
        let _ = LineFilter::default().redacted(&text);
        // This takes less than a second; quadratic time would take minutes.
        assert!(
            begun.elapsed().as_secs() < 60,
            "{piece}: {:?}",
            begun.elapsed()
        );
    }
}
