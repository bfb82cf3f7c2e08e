//! Upgrades legacy records, which have no version, from every form that earlier programs wrote.

use super::{RecordDefaults, session_id_of};
use crate::event::{IDENTITY_FIELDS, Version};
use crate::event_type::EventType;
use crate::fields::{integer, name, optional_text};
use crate::identity::{IdentityInput, resolve};
use crate::number::{IntegerError, truncate};
use crate::record_error::RecordError;
use crate::text::{Text, strip};
use crate::value::{Map, Value};

const BYTES_PER_MB: f64 = 1_048_576.0;
const NANOS_PER_SECOND: f64 = 1e9;
const METADATA_PREFIX: &str = "metadata_";

/// Converts a legacy record, which has no `schema_version`, to the form of version 3. The result
/// must still be validated.
pub(crate) fn upgrade(record: &Map, defaults: &RecordDefaults) -> Result<Map, RecordError> {
    let mut metadata = collect_metadata(record)?;
    let timestamp_ns = timestamp_ns(record)?;
    let session_id = session_id_of(record, Some(&metadata), defaults);
    let device_id = device_id(record)?;
    let allocated = allocated(record)?;
    let reserved = first_integer(record, &["allocator_reserved_bytes", "memory_reserved"])?;
    let change = first_integer(record, &["allocator_change_bytes", "memory_change"])?;
    let active = nullable(record, "allocator_active_bytes")?;
    let inactive = nullable(record, "allocator_inactive_bytes")?;
    let used = first_integer(record, &["device_used_bytes"])?.unwrap_or(allocated);
    let total = total(record, &metadata)?;
    let free = match record.get("device_free_bytes") {
        Some(Value::Null) => None,
        Some(value) => Some(integer("device_free_bytes", value)?),
        None => total.map(|total| total.saturating_sub(used).max(0)),
    };
    let event_type = match record.get("event_type").or_else(|| record.get("type")) {
        Some(value) => name("event_type", value)?,
        None => EventType::Sample.into(),
    };
    let interval = record
        .get("sampling_interval_ms")
        .unwrap_or(&defaults.sampling_interval_ms);
    let interval = integer("sampling_interval_ms", interval)?;
    let or_metadata = |key: &str| record.get(key).or_else(|| metadata.get(key));
    let pid = or_metadata("pid").map_or(Ok(-1), |value| integer("pid", value))?;
    let host = or_metadata("host").map_or(Ok("unknown".into()), |value| name("host", value))?;
    let collector = collector(record, &metadata, device_id, &defaults.collector);
    let identity = resolve(&IdentityInput {
        explicit: IDENTITY_FIELDS.map(|key| record.get(key)),
        metadata: Some(&metadata),
        ..IdentityInput::default()
    })?;
    let context = record.get("context").or_else(|| record.get("message"));
    let context = optional_text("context", context.unwrap_or(&Value::Null))?;

    for key in IDENTITY_FIELDS.into_iter().chain(["session_id"]) {
        metadata.remove(key);
    }
    let mut upgraded = Map::new();
    upgraded.insert("schema_version", Version::V3.number());
    upgraded.insert("session_id", session_id);
    upgraded.insert("timestamp_ns", timestamp_ns);
    upgraded.insert("event_type", event_type);
    upgraded.insert("collector", collector);
    upgraded.insert("sampling_interval_ms", interval);
    upgraded.insert("pid", pid);
    upgraded.insert("host", host);
    upgraded.insert("job_id", identity.job_id);
    upgraded.insert("rank", identity.rank);
    upgraded.insert("local_rank", identity.local_rank);
    upgraded.insert("world_size", identity.world_size);
    upgraded.insert("device_id", device_id);
    upgraded.insert("allocator_allocated_bytes", allocated);
    upgraded.insert("allocator_reserved_bytes", reserved.unwrap_or(allocated));
    upgraded.insert("allocator_active_bytes", active);
    upgraded.insert("allocator_inactive_bytes", inactive);
    upgraded.insert("allocator_change_bytes", change.unwrap_or(0));
    upgraded.insert("device_used_bytes", used);
    upgraded.insert("device_free_bytes", free);
    upgraded.insert("device_total_bytes", total);
    upgraded.insert("context", context);
    upgraded.insert("metadata", Value::Map(metadata));
    Ok(upgraded)
}

fn collect_metadata(record: &Map) -> Result<Map, RecordError> {
    let metadata = match record.get("metadata") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Map(map)) => map.clone(),
        Some(_) => return Err(RecordError::LegacyMetadataNotAnObject),
    };
    let prefixed = record.iter().filter_map(|(key, value)| {
        let key = key.as_bytes().strip_prefix(METADATA_PREFIX.as_bytes())?;
        Some((Text::from_bytes(key), value.clone()))
    });
    Ok(metadata.into_iter().chain(prefixed).collect())
}

fn timestamp_ns(record: &Map) -> Result<i64, RecordError> {
    if let Some(value) = record.get("timestamp_ns") {
        return integer("timestamp_ns", value);
    }
    let seconds = record.get("timestamp").and_then(Value::as_number);
    truncated(
        "timestamp",
        seconds.ok_or(RecordError::MissingTimestamp)? * NANOS_PER_SECOND,
    )
}

fn device_id(record: &Map) -> Result<i64, RecordError> {
    if let Some(value) = record.get("device_id") {
        return integer("device_id", value);
    }
    if let Some(device) = record.text("device")
        && let Some(id) = device_from_name(&device.to_str_lossy().to_lowercase())?
    {
        return Ok(id);
    }
    Ok(if record.contains("memory_mb") { 0 } else { -1 })
}

fn device_from_name(device: &str) -> Result<Option<i64>, RecordError> {
    if device.contains("cpu") {
        return Ok(Some(-1));
    }
    if let Some((_, digits)) = device.rsplit_once(':')
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        let id = digits.parse();
        return id
            .map(Some)
            .map_err(|_| RecordError::IntegerTooLarge("device".into()));
    }
    Ok(device.starts_with("/gpu").then_some(0))
}

fn allocated(record: &Map) -> Result<i64, RecordError> {
    if let Some(value) = first_integer(record, &["allocator_allocated_bytes", "memory_allocated"])?
    {
        return Ok(value);
    }
    if let Some(megabytes) = record.get("memory_mb").and_then(Value::as_number) {
        return truncated("memory_mb", megabytes * BYTES_PER_MB);
    }
    Ok(first_integer(record, &["device_used_bytes"])?.unwrap_or(0))
}

/// The total memory of the device: the first of the possible keys that is present decides, even if
/// its value is null (unknown).
fn total(record: &Map, metadata: &Map) -> Result<Option<i64>, RecordError> {
    if record.contains("device_total_bytes") {
        return nullable(record, "device_total_bytes");
    }
    for map in [record, metadata] {
        for key in ["total_memory", "device_total", "total_bytes"] {
            if map.contains(key) {
                return nullable(map, key);
            }
        }
    }
    Ok(None)
}

fn nullable(record: &Map, key: &str) -> Result<Option<i64>, RecordError> {
    match record.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => integer(key, value).map(Some),
    }
}

fn first_integer(map: &Map, keys: &[&str]) -> Result<Option<i64>, RecordError> {
    for key in keys {
        if let Some(value) = map.get(key) {
            return integer(key, value).map(Some);
        }
    }
    Ok(None)
}

fn collector(record: &Map, metadata: &Map, device_id: i64, default: &Value) -> Value {
    let named = record.text("collector");
    if let Some(text) = named.filter(|text| !text.is_blank()) {
        return text.clone().into();
    }
    let backend = record
        .get("backend")
        .or_else(|| metadata.get("backend"))
        .and_then(Value::as_text);
    if let Some(backend) = backend {
        let backend = backend.to_str_lossy().to_lowercase();
        let backend = strip(&backend);
        if ["mps", "rocm", "cuda", "cpu"].contains(&backend) {
            return Value::text(format!("stormlog.{backend}_tracker"));
        }
    }
    if record.contains("memory_mb") {
        return "stormlog.tensorflow.memory_tracker".into();
    }
    if record.contains("memory_allocated") {
        let collector = if device_id == -1 {
            "stormlog.cpu_tracker"
        } else {
            "stormlog.cuda_tracker"
        };
        return collector.into();
    }
    default.clone()
}

fn truncated(field: &'static str, value: f64) -> Result<i64, RecordError> {
    truncate(value).map_err(|error| match error {
        IntegerError::TooLarge => RecordError::IntegerTooLarge(field.into()),
        _ => RecordError::NotFinite(field),
    })
}
