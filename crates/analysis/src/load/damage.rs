//! Damage is data: what of an artifact could not be read, and where.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// This many damaged places are listed; the rest is counted, so that a file of nothing but
/// damage costs no more memory than one of events.
pub(crate) const MOST_LISTED: usize = 100_000;

/// A part of a file that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1, where the file has lines.
    pub line: Option<u64>,
    /// The bytes of the (decompressed) file that were skipped.
    pub bytes: Option<Range<u64>>,
    /// The field of the record that is wrong, where it is one.
    pub field: Option<String>,
    /// Why.
    pub reason: String,
}

/// Why the last line of a file that a crash cut short was skipped.
pub(crate) const TORN: &str = "the last line was torn; everything before it is loaded";

impl Damage {
    /// Whether this is what a crash in the middle of a write leaves.
    pub fn is_tear(&self) -> bool {
        self.reason == TORN
    }

    /// Damage of a whole file, or of a file's part that has no place.
    pub(crate) fn of_file(file: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
            bytes: None,
            field: None,
            reason: reason.into(),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'", crate::pack::shown(&self.file).display())?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if let Some(bytes) = &self.bytes {
            write!(f, " (bytes {} to {})", bytes.start, bytes.end)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Damaged places, listed up to [`MOST_LISTED`].
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    listed: Vec<Damage>,
    more: u64,
}

impl DamageList {
    /// Adds a place, or counts it.
    pub(crate) fn push(&mut self, damage: impl FnOnce() -> Damage) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(damage());
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.more == 0
    }

    /// Counts damaged places that are not listed.
    pub(crate) fn count(&mut self, more: u64) {
        self.more += more;
    }

    /// The places, with a last word about those that are not listed.
    pub(crate) fn finish(mut self, file: &Path) -> Vec<Damage> {
        if self.more > 0 {
            let reason = format!("and {} more damaged places", self.more);
            self.listed.push(Damage::of_file(file, reason));
        }
        self.listed
    }
}

/// Counts lines up to places that are asked for in order, each byte once.
#[derive(Debug, Default)]
pub(crate) struct LineCounter {
    place: usize,
    lines: u64,
}

impl LineCounter {
    /// Newlines before the place.
    pub(crate) fn before(&mut self, text: &[u8], place: usize) -> u64 {
        let passed = text.get(self.place..place).unwrap_or_default();
        self.lines += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.place = self.place.max(place);
        self.lines
    }
}
