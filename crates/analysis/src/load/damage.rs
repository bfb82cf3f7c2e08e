//! Damage is data: what of an artifact could not be read, and where.

use std::ops::Range;
use std::path::PathBuf;

/// A part of a file that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1, where the file has lines.
    pub line: Option<u64>,
    /// The bytes of the (decompressed) file that were passed over.
    pub bytes: Option<Range<u64>>,
    /// The field of the record that is wrong, where it is one.
    pub field: Option<String>,
    /// Why.
    pub reason: String,
}

impl Damage {
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
        write!(f, "'{}'", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if let Some(bytes) = &self.bytes {
            write!(f, " (bytes {} to {})", bytes.start, bytes.end)?;
        }
        write!(f, ": {}", self.reason)
    }
}
