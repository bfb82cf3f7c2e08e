//! Converts a record, as any program wrote it, to a valid [`Event`](crate::Event).

mod legacy;
mod validate;

pub use validate::validate;

use crate::event::{Counters, Event, IDENTITY_FIELDS, Version};
use crate::fields::{integer, name, optional_text};
use crate::identity::{DistributedIdentity, IdentityInput, resolve};
use crate::python_text::python_str;
use crate::record_error::RecordError;
use crate::session::stable_legacy_session_id;
use crate::text::Text;
use crate::value::{Map, Value};

/// An object with any of these keys is a record by itself, not a document that contains a list of
/// records.
pub const RECORD_KEYS: [&[u8]; 7] = [
    b"schema_version",
    b"event_type",
    b"type",
    b"memory_allocated",
    b"memory_mb",
    b"timestamp",
    b"timestamp_ns",
];

/// The defaults for values that are missing in a record.
#[derive(Clone, Debug)]
pub struct RecordDefaults {
    /// Whether records without a `schema_version` are accepted and upgraded.
    pub permissive_legacy: bool,
    /// The collector of legacy records (those without a `schema_version`) that name no collector.
    pub collector: Value,
    /// The sampling interval, in milliseconds, of legacy records that contain no interval.
    pub sampling_interval_ms: Value,
    /// The session id of records that contain no session id.
    pub session_id: Option<Value>,
}

impl Default for RecordDefaults {
    fn default() -> Self {
        Self {
            permissive_legacy: true,
            collector: "legacy.unknown".into(),
            sampling_interval_ms: Value::Int(0),
            session_id: None,
        }
    }
}

/// Converts a record of any version to an event, including legacy records without a version.
pub fn event_from_record(record: &Map, defaults: &RecordDefaults) -> Result<Event, RecordError> {
    let Some(version) = record.get("schema_version") else {
        if !defaults.permissive_legacy {
            return Err(RecordError::LegacyDisabled);
        }
        let upgraded = legacy::upgrade(record, defaults)?;
        return event_of_valid(&upgraded, Version::V3);
    };
    let version = match integer("schema_version", version)? {
        2 | 3 => Version::V3,
        4 => Version::V4,
        other => return Err(RecordError::UnsupportedVersion(other.to_string())),
    };
    let metadata = match record.get("metadata") {
        None => None,
        Some(Value::Map(map)) => Some(map),
        Some(_) => return Err(RecordError::MetadataNotAnObject),
    };
    let identity = identity_of(record)?;
    let session_id = session_id_of(record, metadata, defaults);
    let mut upgraded = record.clone();
    upgraded.insert("schema_version", version.number());
    upgraded.insert("session_id", session_id);
    if !record.contains("local_rank") {
        upgraded.insert("local_rank", identity.local_rank);
    }
    event_of_valid(&upgraded, version)
}

fn event_of_valid(record: &Map, version: Version) -> Result<Event, RecordError> {
    validate(record)?;
    let field = |key: &'static str| {
        record
            .get(key)
            .ok_or_else(|| RecordError::MissingFields(vec![key]))
    };
    let counter = |key: &'static str| match field(key)? {
        Value::Null => Ok(None),
        value => integer(key, value).map(Some),
    };
    let identity = identity_of(record)?;
    Ok(Event {
        version,
        session_id: name("session_id", field("session_id")?)?,
        timestamp_ns: integer("timestamp_ns", field("timestamp_ns")?)?,
        event_type: name("event_type", field("event_type")?)?,
        collector: name("collector", field("collector")?)?,
        sampling_interval_ms: integer("sampling_interval_ms", field("sampling_interval_ms")?)?,
        pid: integer("pid", field("pid")?)?,
        host: name("host", field("host")?)?,
        job_id: identity.job_id,
        rank: identity.rank,
        local_rank: identity.local_rank,
        world_size: identity.world_size,
        device_id: integer("device_id", field("device_id")?)?,
        counters: Counters {
            allocator_allocated_bytes: counter("allocator_allocated_bytes")?,
            allocator_reserved_bytes: counter("allocator_reserved_bytes")?,
            allocator_active_bytes: counter("allocator_active_bytes")?,
            allocator_inactive_bytes: counter("allocator_inactive_bytes")?,
            allocator_change_bytes: counter("allocator_change_bytes")?,
            device_used_bytes: counter("device_used_bytes")?,
            device_free_bytes: counter("device_free_bytes")?,
            device_total_bytes: counter("device_total_bytes")?,
        },
        context: optional_text("context", field("context")?)?,
        metadata: field("metadata")?
            .as_map()
            .cloned()
            .ok_or(RecordError::MetadataNotAnObject)?,
    })
}

/// The session id of a record: the id in the record, otherwise the id in its metadata, otherwise
/// the default. Without these, an id is computed from the record's time, host and process id.
fn session_id_of(record: &Map, metadata: Option<&Map>, defaults: &RecordDefaults) -> Value {
    let recorded = record
        .get("session_id")
        .filter(|value| !value.is_null())
        .or_else(|| metadata.and_then(|metadata| metadata.get("session_id")));
    if let Some(Value::Text(text)) = recorded
        && !text.is_blank()
    {
        return text.clone().into();
    }
    if let Some(default) = &defaults.session_id {
        return default.clone();
    }
    let first = |keys: &[&str], default: Value| {
        let found = keys.iter().find_map(|key| record.get(key));
        let value = found.unwrap_or(&default);
        (!value.is_null()).then(|| python_str(value))
    };
    let parts = [
        first(&["timestamp_ns", "timestamp"], "unknown".into()),
        first(&["host"], "unknown".into()),
        first(&["pid"], Value::Int(-1)),
    ];
    let parts: Vec<Text> = parts.into_iter().flatten().collect();
    Value::Text(stable_legacy_session_id(&parts))
}

fn identity_of(record: &Map) -> Result<DistributedIdentity, RecordError> {
    resolve(&IdentityInput {
        explicit: IDENTITY_FIELDS.map(|key| record.get(key)),
        ..IdentityInput::default()
    })
}
