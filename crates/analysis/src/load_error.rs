//! The errors that loading an artifact can cause.

use std::path::{Path, PathBuf};

use stormlog_format::{RecordError, json::JsonError};

use crate::pack::{OpenError, shown};

/// Longest line in bytes; a longer line cannot be an event and is skipped as damage.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// Why an artifact cannot be loaded. An error message names the file if the corresponding message
/// of stormlog 0.3.9 does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum LoadError {
    #[error("'{}' does not exist", shown(.0).display())]
    NotFound(PathBuf),
    #[error("'{}' is a directory without telemetry: no manifest.json, no segment-*.jsonl", shown(.0).display())]
    NotAnArtifact(PathBuf),
    #[error("cannot read '{}': {source}", shown(.file).display())]
    Io {
        file: PathBuf,
        source: std::io::Error,
    },
    #[error("'{}' is not UTF-8 at byte {offset}", shown(.file).display())]
    NotUtf8 {
        file: PathBuf,
        offset: u64,
        byte: u8,
    },
    #[error("'{}' is not JSON: {source}", shown(.file).display())]
    Json { file: PathBuf, source: JsonError },
    #[error("Malformed telemetry JSONL record in {} at line {line}", shown(.file).display())]
    MalformedLine { file: PathBuf, line: u64 },
    #[error("Telemetry record in {} at line {line} must be an object", shown(.file).display())]
    LineNotAnObject { file: PathBuf, line: u64 },
    #[error("{source}")]
    BadRecord {
        file: PathBuf,
        line: Option<u64>,
        index: Option<u64>,
        source: RecordError,
    },
    #[error("Event at index {index} must be an object")]
    NotAnObject { file: PathBuf, index: u64 },
    #[error("Event at index {index} is longer than {} bytes", LONGEST_LINE)]
    EventTooLong { file: PathBuf, index: u64 },
    #[error("Top-level key '{key}' must contain a list of events")]
    NotAListOfEvents { file: PathBuf, key: String },
    #[error("JSON payload does not contain telemetry events")]
    NoEvents { file: PathBuf },
    #[error("Telemetry payload must be a JSON object or array")]
    Scalar { file: PathBuf },
    #[error("CSV parse error {}:{line}: {reason}", shown(.file).display())]
    Csv {
        file: PathBuf,
        line: u64,
        reason: String,
    },
    #[error("'{}' is no table of telemetry: its first line names neither timestamp_ns nor timestamp", shown(.file).display())]
    NoTelemetryColumns { file: PathBuf },
    #[error("Requested session_id not found: {0}")]
    SessionNotFound(String),
    #[error("'{}' expands to more than {limit} bytes, out of proportion to its size", shown(.file).display())]
    ExpandsTooFar { file: PathBuf, limit: u64 },
    #[error(transparent)]
    Pack(#[from] OpenError),
}

impl LoadError {
    /// The error for a file that is not JSON.
    pub(crate) fn json(file: &Path, source: JsonError) -> Self {
        let file = file.into();
        Self::Json { file, source }
    }

    /// The error for an invalid record of a list of events.
    pub(crate) fn bad_event(file: &Path, index: u64, source: RecordError) -> Self {
        Self::BadRecord {
            file: file.into(),
            line: None,
            index: Some(index),
            source,
        }
    }

    /// Whether the file is intact but contains no telemetry.
    pub fn is_no_telemetry(&self) -> bool {
        matches!(
            self,
            Self::NoEvents { .. } | Self::Scalar { .. } | Self::NoTelemetryColumns { .. }
        )
    }

    /// The file that caused the error.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::NotFound(file)
            | Self::NotAnArtifact(file)
            | Self::Io { file, .. }
            | Self::NotUtf8 { file, .. }
            | Self::Json { file, .. }
            | Self::MalformedLine { file, .. }
            | Self::LineNotAnObject { file, .. }
            | Self::BadRecord { file, .. }
            | Self::NotAnObject { file, .. }
            | Self::EventTooLong { file, .. }
            | Self::NotAListOfEvents { file, .. }
            | Self::NoEvents { file }
            | Self::Scalar { file }
            | Self::NoTelemetryColumns { file }
            | Self::Csv { file, .. }
            | Self::ExpandsTooFar { file, .. } => Some(file),
            Self::Pack(error) => Some(&error.file),
            Self::SessionNotFound(_) => None,
        }
    }

    /// The invalid field of a record, if the error concerns a single field.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::BadRecord { source, .. } => source.field(),
            _ => None,
        }
    }

    /// The reason for the error without the file and the position, for messages that name both
    /// elsewhere.
    pub fn reason(&self) -> String {
        match self {
            Self::NotFound(_) => "there is no such file or directory".into(),
            Self::NotAnArtifact(_) => {
                "a directory without telemetry: no manifest.json, no segment-*.jsonl".into()
            }
            Self::Io { source, .. } => source.to_string(),
            Self::Pack(error) => error.source.to_string(),
            Self::NotUtf8 { .. } => "the text is not UTF-8".into(),
            Self::Json { source, .. } => format!("not JSON: {source}"),
            Self::MalformedLine { .. } => "the record is not JSON".into(),
            Self::LineNotAnObject { .. } | Self::NotAnObject { .. } => {
                "the record is not an object".into()
            }
            Self::EventTooLong { .. } => {
                format!("the event is longer than {LONGEST_LINE} bytes")
            }
            Self::Csv { reason, .. } => reason.clone(),
            Self::NoTelemetryColumns { .. } => {
                "no table of telemetry: its first line names neither timestamp_ns nor timestamp"
                    .into()
            }
            Self::ExpandsTooFar { limit, .. } => {
                format!(
                    "the file expands to more than {limit} bytes, out of proportion to its size"
                )
            }
            Self::BadRecord { .. }
            | Self::NotAListOfEvents { .. }
            | Self::NoEvents { .. }
            | Self::Scalar { .. }
            | Self::SessionNotFound(_) => self.to_string(),
        }
    }

    /// The line number or the event index at which loading failed, formatted for users.
    pub fn place(&self) -> Option<String> {
        match self {
            Self::MalformedLine { line, .. }
            | Self::LineNotAnObject { line, .. }
            | Self::Csv { line, .. }
            | Self::BadRecord {
                line: Some(line), ..
            } => Some(format!("line {line}")),
            Self::BadRecord {
                index: Some(index), ..
            }
            | Self::NotAnObject { index, .. }
            | Self::EventTooLong { index, .. } => Some(format!("event {index}")),
            Self::NotUtf8 { offset, .. } => Some(format!("byte {offset}")),
            _ => None,
        }
    }
}
