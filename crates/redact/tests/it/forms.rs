//! Reads the corpus `fixtures/secrets` and fills in random secrets. The tests of the crate `capture`
//! compile this file too.

use std::fs;
use std::path::Path;

/// A line of a file of forms with random text in place of the secrets.
pub(crate) struct Form {
    pub(crate) text: String,
    pub(crate) is_command: bool,
    pub(crate) secrets: Vec<String>,
}

impl Form {
    /// Whether a text contains a secret, or a usable part of it.
    pub(crate) fn leaks_into(&self, text: &str) -> Option<&str> {
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

/// The texts of a file whose lines are forms of secrets, filled in.
pub(crate) fn forms(name: &str) -> Vec<Form> {
    let mut random = Random(20_261_116);
    let mut forms = Vec::new();
    let mut is_command = true;
    for line in lines(name) {
        is_command &= !line.starts_with("# Text");
        if !line.starts_with('#') {
            forms.push(filled(&line, is_command, &mut random));
        }
    }
    assert!(forms.len() >= 200, "{} forms", forms.len());
    forms
}

/// The lines of a file of texts without secrets.
pub(crate) fn ordinary(name: &str) -> Vec<String> {
    let lines = lines(name);
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
        if let Some((secret, after)) = rest.strip_prefix('=').and_then(|rest| rest.split_once('}'))
        {
            form.text.push_str(secret);
            form.secrets.push(secret.to_owned());
            rest = after;
            continue;
        }
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
