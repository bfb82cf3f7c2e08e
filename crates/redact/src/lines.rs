//! Removes secrets from the lines of a sink, each of which is one record. Most samples of a program
//! differ only in their numbers, and a number is never a secret. A line that differs only in
//! numbers from a line without secrets has no secrets either and is therefore not searched.

use super::{may_hold_secret, redacted_line};

/// How many lines without secrets are remembered as templates, enough for samples and the few kinds
/// of events between them.
const MOST_TEMPLATES: usize = 8;

/// The longest line, in bytes, that is remembered as a template; longer lines are searched for
/// secrets each time.
const LONGEST_TEMPLATE: usize = 8 << 10;

/// Removes secrets from the lines of JSON that a sink writes. Each sink has a filter, which
/// remembers the kinds of lines without secrets.
#[derive(Debug, Default)]
pub struct LineFilter {
    /// Remembered lines without secrets; the line that matched last comes first.
    templates: Vec<Template>,
}

impl LineFilter {
    /// Replaces secrets in lines of records; returns `None` when the lines have no secrets.
    pub fn redacted(&mut self, lines: &str) -> Option<String> {
        let mut out = String::new();
        let mut done = 0;
        let mut start = 0;
        while start < lines.len() {
            let known = self.length_of_known(&lines[start..]);
            let end = known.map_or_else(|| line_end(lines, start), |length| start + length);
            if known.is_none() {
                let line = &lines[start..end];
                if let Some(hidden) = may_hold_secret(line).then(|| redacted_line(line)).flatten() {
                    out.push_str(&lines[done..start]);
                    out.push_str(&hidden);
                    done = end;
                } else {
                    self.remember(line);
                }
            }
            start = end;
        }
        (done > 0).then(|| out + &lines[done..])
    }

    /// The length of the first of the given lines, if that line matches a remembered line without
    /// secrets.
    fn length_of_known(&mut self, lines: &str) -> Option<usize> {
        let mut templates = self.templates.iter().enumerate();
        let fits = |(index, template): (usize, &Template)| {
            let length = template.length_in(lines.as_bytes())?;
            Some((index, length))
        };
        let (index, length) = templates.find_map(fits)?;
        self.templates[..=index].rotate_right(1);
        Some(length)
    }

    fn remember(&mut self, line: &str) {
        if let Some(template) = Template::of(line) {
            self.templates.truncate(MOST_TEMPLATES - 1);
            self.templates.insert(0, template);
        }
    }
}

fn line_end(lines: &str, start: usize) -> usize {
    let end = memchr::memchr(b'\n', &lines.as_bytes()[start..]);
    end.map_or(lines.len(), |end| start + end + 1)
}

/// A line of JSON without its numbers: values that are numbers are left out, and so are keys that
/// consist of digits, such as pids.
#[derive(Debug)]
struct Template {
    text: Box<[u8]>,
    /// The positions in `text` at which numbers were left out, in ascending order.
    numbers: Vec<usize>,
}

impl Template {
    /// Makes a template of a line; `None` for a line with escapes, which is rare, and for a line
    /// that may not be JSON, in which a number may be part of any text.
    fn of(line: &str) -> Option<Self> {
        let bytes = line.as_bytes();
        if bytes.len() > LONGEST_TEMPLATE || !line.ends_with('\n') || line.contains('\\') {
            return None;
        }
        let mut text = Vec::with_capacity(bytes.len());
        let mut numbers = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = match rest[0] {
                b'"' => {
                    let length = memchr::memchr(b'"', &rest[1..])? + 2;
                    // A key that consists of digits, such as a pid, is left out of the template
                    // too.
                    let inner = &rest[1..length - 1];
                    let is_name = rest.get(length) == Some(&b':');
                    if is_name && !inner.is_empty() && inner.iter().all(u8::is_ascii_digit) {
                        text.push(b'"');
                        numbers.push(text.len());
                        text.push(b'"');
                        at += length;
                        continue;
                    }
                    length
                }
                b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\n' => 1,
                byte if byte.is_ascii_digit() || byte == b'-' => {
                    let length = number_length(rest);
                    if !matches!(rest.get(length), Some(b',' | b'}' | b']')) {
                        return None;
                    }
                    // Numbers in a list stay in the template, because a list may be the words of a
                    // command.
                    if text.ends_with(b"\": ") || text.ends_with(b"\":") {
                        numbers.push(text.len());
                        at += length;
                        continue;
                    }
                    length
                }
                _ => ["null", "true", "false", "NaN", "Infinity"]
                    .iter()
                    .find(|word| rest.starts_with(word.as_bytes()))?
                    .len(),
            };
            text.extend_from_slice(&rest[..length]);
            at += length;
        }
        Some(Self {
            text: text.into(),
            numbers,
        })
    }

    /// The length of the line at the start of `lines`, if the line differs from this template only
    /// in numbers.
    fn length_in(&self, lines: &[u8]) -> Option<usize> {
        let (mut done, mut at) = (0, 0);
        for number in &self.numbers {
            let same = &self.text[done..*number];
            let rest = lines.get(at..)?.strip_prefix(same)?;
            let length = number_length(rest);
            if length == 0 {
                return None;
            }
            done = *number;
            at += same.len() + length;
        }
        let same = &self.text[done..];
        lines[at..].starts_with(same).then_some(at + same.len())
    }
}

/// The length of the JSON number at the start of `rest`; zero when there is none.
fn number_length(rest: &[u8]) -> usize {
    let mut length = 0;
    while let Some(eight) = rest[length..].first_chunk() {
        let digits = digits_at_start(u64::from_le_bytes(*eight));
        length += digits;
        if digits < 8 {
            break;
        }
    }
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let more = rest[length..].iter().take_while(|byte| is_part(byte));
    length + more.count()
}

/// How many of eight bytes are digits, counted from the lowest byte up to the first byte that is no
/// digit.
fn digits_at_start(eight: u64) -> usize {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const SIX: u64 = 0x0606_0606_0606_0606;
    const THREES: u64 = 0x3333_3333_3333_3333;
    // The byte of a digit is 0x30 to 0x39: its upper four bits are 3, and remain 3 when 6 is added.
    let halves = (eight & HIGH) | ((eight.wrapping_add(SIX) & HIGH) >> 4);
    (halves ^ THREES).trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "{\"a\": 12, \"b\": {\"1\": -2.5e3}, \"c\": [\"x 1\", 2], \"d\": null}\n";

    #[test]
    fn a_line_that_differs_in_numbers_is_known() {
        let mut filter = LineFilter::default();
        assert_eq!(filter.redacted(PLAIN), None);
        let other = "{\"a\": 123456789, \"b\": {\"23\": 4}, \"c\": [\"x 1\", 2], \"d\": null}\n";
        let more = format!("{other}{PLAIN}");
        assert_eq!(filter.length_of_known(&more), Some(other.len()));
        for changed in [
            "{\"a\": 7, \"b\": {\"1\": 4}, \"c\": [\"x 2\", 2], \"d\": null}\n",
            "{\"a\": \"7\", \"b\": {\"1\": 4}, \"c\": [\"x 1\", 2], \"d\": null}\n",
            "{\"a\": , \"b\": {\"1\": 4}, \"c\": [\"x 1\", 2], \"d\": null}\n",
            "{\"a\": 7, \"b\": {\"1\": 4}, \"c\": [\"x 1\", 3], \"d\": null}\n",
            "{\"a\": 7",
            "{",
            "",
        ] {
            assert_eq!(filter.length_of_known(changed), None, "{changed}");
        }
    }

    #[test]
    fn digits_are_counted() {
        let signs = (0..=127)
            .map(char::from)
            .filter(|sign| !sign.is_ascii_digit());
        for sign in signs.chain(['ü', '€', '😀']) {
            for count in 0..20 {
                let text = format!("{}{sign}12345678", &"01234567890123456789"[..count]);
                let is_part = "+-.eE".contains(sign);
                let expected = if is_part { count + 9 } else { count };
                assert_eq!(number_length(text.as_bytes()), expected, "{text}");
                assert_eq!(number_length(&text.as_bytes()[..count]), count);
            }
        }
    }

    #[test]
    fn a_secret_beside_known_lines_is_hidden() {
        let mut filter = LineFilter::default();
        let secret = "{\"a\": 12, \"password\": \"hunter2\"}\n";
        let lines = format!("{PLAIN}{secret}{PLAIN}{secret}");
        let hidden = secret.replace("hunter2", "[redacted]");
        let expected = format!("{PLAIN}{hidden}{PLAIN}{hidden}");
        for _ in 0..2 {
            assert_eq!(filter.redacted(&lines).as_ref(), Some(&expected));
        }
        assert_eq!(filter.templates.len(), 1);
    }

    #[test]
    fn numbers_between_the_words_of_a_command_do_not_save_a_secret() {
        let mut filter = LineFilter::default();
        for item in ["5", "-2.5", "null", "true", "5, 6"] {
            let line = format!("{{\"args\": [\"--token\", {item}, \"s3cr3tvalue\", \"-v\"]}}\n");
            let hidden = line.replace("s3cr3tvalue", "[redacted]");
            assert_eq!(filter.redacted(&line), Some(hidden));
        }
    }

    #[test]
    fn only_lines_of_json_are_remembered() {
        for line in [
            "step 12 of 13\n",
            "{token: 12}\n",
            "{\"a\": 12:AB}\n",
            "{\"a\": \"\\\"\", \"n\": 1}\n",
            "{\"a\": \"torn\n",
            "{\"a\": 1}",
        ] {
            assert!(Template::of(line).is_none(), "{line}");
        }
        let long = format!("{{\"a\": \"{}\"}}\n", "x".repeat(LONGEST_TEMPLATE));
        assert!(Template::of(&long).is_none());
    }

    #[test]
    fn a_few_lines_are_remembered() {
        let mut filter = LineFilter::default();
        for number in 0..100 {
            let line = format!("{{\"text\": \"line {number}\", \"n\": 1}}\n");
            assert_eq!(filter.redacted(&line), None);
            assert_eq!(filter.redacted(PLAIN), None);
        }
        assert_eq!(filter.templates.len(), MOST_TEMPLATES);
        assert!(filter.length_of_known(PLAIN).is_some());
    }

    /// `cargo test --release -p stormlog-redact --lib -- --ignored --nocapture time_per_line`
    #[test]
    #[ignore = "a measurement"]
    fn time_per_line() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        for name in ["accelerate_train", "curriculum", "shared_clean_serving"] {
            let file = format!("recordings/{name}/segment-000001.jsonl.zst");
            let packed = std::fs::read(folder.join(file)).unwrap();
            let lines = String::from_utf8(zstd::decode_all(&*packed).unwrap()).unwrap();
            let count = lines.lines().count() as u128;
            // The test takes the fastest of many runs, because other programs use the processor
            // too.
            let time = |run: &mut dyn FnMut()| {
                let times = (0..100).map(|_| {
                    let started = std::time::Instant::now();
                    run();
                    started.elapsed().as_nanos()
                });
                times.min().unwrap() / count
            };
            let mut filter = LineFilter::default();
            let known = time(&mut || assert_eq!(filter.redacted(&lines), None));
            let each = time(&mut || {
                assert!(!lines.split_inclusive('\n').any(may_hold_secret));
            });
            println!("{name}: {known} ns per line, {each} ns when each is looked through");
        }
    }
}
