//! A first check of a line of text in one pass without branches: whether a secret, the name of a
//! secret, or a command with a secret may begin anywhere in the line. For nearly all lines of
//! telemetry the answer is no, and no rule has to search them for secrets.

use super::arguments::is_between;
use super::formats::{FORMATS, is_in_word, shape_starts_before, token_length};
use super::names;

/// Sequences of three characters from texts that the rules search for: webhooks, logins,
/// `identified by`, the words before secrets in commands, and the keys of command lines. Letters may be in upper or lower
/// case.
const OTHERS: [&[u8; 3]; 13] = [
    b"hoo", b".or", b"://", b"tif", b"ogi", b"fig", b"obs", b"cov", b"pw:", b"pw=", b"cmd", b"rgv",
    b"mma",
];

/// The bits of a mask in [`BITS_AT`] that stand for the formats of tokens, one bit for each letter
/// that a format begins with.
const FORMAT_BITS: u64 = u32::MAX as u64;
const NAME_BIT: u64 = 1 << 32;
/// The bit of a mask in [`BITS_AT`] that stands for `SK` and a hexadecimal digit, the start of a
/// Twilio key.
const KEY_BIT: u64 = 1 << 62;
/// The bit of a mask in [`BITS_AT`] that stands for a sign, such as a dot, between the parts of a
/// token without a prefix.
const SHAPE_BIT: u64 = 1 << 61;
/// The bit of a mask in [`BITS_AT`] that stands for a dash that begins a flag of a command, such as
/// `-p` or `--token`.
const FLAG_BIT: u64 = 1 << 63;

/// For each of four neighbouring positions in a text, and for each value of a byte, a mask of bits.
/// Each bit stands for something to find, such as the beginning of a token, and is set if what is
/// to be found may have the byte at this position. The first position is the byte before the three
/// bytes that are checked; the other positions are the three bytes. If the same bit is set for all
/// four bytes, the text may contain what this bit stands for.
static BITS_AT: [[u64; 256]; 4] = bits_at();

const fn bits_at() -> [[u64; 256]; 4] {
    let mut table = [[0; 256]; 4];
    let mut index = 0;
    while index < FORMATS.len() {
        let start = FORMATS[index].start.as_bytes();
        let bit = 1 << (start[0] & 31);
        table = with_letters(table, [start[0], start[1], start[2]], bit);
        index += 1;
    }
    let mut bit = NAME_BIT;
    index = 0;
    while index < names::MARKS.len() {
        table = with_letters(table, *names::MARKS[index], bit);
        bit <<= 1;
        index += 1;
    }
    index = 0;
    while index < OTHERS.len() {
        table = with_letters(table, *OTHERS[index], bit);
        bit <<= 1;
        index += 1;
    }
    assert!(
        bit <= SHAPE_BIT,
        "each mark needs a separate bit of the mask"
    );
    let of_names = bit - NAME_BIT;
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "the value is below 256")]
        let this = byte as u8;
        table[0][byte] |= of_names;
        if !is_in_word(this) {
            table[0][byte] |= FORMAT_BITS | KEY_BIT;
        }
        if is_between(this) || matches!(this, b'\'' | b'"') {
            table[0][byte] |= FLAG_BIT;
        }
        if this.is_ascii_alphanumeric() {
            table[0][byte] |= SHAPE_BIT;
        }
        if matches!(this, b'.' | b':' | b'-' | b'~') {
            table[1][byte] |= SHAPE_BIT;
        }
        if this == b'-' {
            table[1][byte] |= FLAG_BIT;
        }
        if this.is_ascii_alphabetic() || this == b'-' {
            table[2][byte] |= FLAG_BIT;
        }
        table[2][byte] |= SHAPE_BIT;
        table[3][byte] |= SHAPE_BIT | FLAG_BIT;
        byte += 1;
    }
    table[1][b'S' as usize] |= KEY_BIT;
    table[2][b'K' as usize] |= KEY_BIT;
    let hex = b"0123456789abcdef";
    index = 0;
    while index < hex.len() {
        table[3][hex[index] as usize] |= KEY_BIT;
        index += 1;
    }
    table
}

const fn with_letters(mut table: [[u64; 256]; 4], letters: [u8; 3], bit: u64) -> [[u64; 256]; 4] {
    let mut index = 0;
    while index < 3 {
        let letter = letters[index];
        table[index + 1][letter.to_ascii_lowercase() as usize] |= bit;
        table[index + 1][letter.to_ascii_uppercase() as usize] |= bit;
        index += 1;
    }
    table
}

fn bits(four: [u8; 4]) -> u64 {
    let [before, first, second, third] = four.map(usize::from);
    BITS_AT[0][before] & BITS_AT[1][first] & BITS_AT[2][second] & BITS_AT[3][third]
}

/// How many bytes of a line are checked before the result of the check is looked at.
const BLOCK: usize = 16;

/// Whether the line has a mark: a text such as `key`, `://` or `--x` without which no rule finds a
/// secret. Lines without a mark need no further search.
pub(super) fn has_mark(line: &str) -> bool {
    let bytes = line.as_bytes();
    let &[first, second, third, ..] = bytes else {
        return true;
    };
    // The line is checked as if there were spaces before and after it.
    let count = bytes.len();
    let ends = [
        (0, [b' ', first, second, third]),
        (
            count - 2,
            [bytes[count - 3], bytes[count - 2], bytes[count - 1], b' '],
        ),
        (count - 1, [bytes[count - 2], bytes[count - 1], b' ', b' ']),
    ];
    let is_mark = |(at, four): (usize, [u8; 4])| is_mark(bytes, at, bits(four));
    if ends.into_iter().any(is_mark) {
        return true;
    }
    let fours = |start: usize| {
        let end = (start + BLOCK + 3).min(count);
        bytes[start..end]
            .windows(4)
            .map(|four| [four[0], four[1], four[2], four[3]])
    };
    let mut blocks = (0..count - 3).step_by(BLOCK);
    blocks.any(|start| {
        let found = fours(start).fold(0, |found, four| found | bits(four));
        found != 0 && (start + 1..).zip(fours(start)).any(is_mark)
    })
}

/// Whether the text at a position really is what the given bits stand for, such as a token or a
/// flag.
fn is_mark(bytes: &[u8], at: usize, bits: u64) -> bool {
    if bits & !(FORMAT_BITS | KEY_BIT | SHAPE_BIT) != 0 {
        return true;
    }
    let is_token = bits & (FORMAT_BITS | KEY_BIT) != 0 && token_length(&bytes[at..]).is_some();
    is_token || (bits & SHAPE_BIT != 0 && shape_starts_before(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_hides_has_a_mark() {
        for text in [
            "x --password a",
            "-p",
            "x -p",
            "https://me:x@host/",
            "hooks.slack.com/services/T0/B0/x",
            "api.telegram.org/bot12/x",
            "IDENTIFIED BY 'x'",
            "wandb login x",
            "-----BEGIN PRIVATE KEY-----",
            "ghp_0123456789abcdef0123",
            "a hf_0123456789abcdef0123",
            "bearer abcdefghijklmnop1",
            "\"SK0123456789abcdef0123456789abcdef\"",
            "0123456789abcdef0123456789abcdef-us1",
            "PHPSESSID=a",
            "jsessionid: a",
            "pwd",
        ] {
            assert!(has_mark(text), "{text}");
            for blanks in 60..70 {
                let text = format!("{}{text}{}", " ".repeat(blanks), " ".repeat(blanks));
                assert!(has_mark(&text), "{text}");
            }
        }
        for text in [
            "{\"session_id\": \"e29b6e40-edd7-4bfa-b4f8-6ab0d40b7c17\", \"n\": -1.5}",
            "{\"allocator_allocated_bytes\": 1, \"context\": \"Collected telemetry sample.\"}",
        ] {
            assert!(!has_mark(text), "{text}");
        }
    }
}
