//! Damage in an artifact: what could not be read, where and why.

use std::ops::Range;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::document::shown_path;

/// Maximum number of damaged places of an artifact that are listed by default. Further damaged
/// places are only counted, so that a file full of damage does not take more memory than a file of
/// events.
pub(crate) const MOST_LISTED: usize = 100_000;

/// A part of a file that was skipped because it could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Damage {
    /// The damaged file.
    #[serde(serialize_with = "shown_path")]
    #[schemars(with = "String")]
    pub file: PathBuf,
    /// The number of the damaged line, counted from 1; `None` for files without lines.
    pub line: Option<u64>,
    /// The skipped byte range of the decompressed file: the first byte, and the one after the last.
    #[serde(rename = "byte_range", serialize_with = "bounds")]
    #[schemars(with = "Option<[u64; 2]>")]
    pub bytes: Option<Range<u64>>,
    /// The invalid field of the record, if only one field is invalid.
    pub field: Option<String>,
    /// The reason why the part was skipped.
    pub reason: String,
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn bounds<S: Serializer>(bytes: &Option<Range<u64>>, serializer: S) -> Result<S::Ok, S::Error> {
    let bounds = bytes.as_ref().map(|bytes| [bytes.start, bytes.end]);
    bounds.serialize(serializer)
}

/// The reason given for skipping an incomplete last line.
pub(crate) const TORN: &str = "the last line is incomplete; everything before it is loaded";

impl Damage {
    /// Whether the damage is an incomplete last line, as left by a crash during a write.
    pub fn is_tear(&self) -> bool {
        self.reason == TORN
    }

    /// Damage of a whole file, or damage whose position in the file is unknown.
    pub fn of_file(file: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
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

/// A list of damaged places with at most `most` entries.
#[derive(Debug)]
pub(crate) struct DamageList {
    listed: Vec<Damage>,
    more: u64,
    most: usize,
}

impl DamageList {
    pub(crate) fn with_most(most: usize) -> Self {
        Self {
            listed: Vec::new(),
            more: 0,
            most,
        }
    }

    /// Lists a damaged place, or only counts it when the list is full.
    pub(crate) fn push(&mut self, damage: impl FnOnce() -> Damage) {
        if self.listed.len() < self.most {
            self.listed.push(damage());
        } else {
            self.more += 1;
        }
    }

    /// Whether there is no damage.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.more == 0
    }

    /// Adds a number of damaged places that are not listed.
    pub(crate) fn count(&mut self, more: u64) {
        self.more += more;
    }

    /// The listed damaged places, plus an entry with the number of places that are not listed.
    pub(crate) fn finish(mut self, file: &Path) -> Vec<Damage> {
        if self.more > 0 {
            let reason = format!("and {} more damaged places", self.more);
            self.listed.push(Damage::of_file(file, reason));
        }
        self.listed
    }
}

/// Counts the newlines before given offsets. The offsets must not decrease from call to call, so
/// that each byte is examined only once.
#[derive(Debug, Default)]
pub(crate) struct LineCounter {
    place: usize,
    lines: u64,
}

impl LineCounter {
    /// Number of newlines before the offset `place`.
    pub(crate) fn before(&mut self, text: &[u8], place: usize) -> u64 {
        let passed = text.get(self.place..place).unwrap_or_default();
        self.lines += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.place = self.place.max(place);
        self.lines
    }
}
