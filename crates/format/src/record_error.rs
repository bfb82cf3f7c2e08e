//! The errors of converting a record to an event. The messages of the errors are the same as in
//! stormlog 0.3.9.

/// Why a record cannot be converted to a telemetry event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum RecordError {
    #[error("record must be a mapping")]
    NotAMapping,
    #[error("Unsupported schema_version: {0}")]
    UnsupportedVersion(String),
    #[error("Missing required telemetry fields: {}", .0.join(", "))]
    MissingFields(Vec<&'static str>),
    #[error("Unknown telemetry fields: {}", .0.join(", "))]
    UnknownFields(Vec<String>),
    #[error("{0} must be an integer")]
    NotAnInteger(String),
    #[error("{0} must fit a signed 64-bit integer")]
    IntegerTooLarge(String),
    #[error("{0} must be a string")]
    NotAString(String),
    #[error("{0} must be a non-empty string")]
    BlankString(String),
    #[error("{field} must be >= {minimum}")]
    TooSmall { field: String, minimum: i64 },
    #[error("{0} must be >= 0 when provided")]
    NegativeWhenProvided(String),
    #[error("{0} cannot exceed device_total_bytes")]
    ExceedsTotal(&'static str),
    #[error("metadata must be an object")]
    MetadataNotAnObject,
    #[error("metadata must be an object when provided")]
    LegacyMetadataNotAnObject,
    #[error("metadata.memory_capabilities must be an object in a version 4 record")]
    MissingMemoryCapabilities,
    #[error("metadata.memory_capabilities.{0} must be true or false")]
    CapabilityNotABoolean(String),
    #[error("{0} must be < world_size")]
    RankOutsideWorld(&'static str),
    #[error("Legacy record conversion is disabled")]
    LegacyDisabled,
    #[error("Legacy record is missing a valid timestamp")]
    MissingTimestamp,
    #[error("{0} must be a finite number")]
    NotFinite(&'static str),
}

impl RecordError {
    /// The name of the invalid field, if the error concerns a single field.
    pub fn field(&self) -> Option<&str> {
        Some(match self {
            Self::NotAnInteger(field)
            | Self::IntegerTooLarge(field)
            | Self::NotAString(field)
            | Self::BlankString(field)
            | Self::TooSmall { field, .. }
            | Self::NegativeWhenProvided(field) => field,
            Self::ExceedsTotal(field) | Self::RankOutsideWorld(field) | Self::NotFinite(field) => {
                field
            }
            Self::UnsupportedVersion(_) => "schema_version",
            Self::MetadataNotAnObject
            | Self::LegacyMetadataNotAnObject
            | Self::MissingMemoryCapabilities
            | Self::CapabilityNotABoolean(_) => "metadata",
            Self::MissingTimestamp => "timestamp",
            _ => return None,
        })
    }
}
