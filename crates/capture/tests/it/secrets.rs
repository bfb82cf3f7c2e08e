//! The secret filter against `fixtures/secrets`: no form of a secret reaches a file, and ordinary
//! text stays as it is.

use std::fs;
use std::path::Path;

use stormlog_capture::oom::{Dump, write};
use stormlog_capture::redact::{LineFilter, redacted, redacted_text, redacted_words};
use stormlog_capture::store::{Sink, SinkConfig};
use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::{Map, SessionStatus, Text, Value};

/// A line of `forms.txt` with random text in place of the secrets.
struct Form {
    text: String,
    is_command: bool,
    secrets: Vec<String>,
}

impl Form {
    /// Whether a text contains a secret, or a usable part of it.
    fn leaks_into(&self, text: &str) -> Option<&str> {
        let parts = self.secrets.iter().flat_map(|secret| {
            let length = secret.len().min(8);
            [&secret[..length], &secret[secret.len() - length..]]
        });
        { parts }.find(|part| text.contains(part))
    }
}

fn lines(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/secrets");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn forms() -> Vec<Form> {
    let mut random = Random(20_261_116);
    let mut forms = Vec::new();
    let mut is_command = true;
    for line in lines("forms.txt") {
        is_command &= !line.starts_with("# Text");
        if !line.starts_with('#') {
            forms.push(filled(&line, is_command, &mut random));
        }
    }
    assert!(forms.len() >= 200, "{} forms", forms.len());
    forms
}

fn ordinary() -> Vec<String> {
    let lines = lines("ordinary.txt");
    assert!(lines.len() >= 300, "{} lines", lines.len());
    lines
}

fn filled(line: &str, is_command: bool, random: &mut Random) -> Form {
    let mut form = Form {
        text: String::new(),
        is_command,
        secrets: Vec::new(),
    };
    let mut rest = line;
    while let Some(at) = rest.find('{') {
        form.text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let kinds = ["hex", "word", "caps", "low", "base64", "pass"];
        let made = kinds.iter().find_map(|kind| {
            let (count, after) = rest.strip_prefix(kind)?.split_once('}')?;
            Some((random.text(kind, count.parse().ok()?), after))
        });
        match made {
            Some((secret, after)) => {
                form.text.push_str(&secret);
                form.secrets.push(secret);
                rest = after;
            }
            None => form.text.push('{'),
        }
    }
    form.text.push_str(rest);
    assert!(!form.secrets.is_empty(), "no secret in {line}");
    form
}

/// Random numbers (`SplitMix64`), the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn pick(&mut self, letters: &str) -> char {
        let count = u64::try_from(letters.len()).unwrap();
        let index = usize::try_from(self.next() % count).unwrap();
        char::from(letters.as_bytes()[index])
    }

    /// A text of a kind. It contains a digit, a lower-case and an upper-case letter if the kind has
    /// them.
    fn text(&mut self, kind: &str, length: usize) -> String {
        const DIGITS: &str = "0123456789";
        const SMALL: &str = "abcdefghijklmnopqrstuvwxyz";
        const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let sets: &[&str] = match kind {
            "hex" => &[DIGITS, "abcdef"],
            "caps" => &[CAPITALS, DIGITS],
            "low" => &[SMALL, DIGITS],
            "pass" => &[SMALL, CAPITALS, DIGITS, "!%+^"],
            _ => &[SMALL, CAPITALS, DIGITS],
        };
        let count = u64::try_from(sets.len()).unwrap();
        let mut text: String = (0..length)
            .map(|index| {
                let chosen = usize::try_from(self.next() % count).unwrap();
                let set = sets.get(index).copied().unwrap_or(sets[chosen]);
                self.pick(set)
            })
            .collect();
        if kind == "base64" {
            text.replace_range(length / 2..=length / 2, "/");
            text.replace_range(length - 1.., "=");
        }
        text
    }
}

/// The words of a line, as a shell finds them.
fn words(line: &str) -> Vec<String> {
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

fn map(name: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(name, value);
    Value::Map(map)
}

fn line(value: &Value) -> String {
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
    for form in forms() {
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
    for text in ordinary() {
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
    let lines = ordinary().into_iter();
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

/// All text below a folder.
fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&all_text(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
        }
    }
    text
}

#[test]
fn neither_a_sink_nor_a_bundle_holds_a_secret() {
    let root = tempfile::tempdir().unwrap();
    let sink = Sink::open(SinkConfig::new(root.path().join("sink"))).unwrap();
    let mut events = Vec::new();
    let forms = forms();
    for form in &forms {
        let mut metadata = Map::new();
        metadata.insert("note", &*form.text);
        let mut event = Map::new();
        event.insert("context", &*format!("failed\n{}", form.text));
        event.insert("metadata", Value::Map(metadata));
        sink.append_line(None, &line(&Value::Map(event.clone())), None)
            .unwrap();
        events.push(event);
    }
    sink.close(SessionStatus::Completed).unwrap();
    let message: Vec<&str> = forms.iter().map(|form| &*form.text).collect();
    let dump = Dump {
        reason: "r".into(),
        exception: ["E".into(), "m".into(), message.join("\n").into()],
        context: Some(message.join("\n").into()),
        backend: "cuda".into(),
        events: events.clone(),
        custom_metadata: events.swap_remove(0),
        session: None,
        system: Map::new(),
        pid: 7,
        cwd: "/".into(),
    };
    let bundle = write(root.path(), dump, "S", "C", 1).unwrap();
    let text = all_text(root.path());
    let leaked = forms.iter().filter_map(|form| form.leaks_into(&text));
    assert_eq!(leaked.collect::<Vec<_>>(), Vec::<&str>::new());
    // Every record is still there and still valid.
    let segment = fs::read(root.path().join("sink/segment-000001.jsonl")).unwrap();
    let records: Vec<&[u8]> = segment.split(|byte| *byte == b'\n').collect();
    assert_eq!(records.len(), forms.len() + 1);
    for record in &records[..forms.len()] {
        assert!(matches!(parse(record), Ok(Value::Map(_))));
    }
    assert!(bundle.join("manifest.json").exists());
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
