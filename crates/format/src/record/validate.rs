//! Validates versioned records. The rules are checked in the order in which this file lists them.

use super::identity_of;
use crate::event::{Counters, FIELDS, IDENTITY_FIELDS};
use crate::fields::{at_least, integer, name, optional_name, optional_text};
use crate::record_error::RecordError;
use crate::value::{Map, Value};

/// The counters that may be null, which means unknown, in a record of version 4.
const NULLABLE_IN_V4: [&str; 4] = [
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "allocator_change_bytes",
    "device_used_bytes",
];

/// Checks the keys and the values of a record, whose `schema_version` must be 2, 3 or 4.
pub fn validate(record: &Map) -> Result<(), RecordError> {
    let version = integer(
        "schema_version",
        record.get("schema_version").unwrap_or(&Value::Null),
    )?;
    if !(2..=4).contains(&version) {
        return Err(RecordError::UnsupportedVersion(version.to_string()));
    }
    check_keys(record, version)?;
    check_origin(record, version)?;
    check_counters(record, version)?;
    check_against_total(record)?;
    optional_text("context", field(record, "context"))?;
    let metadata = field(record, "metadata")
        .as_map()
        .ok_or(RecordError::MetadataNotAnObject)?;
    identity_of(record)?;
    if version == 4 {
        check_capabilities(metadata)?;
    }
    Ok(())
}

fn field<'a>(record: &'a Map, key: &str) -> &'a Value {
    record.get(key).unwrap_or(&Value::Null)
}

fn check_keys(record: &Map, version: i64) -> Result<(), RecordError> {
    let is_known = |key: &&str| version > 2 || *key != "session_id";
    let is_required = |key: &&str| is_known(key) && !IDENTITY_FIELDS.contains(key);
    let missing: Vec<&str> = FIELDS
        .into_iter()
        .filter(is_required)
        .filter(|key| !record.contains(key))
        .collect();
    if !missing.is_empty() {
        return Err(RecordError::MissingFields(missing));
    }
    let mut unknown: Vec<String> = record
        .iter()
        .filter(|(key, _)| {
            !FIELDS
                .iter()
                .filter(|known| is_known(known))
                .any(|known| *key == known)
        })
        .map(|(key, _)| key.to_string())
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort();
    Err(RecordError::UnknownFields(unknown))
}

fn check_origin(record: &Map, version: i64) -> Result<(), RecordError> {
    if version > 2 {
        name("session_id", field(record, "session_id"))?;
    }
    at_least("timestamp_ns", field(record, "timestamp_ns"), 0)?;
    name("event_type", field(record, "event_type"))?;
    name("collector", field(record, "collector"))?;
    at_least(
        "sampling_interval_ms",
        field(record, "sampling_interval_ms"),
        0,
    )?;
    at_least("pid", field(record, "pid"), -1)?;
    name("host", field(record, "host"))?;
    optional_name("job_id", record.get("job_id"))?;
    for (key, minimum) in [("rank", 0), ("local_rank", 0), ("world_size", 1)] {
        if let Some(value) = record.get(key) {
            at_least(key, value, minimum)?;
        }
    }
    integer("device_id", field(record, "device_id"))?;
    Ok(())
}

fn check_counters(record: &Map, version: i64) -> Result<(), RecordError> {
    // The five counters of the allocator are checked before those of the device.
    let names = Counters::default().named().map(|(name, _)| name);
    let (allocator, device) = names.split_at(5);
    for group in [allocator, device] {
        for key in group {
            let value = field(record, key);
            let may_be_null = !NULLABLE_IN_V4.contains(key) || version == 4;
            if !(may_be_null && value.is_null()) {
                integer(key, value)?;
            }
        }
        for key in group.iter().filter(|key| **key != "allocator_change_bytes") {
            match field(record, key) {
                Value::Int(value) if *value < 0 && NULLABLE_IN_V4.contains(key) => {
                    return Err(RecordError::TooSmall {
                        field: (*key).into(),
                        minimum: 0,
                    });
                }
                Value::Int(value) if *value < 0 => {
                    return Err(RecordError::NegativeWhenProvided((*key).into()));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn check_against_total(record: &Map) -> Result<(), RecordError> {
    let Some(total) = field(record, "device_total_bytes").as_int() else {
        return Ok(());
    };
    for key in ["device_used_bytes", "device_free_bytes"] {
        if field(record, key).as_int().is_some_and(|part| part > total) {
            return Err(RecordError::ExceedsTotal(key));
        }
    }
    Ok(())
}

/// Checks the `memory_capabilities` of a version 4 record, whose entries for counters must be
/// booleans.
fn check_capabilities(metadata: &Map) -> Result<(), RecordError> {
    let capabilities = metadata
        .object("memory_capabilities")
        .ok_or(RecordError::MissingMemoryCapabilities)?;
    for (key, value) in capabilities.iter() {
        let key = key.to_str_lossy();
        let speaks_of_a_counter = key.starts_with("supports_") || FIELDS.contains(&&*key);
        if speaks_of_a_counter && !matches!(value, Value::Bool(_)) {
            return Err(RecordError::CapabilityNotABoolean(key.into_owned()));
        }
    }
    Ok(())
}
