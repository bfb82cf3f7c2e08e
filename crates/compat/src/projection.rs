//! Projects event records to the form that telemetry tools expect: resource (the source),
//! attributes (the measurements) and correlation (the session, job and phase).

use std::collections::HashSet;

use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::{EventType, Map, Text, Value, metadata_keys, python_str};

/// The version of the format of [`Projected`] records.
pub const PROJECTION_VERSION: i64 = 1;

/// Backends that are recognized as the value of the key `backend` in an event's metadata.
const BACKENDS: [&str; 5] = ["cpu", "cuda", "rocm", "mps", "tensorflow"];

/// Names of backends that a collector's name may contain, in the order of the search.
const COLLECTOR_BACKENDS: [&str; 5] = ["cuda", "rocm", "mps", "cpu", "tensorflow"];

/// The names of measured attributes in a projected record, each with the key of the original record
/// that it is copied from.
const MEASURED: [(&str, &str); 9] = [
    ("sampling.interval_ms", "sampling_interval_ms"),
    (
        "memory.allocator.allocated_bytes",
        "allocator_allocated_bytes",
    ),
    (
        "memory.allocator.reserved_bytes",
        "allocator_reserved_bytes",
    ),
    ("memory.allocator.active_bytes", "allocator_active_bytes"),
    (
        "memory.allocator.inactive_bytes",
        "allocator_inactive_bytes",
    ),
    ("memory.allocator.change_bytes", "allocator_change_bytes"),
    ("memory.device.used_bytes", "device_used_bytes"),
    ("memory.device.free_bytes", "device_free_bytes"),
    ("memory.device.total_bytes", "device_total_bytes"),
];

/// An event record in the form that telemetry tools expect, made by [`project`].
#[derive(Clone, Debug, PartialEq)]
pub struct Projected {
    /// When the recorded event happened, in nanoseconds since the Unix epoch.
    pub timestamp_ns: i64,
    /// The time of observation in nanoseconds: the one that the caller of [`project`] gave, or the
    /// time of the event if the caller gave none.
    pub observed_timestamp_ns: i64,
    /// The id of the recording session that the record belongs to.
    pub session_id: Text,
    /// The backend whose memory was measured, such as `cuda`. If the backend is unknown, the value
    /// is `gpu` for an event whose device id is not negative, and `other` for any other event.
    pub source_kind: &'static str,
    /// The type of the event, such as `sample` or `error`.
    pub event_type: Text,
    /// The name of the program's phase in which the event happened, if the metadata contains it.
    pub stage: Option<Text>,
    /// The severity of the event in lower case, from its metadata or otherwise from its type.
    pub severity: Option<Text>,
    /// The value of the key `severity_text` in the event's metadata.
    pub severity_text: Option<Text>,
    /// The value of the record's key `context`, a text about the event.
    pub body: Option<Text>,
    /// The source of the record: collector, host, process, device, job and rank.
    pub resource: Map,
    /// The measurements and the metadata of the record.
    pub attributes: Map,
    /// The ids of the session, job, rank and phase of the record.
    pub correlation: Map,
}

/// Why [`project`] rejects a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error messages document the variants")]
pub enum ProjectionError {
    #[error("projected telemetry record requires {0}")]
    Missing(&'static str),
    #[error("projected telemetry record metadata must be a mapping")]
    MetadataNotAMapping,
    #[error("{0} must fit a signed 64-bit integer")]
    IntegerTooLarge(&'static str),
}

/// Projects a record of any version that has a session id: copies its fields into the resource
/// (the source), the attributes (the measurements) and the correlation (session, job and phase).
///
/// `observed` is the time at which the event was observed, in nanoseconds; if it is `None` or null,
/// the timestamp of the record is used.
///
/// ```
/// let json = br#"{"session_id": "s", "timestamp_ns": 5, "event_type": "stop", "metadata": {}}"#;
/// let record = stormlog_format::json::parse(json).expect("JSON");
/// let record = record.as_map().expect("an object");
/// let projected = stormlog_compat::projection::project(record, None).expect("it names its session");
/// assert_eq!(projected.severity.expect("known for this type"), "info");
/// ```
pub fn project(record: &Map, observed: Option<&Value>) -> Result<Projected, ProjectionError> {
    let name = |key: &'static str| match record.get(key) {
        Some(Value::Text(text)) if !text.is_blank() => Ok(text.clone()),
        _ => Err(ProjectionError::Missing(key)),
    };
    let session_id = name("session_id")?;
    let timestamp_ns = time(
        "timestamp_ns",
        "integer timestamp_ns",
        record.get("timestamp_ns"),
    )?;
    let observed_timestamp_ns = match observed {
        None | Some(Value::Null) => timestamp_ns,
        given => observed_time(given)?,
    };
    let event_type = name("event_type")?;
    let nothing = Map::new();
    let metadata = match record.get("metadata") {
        None => &nothing,
        Some(Value::Map(metadata)) => metadata,
        Some(_) => return Err(ProjectionError::MetadataNotAMapping),
    };
    let source_kind = source_kind(record, metadata);
    Ok(Projected {
        timestamp_ns,
        observed_timestamp_ns,
        source_kind,
        stage: stage(metadata),
        severity: severity(&event_type, metadata),
        severity_text: optional_str(metadata.get("severity_text")),
        body: optional_str(record.get("context")),
        resource: resource(record, source_kind),
        attributes: attributes(record, metadata),
        correlation: correlation(record, metadata),
        session_id,
        event_type,
    })
}

/// The indices of the maps whose JSON text, with sorted keys, differs from that of every earlier
/// map.
pub fn distinct<'a>(maps: impl IntoIterator<Item = &'a Map>) -> Vec<usize> {
    let mut seen = HashSet::new();
    let maps = maps.into_iter().enumerate();
    maps.filter(|(_, map)| seen.insert(canonical().map_to_string(map)))
        .map(|(index, _)| index)
        .collect()
}

fn canonical() -> Writer {
    Writer::new(Layout::Line)
        .sorted()
        .non_finite(NonFinite::Bare)
}

fn time(
    key: &'static str,
    wanted: &'static str,
    value: Option<&Value>,
) -> Result<i64, ProjectionError> {
    match value {
        Some(Value::Int(time)) => Ok(*time),
        Some(Value::Big(_)) => Err(ProjectionError::IntegerTooLarge(key)),
        _ => Err(ProjectionError::Missing(wanted)),
    }
}

fn observed_time(value: Option<&Value>) -> Result<i64, ProjectionError> {
    let time = time(
        "observed_timestamp_ns",
        "integer observed_timestamp_ns",
        value,
    )?;
    if time < 0 {
        return Err(ProjectionError::Missing(
            "non-negative observed_timestamp_ns",
        ));
    }
    Ok(time)
}

fn source_kind(record: &Map, metadata: &Map) -> &'static str {
    let lower = |map: &Map, key: &str| {
        let text = map.text(key);
        text.map(|text| text.stripped().lowercased())
    };
    if let Some(backend) = lower(metadata, "backend")
        && let Some(known) = BACKENDS.into_iter().find(|known| backend == *known)
    {
        return known;
    }
    if let Some(collector) = lower(record, "collector") {
        let collector = collector.to_str_lossy();
        if let Some(known) = COLLECTOR_BACKENDS
            .into_iter()
            .find(|known| collector.contains(known))
        {
            return known;
        }
    }
    let on_device = match record.get("device_id") {
        Some(Value::Int(device)) => *device >= 0,
        Some(Value::Big(digits)) => !digits.starts_with('-'),
        Some(Value::Bool(_)) => true,
        _ => false,
    };
    if on_device { "gpu" } else { "other" }
}

fn stage(metadata: &Map) -> Option<Text> {
    let scope = metadata.object(metadata_keys::PHASE_SCOPE)?;
    let known = |value: &Value| value.as_text().filter(|text| !text.is_blank()).cloned();
    let name = scope.get("name").and_then(known);
    name.or_else(|| scope.list("path").last().and_then(known))
}

fn severity(event_type: &Text, metadata: &Map) -> Option<Text> {
    if let Some(severity) = metadata.text(metadata_keys::SEVERITY)
        && !severity.is_blank()
    {
        return Some(severity.stripped().lowercased());
    }
    let by_type = match EventType::of(event_type.stripped().lowercased().as_bytes())? {
        EventType::Critical => "critical",
        EventType::Error => "error",
        EventType::Warning | EventType::CollectorDegraded => "warning",
        EventType::CollectorRecovered
        | EventType::Start
        | EventType::Stop
        | EventType::PhaseEnter
        | EventType::PhaseExit
        | EventType::Sample => "info",
        _ => return None,
    };
    Some(by_type.into())
}

fn optional_str(value: Option<&Value>) -> Option<Text> {
    value.filter(|value| !value.is_null()).map(python_str)
}

fn resource(record: &Map, source_kind: &str) -> Map {
    let mut resource = Map::new();
    resource.insert("source_kind", source_kind);
    copy(
        &mut resource,
        record,
        &[
            "collector",
            "host",
            "pid",
            "device_id",
            "job_id",
            "rank",
            "local_rank",
            "world_size",
        ],
    );
    resource
}

fn attributes(record: &Map, metadata: &Map) -> Map {
    let mut attributes = metadata.clone();
    for (name, key) in MEASURED {
        attributes.insert(name, record.get(key).cloned().unwrap_or(Value::Null));
    }
    attributes
}

fn correlation(record: &Map, metadata: &Map) -> Map {
    let mut correlation = Map::new();
    copy(
        &mut correlation,
        record,
        &["session_id", "job_id", "rank", "local_rank", "world_size"],
    );
    if let Some(scope) = metadata.object(metadata_keys::PHASE_SCOPE) {
        for key in ["scope_id", "parent_scope_id", "sequence"] {
            if let Some(value) = scope.get(key).filter(|value| !value.is_null()) {
                correlation.insert(format!("phase.{key}"), value.clone());
            }
        }
    }
    correlation
}

fn copy(target: &mut Map, record: &Map, keys: &[&str]) {
    for key in keys {
        target.insert(*key, record.get(key).cloned().unwrap_or(Value::Null));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::parse;

    fn record(json: &str) -> Map {
        let value = parse(json.as_bytes()).expect("valid JSON");
        value.as_map().expect("an object").clone()
    }

    fn projected(metadata: &str, rest: &str) -> Projected {
        let json = format!(
            r#"{{"session_id": "s", "timestamp_ns": 1, "event_type": "sample",
                "metadata": {metadata}{rest}}}"#
        );
        project(&record(&json), None).expect("a sound record")
    }

    #[test]
    fn kinds_of_sources() {
        assert_eq!(projected(r#"{"backend": " CUDA"}"#, "").source_kind, "cuda");
        assert_eq!(
            projected("{}", r#", "collector": "Tensorflow.cpu""#).source_kind,
            "cpu"
        );
        assert_eq!(projected("{}", r#", "device_id": 0"#).source_kind, "gpu");
        assert_eq!(projected("{}", r#", "device_id": -1"#).source_kind, "other");
    }

    #[test]
    fn phases() {
        let scope = r#"{"phase_scope": {"name": " ", "path": ["train", "step"], "scope_id": 7}}"#;
        let projected = projected(scope, "");
        assert_eq!(projected.stage.expect("named by its path"), "step");
        assert_eq!(
            projected.correlation.get("phase.scope_id"),
            Some(&Value::Int(7))
        );
        assert!(!projected.correlation.contains("phase.sequence"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |json: &str| {
            let error = project(&record(json), None).expect_err("incomplete");
            error.to_string()
        };
        assert_eq!(
            error("{}"),
            "projected telemetry record requires session_id"
        );
        assert_eq!(
            error(r#"{"session_id": "s", "timestamp_ns": true}"#),
            "projected telemetry record requires integer timestamp_ns"
        );
    }

    #[test]
    fn views_are_distinct_by_their_spelling() {
        let maps = [r#"{"a": 1}"#, r#"{"a": 1.0}"#, r#"{"a": 1}"#].map(record);
        assert_eq!(distinct(&maps), [0, 1]);
    }
}
