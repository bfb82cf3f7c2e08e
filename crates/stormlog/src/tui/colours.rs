//! Rewrites colour codes to the sixteen colours that every terminal knows.
//!
//! crossterm writes all colours by their number among 256 (`38;5;1`), which a terminal with sixteen
//! colours may not understand. The writer in this module replaces a code such as `38;5;1` by its
//! short form `31`.

use std::io::{self, Write};

/// The longest escape sequence that is examined; a longer one sets no colours and is passed through
/// unchanged.
const LONGEST: usize = 64;

/// A writer for a terminal with sixteen colours. In everything that is written to it, codes such as
/// `38;5;1` are replaced by short forms such as `31`.
pub(crate) struct SixteenColours<W: Write> {
    inner: W,
    /// The bytes of an escape sequence of which the end has not been written yet.
    pending: Vec<u8>,
    /// Bytes that will be written to the terminal at the next flush.
    ready: Vec<u8>,
}

impl<W: Write> SixteenColours<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            pending: Vec::new(),
            ready: Vec::new(),
        }
    }

    fn take(&mut self, byte: u8) {
        match (self.pending.len(), byte) {
            (_, b'\x1b') => {
                self.ready.append(&mut self.pending);
                self.pending.push(byte);
            }
            (0, _) => self.ready.push(byte),
            (1, b'[') | (2..LONGEST, b'0'..=b'9' | b';') => self.pending.push(byte),
            (2.., b'm') => {
                let sequence = std::mem::take(&mut self.pending);
                rewrite(&sequence[2..], &mut self.ready);
            }
            _ => {
                self.ready.append(&mut self.pending);
                self.ready.push(byte);
            }
        }
    }
}

/// Writes a colour sequence to `ready`, with its numbers in the short form: `38;5;1` becomes `31`.
fn rewrite(numbers: &[u8], ready: &mut Vec<u8>) {
    ready.extend(b"\x1b[");
    let mut rest = numbers.split(|byte| *byte == b';');
    let mut is_first = true;
    while let Some(number) = rest.next() {
        if !is_first {
            ready.push(b';');
        }
        is_first = false;
        let mut ahead = rest.clone();
        let old = match (number, ahead.next(), ahead.next()) {
            (b"38", Some(b"5"), Some(colour)) => old_number(colour, 30, 90),
            (b"48", Some(b"5"), Some(colour)) => old_number(colour, 40, 100),
            _ => None,
        };
        match old {
            Some(old) => {
                rest = ahead;
                ready.extend(old.to_string().into_bytes());
            }
            None => ready.extend(number),
        }
    }
    ready.push(b'm');
}

fn old_number(colour: &[u8], dark: u8, bright: u8) -> Option<u8> {
    let colour: u8 = std::str::from_utf8(colour).ok()?.parse().ok()?;
    match colour {
        0..8 => Some(dark + colour),
        8..16 => Some(bright + colour - 8),
        _ => None,
    }
}

impl<W: Write> Write for SixteenColours<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.take(*byte);
        }
        Ok(bytes.len())
    }

    /// Writes all rewritten bytes in one call, so that a frame appears on the screen as a whole.
    fn flush(&mut self) -> io::Result<()> {
        let ready = std::mem::take(&mut self.ready);
        self.inner.write_all(&ready)?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(pieces: &[&str]) -> String {
        let mut written = Vec::new();
        let mut writer = SixteenColours::new(&mut written);
        for piece in pieces {
            writer.write_all(piece.as_bytes()).unwrap();
        }
        writer.flush().unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn colours_are_said_the_old_way() {
        let cases = [
            ("\x1b[38;5;1mred", "\x1b[31mred"),
            ("\x1b[38;5;12;48;5;7mx", "\x1b[94;47mx"),
            ("\x1b[39;49m", "\x1b[39;49m"),
            ("\x1b[1;38;5;8;4m", "\x1b[1;90;4m"),
            ("\x1b[38;5;200m", "\x1b[38;5;200m"),
            ("\x1b[38;2;1;2;3m", "\x1b[38;2;1;2;3m"),
            ("\x1b[3;7H\u{28ff}\x1b[?25l", "\x1b[3;7H\u{28ff}\x1b[?25l"),
            ("\x1b[m\x1b\x1b[0m", "\x1b[m\x1b\x1b[0m"),
        ];
        for (given, expected) in cases {
            assert_eq!(passed_on(&[given]), expected);
        }
    }

    #[test]
    fn sequences_may_come_in_pieces() {
        assert_eq!(passed_on(&["a\x1b", "[38;", "5;", "3", "mb"]), "a\x1b[33mb");
    }
}
