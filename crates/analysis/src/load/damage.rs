//! Damage in an artifact: what could not be read, where and why.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum number of damaged places that are listed. Further places are only counted, so that a
/// file full of damage does not take more memory than one of events.
pub(crate) const MOST_LISTED: usize = 100_000;

/// A part of a file that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` for files without lines.
    pub line: Option<u64>,
    /// The skipped bytes of the decompressed file.
    pub bytes: Option<Range<u64>>,
    /// The invalid field of the record, if it is a single one.
    pub field: Option<String>,
    /// The reason.
    pub reason: String,
}

/// The reason for skipping an incomplete last line.
pub(crate) const TORN: &str = "the last line was torn; everything before it is loaded";

impl Damage {
    /// Whether this is an incomplete last line, as left by a crash during a write.
    pub fn is_tear(&self) -> bool {
        self.reason == TORN
    }

    /// Damage of a whole file, or of a part without a position.
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

/// Damaged places, of which at most [`MOST_LISTED`] are listed.
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    listed: Vec<Damage>,
    more: u64,
}

impl DamageList {
    /// Lists a damaged place, or only counts it when the list is full.
    pub(crate) fn push(&mut self, damage: impl FnOnce() -> Damage) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(damage());
        } else {
            self.more += 1;
        }
    }

    /// Whether there is no damage.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.more == 0
    }

    /// Adds places that are only counted.
    pub(crate) fn count(&mut self, more: u64) {
        self.more += more;
    }

    /// The listed places, plus an entry with the number of the others.
    pub(crate) fn finish(mut self, file: &Path) -> Vec<Damage> {
        if self.more > 0 {
            let reason = format!("and {} more damaged places", self.more);
            self.listed.push(Damage::of_file(file, reason));
        }
        self.listed
    }
}

/// Counts lines up to increasing positions. Each byte is examined once.
#[derive(Debug, Default)]
pub(crate) struct LineCounter {
    place: usize,
    lines: u64,
}

impl LineCounter {
    /// Number of newlines before `place`.
    pub(crate) fn before(&mut self, text: &[u8], place: usize) -> u64 {
        let passed = text.get(self.place..place).unwrap_or_default();
        self.lines += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.place = self.place.max(place);
        self.lines
    }
}
